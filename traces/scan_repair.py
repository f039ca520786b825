"""Where to go on after text that is not JSON, and how to mend an event or a header value.

Works on the bytes of one stretch; shared by both readers, so that they cannot differ. The
rules are those of docs/design/scanner.md: mend only what the strict grammar refused, and only
where the mended reading is the one the writer must have meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLANKS = rb"[\x00-\x20]"
EVENT_KEYS = rb"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s|sf|tts|tdur|cname)"

# Every pattern here is bounded in length (MARGIN), so that text read in blocks gives the same
# answer as text read whole.
MARGIN = 2048
_SOME = BLANKS + rb"{0,256}"

# A new document inside or behind another one.
DOCUMENT_START = re.compile(
    rb"\{"
    + _SOME
    + rb'"(?:schemaVersion|traceEvents|deviceProperties|displayTimeUnit|distributedInfo)"'
    + _SOME
    + rb":"
)
_PLACES = re.compile(
    rb"(?P<before>[,}\n]"
    + _SOME
    + rb")(?P<event>\{"
    + _SOME
    + rb'"'
    + EVENT_KEYS
    + rb'"'
    + _SOME
    + rb":)"
    rb"|[},]" + _SOME + rb"(?P<close>\])(?=" + _SOME + rb"(?:," + _SOME + rb'"|\}|(?P<end>\Z)))'
    rb"|(?P<document>" + DOCUMENT_START.pattern + rb")"
)
_NEWLINE_INDENT = re.compile(rb"\n([\x00-\x09\x0b-\x20]{0,250})\Z")

# Where a header can be picked up again.
HEADER_PLACE = re.compile(
    rb'"traceEvents"'
    + _SOME
    + rb":"
    + _SOME
    + rb"\[|"
    + DOCUMENT_START.pattern
    + rb'|\n[ \t]{0,16}"[^"\\\x00-\x1f]{1,128}"'
    + _SOME
    + rb":"
)


def indent_of(before: bytes) -> int | None:
    """Blanks between the last line break and the end of `before`; None: something else there."""
    found = _NEWLINE_INDENT.search(before)
    return len(found[1]) if found else None


def places(
    buf: object, start: int, end: int, final: bool, indent: int | None
) -> Iterator[tuple[int, str]]:
    """Where the array can be picked up again in buf[start:end]: position and what is there.

    `event`: an event seems to start; `close`: the array's bracket; `document`: another
    document starts. `indent`: what is broken began a line so far in, so the next event must
    begin one too, and no deeper.
    """
    for found in _PLACES.finditer(buf, start, end):  # type: ignore[call-overload]
        kind = "event" if found["event"] else "close" if found["close"] else "document"
        if found["end"] is not None and not final:
            continue
        at = found.start(kind)
        if indent is not None and kind != "document":
            own = indent_of(buf[max(start - 1, at - 256, 0) : at])  # type: ignore[index]
            if own is None or own > indent:
                continue
        yield at, kind


# ---- mending an event

_KEY = re.compile(rb'"([^"\\\x00-\x1f]{0,256})"' + BLANKS + rb"*:" + BLANKS + rb"*")
_SEPARATORS = re.compile(rb"[\x00-\x20,]*")
_BARE = re.compile(rb'[^\x00-\x20,:{}\[\]"]+')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_EVENT_GOES_ON = re.compile(rb'"[\x00-\x20,]*"' + EVENT_KEYS + rb'"' + BLANKS + rb"*:")
_ARGS_GO_ON = re.compile(rb'"[\x00-\x20]*,[\x00-\x20]*"[^"\\\x00-\x1f]{1,128}"' + BLANKS + rb"*:")
_BRACE_GOES_ON = re.compile(rb'\}[\x00-\x20,]*"' + EVENT_KEYS + rb'"' + BLANKS + rb"*:")
_FOLLOWS = re.compile(rb'[\x00-\x20]*(?:,|")|[\x00-\x20,]*\Z')
_STRUCTURE = re.compile(rb'["{}\[\]]')
MEND_DEPTH = 512


def mend_event(event: bytes) -> bytes | None:
    """The event as valid JSON, or None. `event` is `{...}` up to where the next one starts.

    Quotes inside texts are escaped, commas put where they are missing and left out where
    they are too many.
    """
    if not event.startswith(b"{") or not event.endswith(b"}"):
        return None
    return _mend_object(event, 1, len(event) - 1, in_args=False)


def _mend_object(text: bytes, at: int, end: int, in_args: bool) -> bytes | None:
    members: list[bytes] = []
    while True:
        at = _SEPARATORS.match(text, at, end).end()  # type: ignore[union-attr]
        if at == end:
            return b"{" + b",".join(members) + b"}"
        key = _KEY.match(text, at, end)
        if not key or key.end() == end:
            return None
        value = _mend_value(text, key.end(), end, in_args)
        if value is None:
            return None
        members.append(b'"' + key[1] + b'":' + value[0])
        at = value[1]


def _mend_value(text: bytes, at: int, end: int, in_args: bool) -> tuple[bytes, int] | None:
    """The value at `at`, mended, and where it ends."""
    first = text[at : at + 1]
    if first == b'"':
        return _mend_text(text, at, end, _ARGS_GO_ON if in_args else _EVENT_GOES_ON)
    if first in (b"{", b"["):
        stop = container_end(text, at, end)
        if stop is not None and _FOLLOWS.match(text, stop, end):
            return text[at:stop], stop
        if first == b"{" and not in_args:
            return _mend_args(text, at, end)
        return None
    bare = _BARE.match(text, at, end)
    return (bare[0], bare.end()) if bare else None


def _mend_args(text: bytes, at: int, end: int) -> tuple[bytes, int] | None:
    for brace in _BRACE_GOES_ON.finditer(text, at, end):
        stop = brace.start()
        break
    else:
        stop = text.rfind(b"}", at, end)
    if stop <= at:
        return None
    inner = _mend_object(text, at + 1, stop, in_args=True)
    return None if inner is None else (inner, stop + 1)


def _mend_text(
    text: bytes, at: int, end: int, goes_on: re.Pattern[bytes]
) -> tuple[bytes, int] | None:
    """A text ends at the first quote that the rest of an object follows."""
    fallback = None
    quote = at
    while (quote := text.find(b'"', quote + 1, end)) >= 0:
        last = _SEPARATORS.match(text, quote + 1, end).end() == end  # type: ignore[union-attr]
        if not last and not goes_on.match(text, quote, end):
            continue
        if not _is_escaped(text, quote, at):
            return escape_quotes(text[at + 1 : quote]), quote + 1
        if fallback is None:
            fallback = quote
    if fallback is None:
        return None
    return escape_quotes(text[at + 1 : fallback]), fallback + 1


def _is_escaped(text: bytes, quote: int, start: int) -> bool:
    slashes = 0
    while quote - 1 - slashes > start and text[quote - 1 - slashes] == 0x5C:
        slashes += 1
    return slashes % 2 == 1


_ESCAPES = re.compile(rb'\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])|\\|"')


def escape_quotes(content: bytes) -> bytes:
    """Content as a JSON text: stray quotes and backslashes escaped, escapes left alone."""
    fixed = _ESCAPES.sub(lambda m: m[0] if len(m[0]) > 1 else b"\\" + m[0], content)
    return b'"' + fixed + b'"'


def container_end(text: bytes, at: int, end: int) -> int | None:
    """Where the array or object at `at` ends; kinds of brackets are not told apart."""
    depth = 0
    while True:
        found = _STRUCTURE.search(text, at, end)
        if not found:
            return None
        token, at = found[0], found.end()
        if token == b'"':
            string = _STRING.match(text, found.start(), end)
            if not string:
                return None
            at = string.end()
        elif token in b"{[":
            depth += 1
            if depth > MEND_DEPTH:
                return None
        else:
            depth -= 1
            if depth == 0:
                return at


# ---- mending a header value

_HEADER_GOES_ON = re.compile(
    rb'"'
    + _SOME
    + rb"(?:,"
    + _SOME
    + rb'"[^"\\\x00-\x1f]{1,128}"'
    + _SOME
    + rb":|\}"
    + _SOME
    + rb"(?:\Z|\{))"
)


def mend_header_text(buf: object, at: int, end: int) -> tuple[bytes, int] | None:
    """The text at `at` whose quotes were not escaped: as valid JSON, and where it ends."""
    found = _HEADER_GOES_ON.search(buf, at + 1, end)  # type: ignore[call-overload]
    if not found:
        return None
    return escape_quotes(buf[at + 1 : found.start()]), found.start() + 1  # type: ignore[index]
