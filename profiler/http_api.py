"""HTTP to a serving engine: JSON in and out, an API key that no message ever shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from specscope.profiler.masking import MASK, text
from specscope.profiler.server_errors import ServerError, UnsuitableError

# How a user gives the keys.
API_KEY = "--api-key or SPECSCOPE_API_KEY"
ADMIN_KEY = "--admin-api-key or SPECSCOPE_ADMIN_API_KEY"
# Seconds for a question that a server answers at once, also a busy one.
SHORT_SECONDS = 30.0
_MOST_WORDS = 200
_MOST_BYTES = 64 << 20
# What a socket takes as a time limit, in seconds; one day is enough for anything.
_MOST_SECONDS = 86_400.0
_DEEPEST = 64
# Pages that only an administrator's key opens, where SGLang has one.
_ADMIN_PAGES = frozenset({"/start_profile", "/stop_profile"})


@dataclass(frozen=True)
class Reply:
    """Status and text of an answer."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The answer as a JSON value, or None when it is none, or nested without end."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return value if _is_shallow(value) else None


@dataclass
class Api:
    """A server at `url`. Every failure is a ServerError in one line.

    `api_key` is sent as a bearer token and masked in every message; `admin_key` goes in its place
    to the pages that start and stop the profiler, where it is given.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    admin_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_key(self.api_key, API_KEY)
        check_key(self.admin_key, ADMIN_KEY)
        parts = _split(self.url)
        self.host = str(parts.hostname)
        self.secure = parts.scheme == "https"
        self.port = parts.port or (443 if self.secure else 80)
        self._path = parts.path.rstrip("/")
        # What may be shown and written: without a query, which may hold a secret.
        self.title = f"{parts.scheme}://{parts.netloc}{self._path}"

    def get(self, path: str, *, seconds: float = SHORT_SECONDS) -> Reply:
        """GET; the reply, whatever its status."""
        return self.call("GET", path, None, seconds=seconds)

    def post(self, path: str, body: Any, *, seconds: float = SHORT_SECONDS) -> Reply:
        """POST a JSON value; the reply, whatever its status."""
        return self.call("POST", path, body, seconds=seconds)

    def json(self, path: str) -> Any:
        """GET; the JSON value, or None when the server does not have that page."""
        reply = self.get(path)
        return reply.json() if reply.ok else None

    def call(
        self, method: str, path: str, body: Any, *, seconds: float, stop: Stop | None = None
    ) -> Reply:
        """One request, `seconds` from its beginning to the last byte of the answer.

        `stop` ends it from another thread; a ServerError then, too.
        """
        if not 0 < seconds <= _MOST_SECONDS:  # a NaN compares false
            raise UnsuitableError(f"a time limit of {seconds} s is none: above 0, at most a day")
        until = time.monotonic() + seconds
        key = self._key(path)
        connection = self._connection(seconds)
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if key:
            headers["Authorization"] = f"Bearer {key}"
        deadline = _Deadline(until)
        try:
            connection.connect()
            if stop is not None:
                stop.watch(connection.sock)
            with deadline.on(connection.sock):
                connection.request(method, self._path + path, data, headers)
                answer = connection.getresponse()
                said = answer.read(_MOST_BYTES).decode("utf-8", "replace")
            if deadline.passed:
                raise TimeoutError
        except (OSError, http.client.HTTPException, ValueError) as error:
            if deadline.passed or isinstance(error, TimeoutError):
                raise ServerError(
                    f"{self.title} did not answer {method} {path} within {seconds:.0f} s"
                ) from error
            # ValueError: a host name or an answer that is none. The words of these errors may
            # hold what was sent, so only their kind is shown.
            reason = error.strerror if isinstance(error, OSError) else None
            reason = reason or type(error).__name__
            raise ServerError(f"{self.title} does not answer {method} {path}: {reason}") from error
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise UnsuitableError(self._wants_key(path, answer.status, key))
        return Reply(answer.status, said)

    def _key(self, path: str) -> str | None:
        return (self.admin_key if path in _ADMIN_PAGES else None) or self.api_key

    def _wants_key(self, path: str, status: int, key: str | None) -> str:
        refused = " (the one given is refused)" if key else ""
        admin = (
            f"; a server with an admin key of its own wants {ADMIN_KEY} here"
            if path in _ADMIN_PAGES and not self.admin_key
            else ""
        )
        return f"{self.title}{path} wants a key ({status}): give {API_KEY}{refused}{admin}"

    def words(self, reply: Reply) -> str:
        """What the server said of a refusal: status and the beginning of its own words."""
        said = reply.json()
        if isinstance(said, dict):
            said = said.get("error") or said.get("detail") or said.get("message") or said
            said = said.get("message", said) if isinstance(said, dict) else said
        words = text(" ".join(str(said if said is not None else reply.text).split()))
        for key in filter(None, (self.api_key, self.admin_key)):
            words = words.replace(key, MASK)
        return f"{reply.status}: {words[:_MOST_WORDS]}" if words else str(reply.status)

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=seconds)


class _Deadline:
    """Ends a connection at a time: each byte of an answer that drips comes within its own limit."""

    def __init__(self, until: float) -> None:
        self._until = until
        self.passed = False

    @contextlib.contextmanager
    def on(self, sock: socket.socket) -> Iterator[None]:
        """Watch `sock` meanwhile."""

        def end() -> None:
            self.passed = True
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, self._until - time.monotonic()), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class Stop:
    """Ends a running request from another thread; the engine then drops it."""

    def __init__(self) -> None:
        self.asked = False
        self._socket: socket.socket | None = None

    def watch(self, sock: socket.socket) -> None:
        """The socket to shut down; at once when that was asked for before."""
        self._socket = sock
        if self.asked:
            self.now()

    def now(self) -> None:
        """End the request."""
        self.asked = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        nested = [one for one in level if isinstance(one, (dict, list))]
        if not nested:
            return True
        level = [
            one for part in nested for one in (part.values() if isinstance(part, dict) else part)
        ]
    return False


def check_key(key: str | None, option: str) -> None:
    """Refuse a key that cannot be sent, without showing it: only visible ASCII goes in a header."""
    if key and not re.fullmatch(r"[!-~]+", key):
        raise UnsuitableError(
            f"the key of {option} holds a character that cannot be sent (a space, the end of a "
            "line, or one outside ASCII)"
        )


def _split(url: str) -> SplitResult:
    """The URL taken apart; `localhost:30000` is one too."""
    whole = url if "://" in url else f"http://{url}"
    if "@" in whole:  # before anything else: no line may show it
        raise UnsuitableError(f"give the key with {API_KEY}, not inside the URL")
    try:
        parts = urlsplit(whole)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
    sendable = re.fullmatch(r"[!-~]+", whole) is not None
    if (
        not port_is_fine
        or not sendable
        or parts.scheme not in {"http", "https"}
        or not parts.hostname
    ):
        shown = text(url.partition("?")[0])[:_MOST_WORDS]
        raise UnsuitableError(f"{shown!r} is no URL of a server; example: http://localhost:30000")
    return parts
