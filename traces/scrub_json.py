"""JSON in and out without a change to what is not touched: numbers by their digits, keys by
their order and as often as they stand there."""

from __future__ import annotations

import json
import re
from typing import Any, Final

# A text, or what stands for a number that is none.
_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|(?P<word>(?<![\w.])[-+]?(?:inf|nan|infinity)\b)', re.DOTALL | re.IGNORECASE
)
_ESCAPE: Final = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?', re.DOTALL)


class Number(float):
    """A number with a point, as it was written."""

    digits: str

    def __new__(cls, digits: str) -> Number:
        """The number of these digits."""
        number = super().__new__(cls, digits)
        number.digits = digits
        return number


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in order."""


def loads(raw: bytes) -> Pairs:
    """An object, also with `inf`, `nan` and escapes that JSON does not have, as traces hold them.

    Raises ValueError for anything else.
    """
    try:
        return _object(raw)
    except ValueError:
        return _object(_TOKEN.sub(_mended, raw))


def _mended(match: re.Match[bytes]) -> bytes:
    if match["word"]:
        return b"NaN"
    return _ESCAPE.sub(lambda found: (found[1] and found[0]) or b"\\\\" + found[0][1:], match[0])


def _object(raw: bytes) -> Pairs:
    found = json.loads(
        raw.decode("utf-8", "surrogateescape"),
        object_pairs_hook=Pairs,
        parse_float=Number,
        parse_constant=Number,
        strict=False,
    )
    if not isinstance(found, Pairs):
        raise ValueError("no object")
    return found


def dumps(value: Any) -> bytes:
    """The JSON of a value, on one line."""
    text = "".join(_pieces(value))
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves of a pair, written as escapes
        return text.encode("utf-8", "replace")


def _pieces(value: Any) -> list[str]:
    if isinstance(value, Number):
        return [value.digits]
    if isinstance(value, str):
        return [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, dict):
        value = Pairs(value.items())
    if isinstance(value, Pairs):
        out = ["{"]
        for place, (key, member) in enumerate(value):
            out += [", " if place else "", json.dumps(str(key), ensure_ascii=False), ": "]
            out += _pieces(member)
        return [*out, "}"]
    if isinstance(value, (list, tuple)):
        out = ["["]
        for place, member in enumerate(value):
            out += [", " if place else ""]
            out += _pieces(member)
        return [*out, "]"]
    return [json.dumps(value)]
