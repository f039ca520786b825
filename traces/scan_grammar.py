"""The grammar of events written out, statement by statement as read_event in `_scan.c` has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from specscope.traces.events import (
    ABSENT,
    DUPLICATE_KEY,
    HAS_DUR,
    HAS_TS,
    NEGATIVE_DUR,
    NOT_INTEGER,
    QUOTED_NUMBER,
    TEXT_ID_BASE,
    ScanOptions,
)
from specscope.traces.scan_parts import MAX_DEPTH
from specscope.traces.scan_tokens import read_integer, read_quoted_integer, read_time, unescape

FRAME = b"python_function"


class RanOutError(Exception):
    """The text ended inside an event."""


class BrokenError(Exception):
    """The grammar does not accept the event."""


class FrameFilter:
    """Which Python frames are kept; asked once for each name."""

    def __init__(self, options: ScanOptions):
        self.all = options.all_frames
        self.needles = options.frame_needles
        self._known: dict[bytes, bool] = {}

    def keeps(self, name: bytes | None) -> bool:
        """Is a frame of that name kept?"""
        if self.all:
            return True
        if not self.needles or name is None:
            return False
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = any(needle in name for needle in self.needles)
        return known


_BLANKS = re.compile(rb"[\x00-\x20]*")
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BARE = re.compile(rb'[^\x00-\x20,:{}\[\]"]*')
_STRUCTURE = re.compile(rb'["{}\[\]]')

_ARGS_KEYS = {
    b"correlation": "correlation",
    b"device": "device",
    b"stream": "stream",
    b"graph node id": "graph_node",
    b"bytes": "bytes",
    b"Bytes": "bytes",
    b"External id": "external_id",
    b"external id": "external_id",
    b"Collective name": "collective",
}
_NO_IDS = dict.fromkeys(
    ("correlation", "device", "stream", "graph_node", "bytes", "external_id"), ABSENT
)


class EventReader:
    """read_event of _scan.c."""

    def __init__(self, frames: FrameFilter, buf: Any, lim: int):
        self._frames = frames
        self._buf = buf
        self._lim = lim
        self.ph = 0
        self.cat: bytes | None = None
        self.name: bytes | None = None
        self.pid: int | bytes = ABSENT
        self.tid: int | bytes = ABSENT
        self.ts = ABSENT
        self.dur = 0
        self.flags = 0
        self.ids = dict(_NO_IDS)
        self.args: bytes | None = None
        self.collective = False
        self._span = (0, 0)

    def raw(self) -> bytes:
        """The text of the event that was read."""
        return bytes(self._buf[slice(*self._span)])

    def unwanted(self) -> bool:
        """Is the event kept out by design, as far as is known now?"""
        if self.ph in b"sft":
            return True
        return self.cat == FRAME and not self._frames.keeps(self.name)

    def read(self, at: int) -> int:
        """The event at `at`; where it ends. Raises RanOutError or BrokenError."""
        start = at
        at, more = self._first_member(at + 1)
        seen: set[bytes] = set()
        while more:
            key, at = self._key(at)
            if key in (b"traceEvents", b"schemaVersion"):
                raise BrokenError
            read = _EVENT_KEYS.get(key)
            if read is None:
                at = self._value_end(at, 1)
            else:
                if key in seen:
                    self.flags |= DUPLICATE_KEY
                seen.add(key)
                at = read(self, at)
            at, more = self._next_member(at)
        self._span = (start, at)
        return at

    # ---- walking

    def _skip_blanks(self, at: int) -> int:
        at = _BLANKS.match(self._buf, at, self._lim).end()  # type: ignore[union-attr]
        if at >= self._lim:
            raise RanOutError
        return at

    def _byte(self, at: int) -> bytes:
        byte: bytes = self._buf[at : at + 1]
        return byte

    def _first_member(self, at: int) -> tuple[int, bool]:
        at = self._skip_blanks(at)
        return self._member_or_end(at)

    def _next_member(self, at: int) -> tuple[int, bool]:
        at = self._skip_blanks(at)
        if self._byte(at) == b",":
            return self._member_or_end(self._skip_blanks(at + 1))
        if self._byte(at) == b"}":
            return at + 1, False
        raise BrokenError

    def _member_or_end(self, at: int) -> tuple[int, bool]:
        byte = self._byte(at)
        if byte == b'"':
            return at + 1, True
        if byte == b"}":
            return at + 1, False
        raise BrokenError

    def _string_end(self, at: int) -> int:
        found = _STRING_REST.match(self._buf, at, self._lim)
        if not found:
            raise RanOutError
        return found.end()

    def _key(self, at: int) -> tuple[bytes, int]:
        """The key behind the quote at `at`, without escapes, and where its value starts."""
        end = self._string_end(at)
        key = unescape(self._buf[at : end - 1])
        at = self._skip_blanks(end)
        if self._byte(at) != b":":
            raise BrokenError
        return key, self._skip_blanks(at + 1)

    def _value_end(self, at: int, depth: int) -> int:
        byte = self._byte(at)
        if byte == b'"':
            return self._string_end(at + 1)
        if byte in (b"{", b"["):
            return self._container_end(at, depth)
        end = _BARE.match(self._buf, at, self._lim).end()  # type: ignore[union-attr]
        if end >= self._lim:
            raise RanOutError
        if end == at:
            raise BrokenError
        return end

    def _container_end(self, at: int, depth: int) -> int:
        base = depth
        while True:
            found = _STRUCTURE.search(self._buf, at, self._lim)
            if not found:
                raise RanOutError
            token, at = found[0], found.end()
            if token == b'"':
                at = self._string_end(at)
            elif token in b"{[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise BrokenError
            else:
                depth -= 1
                if depth == base:
                    return at

    def _content(self, at: int, end: int) -> bytes:
        """What stands between the quotes, escapes and all."""
        content: bytes = self._buf[at + 1 : end - 1]
        return content

    # ---- members

    def _read_ph(self, at: int) -> int:
        end = self._value_end(at, 1)
        text = unescape(self._content(at, end)) if self._byte(at) == b'"' else b""
        self.ph = text[0] if len(text) == 1 and text[0] < 0x80 else 0
        return end

    def _read_cat(self, at: int) -> int:
        end = self._value_end(at, 1)
        self.cat = unescape(self._content(at, end)) if self._byte(at) == b'"' else None
        return end

    def _read_name(self, at: int) -> int:
        end = self._value_end(at, 1)
        self.name = unescape(self._content(at, end)) if self._byte(at) == b'"' else None
        return end

    def _track(self, at: int) -> tuple[int | bytes, int]:
        end = self._value_end(at, 1)
        first = self._byte(at)
        if first == b'"':
            return unescape(self._content(at, end)), end
        value, flags = ABSENT, NOT_INTEGER
        if first not in (b"{", b"["):
            value, flags = read_integer(self._buf[at:end])
        if value != ABSENT and value <= TEXT_ID_BASE:
            value, flags = ABSENT, NOT_INTEGER
        self.flags |= flags
        return value, end

    def _read_pid(self, at: int) -> int:
        self.pid, end = self._track(at)
        return end

    def _read_tid(self, at: int) -> int:
        self.tid, end = self._track(at)
        return end

    def _time(self, at: int) -> tuple[int | None, int]:
        end = self._value_end(at, 1)
        first = self._byte(at)
        if first in (b"{", b"["):
            return None, end
        if first == b'"':
            self.flags |= QUOTED_NUMBER
            ns, flags = read_time(self._content(at, end))
        else:
            ns, flags = read_time(self._buf[at:end])
        self.flags |= flags
        return ns, end

    def _read_ts(self, at: int) -> int:
        self.flags &= ~HAS_TS
        self.ts = ABSENT
        ns, end = self._time(at)
        if ns is not None:
            self.flags |= HAS_TS
            self.ts = ns
        return end

    def _read_dur(self, at: int) -> int:
        self.flags &= ~HAS_DUR
        self.dur = 0
        ns, end = self._time(at)
        if ns is not None:
            self.flags |= HAS_DUR
            if ns < 0:
                self.flags |= NEGATIVE_DUR
            else:
                self.dur = ns
        return end

    def _read_args(self, at: int) -> int:
        self.ids = dict(_NO_IDS)
        self.args, self.collective = None, False
        if self._byte(at) != b"{" or self.unwanted():
            return self._value_end(at, 1)
        start = at
        at, more = self._first_member(at + 1)
        seen: set[str] = set()
        while more:
            key, at = self._key(at)
            column = _ARGS_KEYS.get(key)
            if column is not None:
                if column in seen:
                    self.flags |= DUPLICATE_KEY
                seen.add(column)
            if column is None or column == "collective":
                self.collective |= column is not None
                at = self._value_end(at, 2)
            else:
                at = self._read_id(at, column)
            at, more = self._next_member(at)
        if self.ids["graph_node"] == 0:
            self.ids["graph_node"] = ABSENT
        self.args = self._buf[start:at]
        return at

    def _read_id(self, at: int, column: str) -> int:
        end = self._value_end(at, 2)
        first = self._byte(at)
        if first == b'"':
            value, flags = read_quoted_integer(self._content(at, end))
        elif first in (b"{", b"["):
            value, flags = ABSENT, NOT_INTEGER
        else:
            value, flags = read_integer(self._buf[at:end])
        self.ids[column] = value
        self.flags |= flags
        return end


_EVENT_KEYS: dict[bytes, Callable[[EventReader, int], int]] = {
    b"ph": EventReader._read_ph,
    b"cat": EventReader._read_cat,
    b"name": EventReader._read_name,
    b"pid": EventReader._read_pid,
    b"tid": EventReader._read_tid,
    b"ts": EventReader._read_ts,
    b"dur": EventReader._read_dur,
    b"args": EventReader._read_args,
}
