"""What can go wrong between specscope and a server: one line each, for the user."""

from __future__ import annotations


class ServerError(Exception):
    """The server went away, refused, or gave no trace. `str()` is the line for the user."""


class UnsuitableError(ServerError):
    """The server, as it runs, cannot do what was asked for; the line says what to change."""
