"""Who may ask the application what: a WSGI layer that lets nothing else through.

One user of this machine, through one browser: who has the token of the printed URL. Every request
names this machine as its host, comes from the application's own page, and asks for one of a fixed
set of paths; none of them is ever joined to a path of the file system.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
TOKEN_BYTES: Final = 32
# The body of a callback: states of a page, an SQL statement.
MOST_BODY_BYTES: Final = 1 << 20

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]

# Version and time of a file, which Dash puts into its name.
_STAMP: Final = re.compile(r"\.v[\w-]+m[0-9a-f]+\.", re.ASCII)

_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_REPLACED: Final = frozenset(name.lower() for name, _ in _HEADERS)


@dataclass(frozen=True)
class Access:
    """What opens the application: the token of its URL, and the path that it lies under.

    Browsers send cookies of one port to every other port of a host, but not to other paths: the
    path is random, so that no other server of this machine is sent the cookie.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)
    base: str = field(default_factory=lambda: f"/{secrets.token_hex(8)}/")

    @property
    def cookie(self) -> str:
        """Name of the cookie that holds the token after the first visit."""
        return "specscope"

    def url(self, port: int) -> str:
        """What to open."""
        return f"http://127.0.0.1:{port}{self.base}?token={self.token}"


class Guard:
    """Lets through what `access` opens; `reads` and `posts` are the paths, whole, that exist."""

    def __init__(
        self,
        inner: Wsgi,
        access: Access,
        *,
        reads: Iterable[str],
        posts: Iterable[str],
        policy: str,
    ) -> None:
        self._inner = inner
        self._access = access
        self._reads = frozenset(reads)
        self._posts = frozenset(posts)
        self._policy = policy

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        refused = self._refusal(environ)
        if refused is not None:
            return self._answer(start, *refused)
        token = _token_of(environ)
        path = environ.get("PATH_INFO", "")
        if token is not None:
            if path != self._access.base or not self._is_token(token):
                return self._answer(
                    start, "403 Forbidden", "the token is wrong: use the printed URL"
                )
            # The token leaves the address line; what stands behind its # stays.
            cookie = (
                f"{self._access.cookie}={self._access.token}; Path={self._access.base}; "
                "HttpOnly; SameSite=Strict"
            )
            more = [("Location", self._access.base), ("Set-Cookie", cookie)]
            return self._answer(start, "303 See Other", "", more)
        if not self._is_token(_cookie_of(environ, self._access.cookie)):
            return self._answer(
                start, "403 Forbidden", "open the URL that specscope printed, with its token"
            )
        allowed = self._posts if environ.get("REQUEST_METHOD") == "POST" else self._reads
        if _STAMP.sub(".", path, count=1) not in allowed:
            return self._answer(start, "404 Not Found", "there is nothing here")
        return self._inner(environ, self._started(start))

    def _refusal(self, environ: Environ) -> tuple[str, str] | None:
        """What is refused whoever asks: other hosts, other pages, other methods."""
        host = environ.get("HTTP_HOST", "")
        if not _is_local(host):
            return "403 Forbidden", "this server answers to 127.0.0.1 and localhost only"
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin != f"http://{host}":
            return "403 Forbidden", "requests of other pages are refused"
        site = environ.get("HTTP_SEC_FETCH_SITE", "none")
        if site not in ("none", "same-origin") and environ.get("HTTP_SEC_FETCH_MODE") != "navigate":
            return "403 Forbidden", "requests of other pages are refused"
        method = environ.get("REQUEST_METHOD", "")
        if method not in ("GET", "HEAD", "POST"):
            return "405 Method Not Allowed", "GET, HEAD and POST only"
        if method == "POST":
            return _bad_body(environ)
        return None

    def _is_token(self, given: str | None) -> bool:
        """In constant time."""
        found = (given or "").encode("utf-8", "replace")
        return hmac.compare_digest(found, self._access.token.encode())

    def _answer(
        self,
        start: StartResponse,
        status: str,
        text: str,
        more: Iterable[tuple[str, str]] = (),
    ) -> list[bytes]:
        body = f"specscope: {text}\n".encode() if text else b""
        headers = [("Content-Type", "text/plain; charset=utf-8"), *more]
        headers.append(("Content-Length", str(len(body))))
        self._started(start)(status, headers)
        return [body]

    def _started(self, start: StartResponse) -> StartResponse:
        """`start_response` that puts our headers into every answer, in place of the inner ones."""

        def with_headers(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            kept = [(name, value) for name, value in headers if name.lower() not in _REPLACED]
            return start(
                status, [*kept, *_HEADERS, ("Content-Security-Policy", self._policy)], *rest
            )

        return with_headers


def policy(script_hashes: Iterable[str]) -> str:
    """The content policy: our own files and these inline scripts; nothing from anywhere else."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def _is_local(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "80"
    # Any port: at the near end of an ssh tunnel it may be another one.
    return name in HOSTS and port.isascii() and port.isdecimal()


def _bad_body(environ: Environ) -> tuple[str, str] | None:
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A form of another page can send anything but this.
        return "415 Unsupported Media Type", "JSON only"
    length = environ.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdecimal()):
        return "411 Length Required", "the length of the body is missing"
    if len(length) > 9 or int(length) > MOST_BODY_BYTES:
        return "413 Content Too Large", f"more than {MOST_BODY_BYTES >> 20} MiB"
    return None


def _token_of(environ: Mapping[str, Any]) -> str | None:
    """The token in the query, where there is one."""
    query = str(environ.get("QUERY_STRING", ""))
    if "token=" not in query:
        return None
    try:
        return parse_qs(query, max_num_fields=16, keep_blank_values=True).get("token", [""])[0]
    except ValueError:
        return ""


def _cookie_of(environ: Mapping[str, Any], name: str) -> str | None:
    try:
        found = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(name)
    except CookieError:
        return None
    return None if found is None else str(found.value)
