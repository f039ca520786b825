"""Private keys in a log that comes line by line: masked from BEGIN to END, other lines stay.

Several processes write into one log, so lines of others may stand between those of a key.
"""

from __future__ import annotations

import re
from typing import Final

from specscope.profiler.masking import MASK
from specscope.profiler.secret_shapes import KEY_BEGINS, KEY_ENDS

# Lines after which a key that never ended is taken to be over; 16384 bits are 200 of them.
MOST_LINES: Final = 400
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_DRAWN: Final = re.compile(r"[0-9+/=]|[a-z][A-Z]")
_LONG: Final = 16
_AROUND: Final = re.compile(r"""^["']+|(?:\\+[nr]|["',])+$""")
# What a key has before its body.
_HEADER: Final = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ")


class KeyLines:
    """Masks the lines of private keys; one object for one log, in its order."""

    def __init__(self) -> None:
        self._left = 0

    def masked(self, line: str) -> str:
        """The line as it may be written."""
        if self._left:
            self._left -= 1
            if end := KEY_ENDS.search(line):
                self._left = 0
                return MASK + self.masked(line[end.end() :])
            if _is_of_key(line):
                return MASK
        *_, begin = (None, *KEY_BEGINS.finditer(line))
        if begin is None or KEY_ENDS.search(line, begin.end()):
            return line  # none, or one that is whole, which has a shape of its own
        self._left = MOST_LINES
        rest = line[begin.end() :]
        # A key may begin on that line already; words behind it only speak of one.
        return line[: begin.end()] + (f" {MASK}" if _is_of_key(rest) else rest)


def _is_of_key(line: str) -> bool:
    """Whether it may be a line of a key, behind whatever a logger puts before it."""
    words = line.split()
    if not words:
        return False
    last = _AROUND.sub("", words[-1])
    if not _BASE64.fullmatch(last):
        return _HEADER.search(line) is not None
    if len(words) == 1 or len(last) >= _LONG:
        return True
    return _DRAWN.search(last) is not None or _HEADER.search(line) is not None
