"""Fetches the metrics of a running server: one GET, within a time and a size."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from specscope.profiler.http_api import API_KEY, Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.traces.errors import TraceFormatError, UsageError
from specscope.traces.metrics_text import MOST_TEXT

SECONDS: Final = 10.0
DEFAULT_PATH: Final = "/metrics"
KEY: Final = "SPECSCOPE_API_KEY"


def is_address(word: str) -> bool:
    """Was an address meant, and not a file?"""
    return word.lower().startswith(("http://", "https://"))


def title(address: str) -> str:
    """What may be shown of an address: neither its query nor a password in it."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch(address: str, *, seconds: float = SECONDS) -> str:
    """The text at an http or https address; without a path, that of `/metrics`.

    No redirect is followed. The key of SPECSCOPE_API_KEY is sent where there is one. Raises
    UsageError and TraceFormatError, in one line.
    """
    try:
        parts = urlsplit(address)
        path = parts.path if parts.path.strip("/") else DEFAULT_PATH
        api = Api(f"{parts.scheme}://{parts.netloc}", os.environ.get(KEY) or None)
        reply = api.get(path + (f"?{parts.query}" if parts.query else ""), seconds=seconds)
    except ValueError as error:
        raise UsageError(
            "--metrics: that is no address; example: http://localhost:30000"
        ) from error
    except UnsuitableError as error:
        raise UsageError(_line(error, address)) from error
    except ServerError as error:
        raise TraceFormatError(_line(error, address)) from error
    if not reply.ok:
        raise TraceFormatError(
            f"--metrics: {title(address)} answers {reply.status}; SGLang has its metrics with "
            "--enable-metrics"
        )
    if len(reply.text) >= MOST_TEXT:
        raise TraceFormatError(f"--metrics: {title(address)} sends more than {MOST_TEXT >> 20} MiB")
    return reply.text


def _line(error: Exception, address: str) -> str:
    """The words of the error without the query, which may hold a key."""
    query = address.partition("?")[2]
    words = str(error).replace(API_KEY, KEY)
    return f"--metrics: {words.replace(f'?{query}', '') if query else words}"
