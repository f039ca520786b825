"""Numbers and texts of the scanner's grammar, as docs/design/scanner.md has them."""

from __future__ import annotations

import re

from specscope.traces.events import ABSENT, NOT_INTEGER, NULLED, ODD_DECIMALS, ROUNDED
from specscope.traces.scan_parts import MAX_INT, MAX_MICROSECONDS, MAX_NUMBER

_TIME = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,3}))?")
_NO_NUMBER_WORD = re.compile(rb"[+-]?(?:inf|nan|infinity)", re.IGNORECASE)
_INTEGER = re.compile(rb"(-?[0-9]{1,19})(?:\.0+)?")
_HEX = re.compile(rb"0[xX][0-9a-fA-F]{1,15}")


def read_time(token: bytes) -> tuple[int | None, int]:
    """Microseconds as text into nanoseconds, by the digits; None when unreadable; flags."""
    if len(token) > MAX_NUMBER:
        return None, 0
    if _NO_NUMBER_WORD.fullmatch(token):
        return None, NULLED
    found = _TIME.fullmatch(token)
    if not found:
        return None, 0
    whole, fraction = found[2], found[3] or b""
    digits = whole + fraction
    if not digits:
        return None, 0
    if found[4] is not None:
        return _with_exponent(found[1] == b"-", digits, len(whole) + int(found[4]))
    if int(whole or b"0") > MAX_MICROSECONDS:
        return None, 0
    ns = int(whole + (fraction + b"000")[:3])
    flags = 0
    if len(fraction) > 3:
        flags = ROUNDED
        ns += fraction[3] >= 0x35
    elif len(fraction) in (1, 2):
        flags = ODD_DECIMALS
    return (-ns if found[1] == b"-" else ns), flags


def _with_exponent(negative: bool, digits: bytes, point: int) -> tuple[int | None, int]:
    upto = point + 3
    ns = int(digits[: max(upto, 0)].ljust(max(upto, 0), b"0") or b"0")
    if ns > MAX_MICROSECONDS * 1000:
        return None, 0
    flags = ODD_DECIMALS
    if len(digits) - point > 3:
        flags |= ROUNDED
        if 0 <= upto < len(digits) and digits[upto] >= 0x35:
            ns += 1
    return (-ns if negative else ns), flags


def read_integer(token: bytes) -> tuple[int, int]:
    """A bare word as an integer (also with .0 behind); ABSENT and why."""
    if token == b"null":
        return ABSENT, 0
    if _NO_NUMBER_WORD.fullmatch(token):
        return ABSENT, NULLED
    found = _INTEGER.fullmatch(token)
    if not found or abs(value := int(found[1])) > MAX_INT:
        return ABSENT, NOT_INTEGER
    return value, 0


def read_quoted_integer(token: bytes) -> tuple[int, int]:
    """The same in quotes, where hex is fine too and nothing stands for absent."""
    if not token:
        return ABSENT, 0
    if _HEX.fullmatch(token):
        return int(token, 16), 0
    if b"." in token or token == b"null":
        return ABSENT, NOT_INTEGER
    return read_integer(token)


# ---- texts

_ESCAPE = re.compile(
    rb'\\(?:(["\\/bfnrt])'
    rb"|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u([0-9a-fA-F]{4}))"
)
_LETTERS = {
    b'"': b'"',
    b"\\": b"\\",
    b"/": b"/",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
}


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return _LETTERS[found[1]]
    if found[2]:
        high, low = int(found[2], 16), int(found[3], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()
    value = int(found[4], 16)
    return b"\xef\xbf\xbd" if 0xD800 <= value < 0xE000 else chr(value).encode()


def unescape(content: bytes) -> bytes:
    """Without JSON escapes; a backslash that begins none stays, half a pair is U+FFFD."""
    return _ESCAPE.sub(_unescaped, content) if b"\\" in content else content
