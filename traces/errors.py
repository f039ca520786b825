"""Every way a user's request can fail, one class per thing the user can do about it.

The commands turn each into one line on stderr and the exit code of its class
(docs/commands.md); `--debug` shows the traceback.
"""

from __future__ import annotations


class SpecscopeError(Exception):
    """Base of all errors meant for the user; the message is one line with its mend."""

    exit_code = 2


class UsageError(SpecscopeError):
    """The command or call was used wrongly."""

    exit_code = 2


class TraceFormatError(SpecscopeError):
    """The input cannot be read as a trace; the message says what it is instead."""

    exit_code = 3


class EvidenceError(SpecscopeError):
    """The trace does not support the figure that was demanded."""

    exit_code = 4
