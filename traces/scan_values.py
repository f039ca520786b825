"""Where values end, for the driver: header values over several windows, and array elements."""

from __future__ import annotations

import re
from typing import Any

from specscope.traces.scan_repair import container_end

_ELEMENT_FOLLOWS = re.compile(rb"[\x00-\x20]*(?:,[\x00-\x20,]*|(?=\]))")
_SIMPLE_ELEMENT = re.compile(
    rb'[^\x00-\x20,:{}\[\]"]+|"[^"\\]*(?:\\.[^"\\]*)*"|\[[^\[\]{}"]*\]', re.DOTALL
)
_BARE = re.compile(rb'[^\x00-\x20,:{}\[\]"]+')
_IN_TEXT = re.compile(rb'["\\]')
_IN_CONTAINER = re.compile(rb'["{}\[\]]')
_BARE_END = re.compile(rb'[\x00-\x20,:{}\[\]"]')


class ValueSkipper:
    """Finds the end of a value that may reach over several windows."""

    def __init__(self) -> None:
        self.deepest = 0  # brackets that were open at one time
        self._depth = 0
        self._state = ""  # "", text, slash, container, bare

    def feed(self, buf: Any, at: int) -> int | None:
        """Where the value ends in `buf`; None: not here; -1: there is none."""
        end = len(buf)
        if not self._state:
            first = buf[at : at + 1]
            self._state = "text" if first == b'"' else "bare"
            if first in (b"{", b"["):
                self._state = "container"
            elif first == b'"':
                at += 1
            elif not _BARE.match(buf, at):
                return -1
        while at < end:
            if self._state == "slash":
                self._state, at = "text", at + 1
            elif self._state == "text":
                found = _IN_TEXT.search(buf, at)
                if not found:
                    return None
                at = found.end()
                if found[0] == b"\\":
                    self._state = "slash"
                elif self._depth == 0:
                    return at
                else:
                    self._state = "container"
            elif self._state == "bare":
                found = _BARE_END.search(buf, at)
                return found.start() if found else None
            else:
                found = _IN_CONTAINER.search(buf, at)
                if not found:
                    return None
                at = found.end()
                if found[0] == b'"':
                    self._state = "text"
                elif found[0] in b"{[":
                    self._depth += 1
                    self.deepest = max(self.deepest, self._depth)
                else:
                    self._depth -= 1
                    if self._depth == 0:
                        return at
        return None


def elements_in(piece: bytes) -> tuple[int, int]:
    """How many whole values that are no objects stand in a row, and where the last one ends.

    A value counts only when a comma or the array's bracket follows it in the piece.
    """
    count = at = end = 0
    while piece[at : at + 1] != b"{":
        found = _SIMPLE_ELEMENT.match(piece, at)
        if found:
            stop = found.end()
        elif piece[at : at + 1] == b"[":
            stop = container_end(piece, at, len(piece)) or 0
        else:
            break
        follows = _ELEMENT_FOLLOWS.match(piece, stop)
        if not stop or not follows:
            break
        count, end, at = count + 1, stop, follows.end()
    return count, end
