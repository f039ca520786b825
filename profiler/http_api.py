"""HTTP to a serving engine: JSON in and out, an API key that no message ever shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from specscope.profiler.masking import MASK
from specscope.profiler.server_errors import ServerError, UnsuitableError

# Seconds for a question that a server answers at once, also a busy one.
SHORT_SECONDS = 30.0
_MOST_WORDS = 200
_MOST_BYTES = 64 << 20


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
        """The answer as a JSON value, or None when it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


@dataclass
class Api:
    """A server at `url`. Every failure is a ServerError in one line.

    `api_key` is sent as a bearer token and masked in every message.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
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
        """One request. `stop` ends it from another thread; a ServerError then, too."""
        connection = self._connection(seconds)
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            connection.connect()
            if stop is not None:
                stop.watch(connection.sock)
            connection.request(method, self._path + path, data, headers)
            answer = connection.getresponse()
            text = answer.read(_MOST_BYTES).decode("utf-8", "replace")
        except TimeoutError as error:
            raise ServerError(
                f"{self.title} did not answer {method} {path} within {seconds:.0f} s"
            ) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # UnicodeError: a host name that is none. The words of an HTTPException may hold
            # what the server sent, so only its kind is shown.
            reason = error.strerror if isinstance(error, OSError) else None
            reason = reason or type(error).__name__
            raise ServerError(f"{self.title} does not answer {method} {path}: {reason}") from error
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise UnsuitableError(
                f"{self.title}{path} wants a key ({answer.status}): give --api-key, or set "
                "SPECSCOPE_API_KEY" + (" (the one given is refused)" if self.api_key else "")
            )
        return Reply(answer.status, text)

    def words(self, reply: Reply) -> str:
        """What the server said of a refusal: status and the beginning of its own words."""
        said = reply.json()
        if isinstance(said, dict):
            said = said.get("error") or said.get("detail") or said.get("message") or said
            said = said.get("message", said) if isinstance(said, dict) else said
        text = " ".join(str(said if said is not None else reply.text).split())
        if self.api_key:
            text = text.replace(self.api_key, MASK)
        return f"{reply.status}: {text[:_MOST_WORDS]}" if text else str(reply.status)

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=seconds)


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


def _split(url: str) -> SplitResult:
    """The URL taken apart; `localhost:30000` is one too."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
    if not port_is_fine or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UnsuitableError(
            f"{url[:200]!r} is no URL of a server; example: http://localhost:30000"
        )
    if parts.username or parts.password:
        raise UnsuitableError("give the key with --api-key, not inside the URL")
    return parts
