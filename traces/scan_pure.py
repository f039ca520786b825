"""The reader without an extension: the same events, columns and losses as `_scan.c`.

Most events go through the JSON scanner of the standard library, one call an event: what it
accepts, the grammar of docs/design/scanner.md accepts with the same meaning. Numbers with a
point come out of it as bytes, so that times keep their digits. Whatever is unusual (not valid
JSON, a key twice, an id that is no integer, ...) is read again by `_slow_step`, which is the
grammar written out, statement by statement as in `_scan.c`.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from specscope.traces.events import (
    ABSENT,
    HAS_DUR,
    HAS_TS,
    NEGATIVE_DUR,
    NOT_INTEGER,
    REPAIRED,
    TEXT_ID_BASE,
    ScanOptions,
)
from specscope.traces.scan_grammar import BrokenError, EventReader, FrameFilter, RanOutError
from specscope.traces.scan_parts import (
    ARRAY_END,
    BAD,
    COLUMN_TYPES,
    GARBAGE,
    MAX_DEPTH,
    MAX_EVENT,
    MAX_INT,
    MAX_MICROSECONDS,
    MORE,
    STOPPED,
    SUSPECT,
    TEXT_END,
    Events,
)
from specscope.traces.scan_tokens import read_integer, read_quoted_integer, read_time
from specscope.traces.text import Text, Window

BLOCK = 1 << 20  # bytes decoded at a time
NEAR_END = 64 << 10  # an event that fails so near a block's end may just be cut by it
FOLD = 20_000  # rows that are kept as tuples at most

_NO_NUMBER = object()  # NaN and Infinity


def _no_number(_word: str) -> object:
    return _NO_NUMBER


class _TwiceError(Exception):
    """A key stood twice in an object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found


_scan_once: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_float=str.encode,
    parse_constant=_no_number,
    strict=False,
).scan_once
_scan_keys: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(  # type: ignore[attr-defined]
    object_pairs_hook=_once, strict=False
).scan_once

_SEPARATORS = re.compile(r"[\x00-\x20,]*")
_FOLLOWS = re.compile(r"[\x00-\x20]*(?:[,\]{]|(\Z))")
_ARGS = re.compile(r'"args"[\x00-\x20]*:[\x00-\x20]*(?=\{)')
_BLANKS = re.compile(rb"[\x00-\x20]*")
_SEPARATORS_B = re.compile(rb"[\x00-\x20,]*")
_FLOWS = ("s", "f", "t")
_FRAME = "python_function"


class StrangeError(Exception):
    """The event needs the slow path."""


_Row = tuple[int, ...]


class PureReader:
    """See scan_parts.Reader."""

    def __init__(self, options: ScanOptions):
        self._frames = FrameFilter(options)
        self._start_over()
        # The block being read: its text, and where it starts; last: the text ends with it.
        self._block = ""
        self._at = 0
        self._last = False

    def _start_over(self) -> None:
        self._chunks: list[list[npt.NDArray[np.generic]]] = []
        self._rows: list[_Row] = []
        self._count = 0  # rows in chunks
        self._cats: dict[bytes, int] = {}
        self._names: dict[bytes, int] = {}
        self._texts: dict[bytes, int] = {}
        self._cat_codes: dict[str, int] = {}
        self._name_codes: dict[str, int] = {}
        self._args_event: list[int] = []
        self._args_text: list[bytes] = []
        self._dropped: dict[bytes | None, int] = {}
        self._dropped_cats: dict[str | None, int] = {}
        self._events = 0
        self._event_bytes = 0
        self._odd = 0
        self._first_odd = -1

    # ---- the run

    def run(self, text: Text, pos: int, fresh: bool) -> tuple[int, int, bool]:
        """See Reader."""
        collecting = gc.isenabled()
        gc.disable()  # nothing here makes cycles, and looking for them costs half the time
        try:
            return self._run(text, pos, fresh)
        finally:
            if collecting:
                gc.enable()

    def _run(self, text: Text, pos: int, fresh: bool) -> tuple[int, int, bool]:
        size = 1
        while True:
            window = text.window(pos, size)
            self._load(window, pos)
            pos, fresh = self._fast(window, pos, fresh)
            text.check()
            text.release(pos)
            if pos >= window.stop and not window.final:
                size = 1
                continue
            if len(self._rows) >= FOLD:
                self._fold()
            left = self._at + len(self._block) - pos
            if not self._last and left <= NEAR_END and pos != self._at:
                continue  # the block may just have cut it: see more of the text first
            status, pos, fresh = self._slow_step(window, pos, fresh)
            if status == MORE:
                size = 1 if pos >= window.stop else 2 * (window.end - pos) + NEAR_END
            elif status != STOPPED:
                return status, pos, fresh
            else:
                size = 1

    def _load(self, window: Window, pos: int) -> None:
        """Decode the block at `pos`, unless it is at hand."""
        inside = self._at <= pos < self._at + len(self._block)
        if inside and (self._last or self._at + len(self._block) - pos > NEAR_END):
            return
        start = pos - window.base
        self._block = str(window.buf[start : start + BLOCK], "latin-1")
        self._at = pos
        self._last = window.final and start + len(self._block) >= len(window.buf)
        # Rare things, asked for once a block.
        block = self._block
        self._odd_colons = any(f'"{blank}:' in block for blank in " \t\n\r")
        self._strange_keys = "traceEvents" in block or "schemaVersion" in block

    def _fast(self, window: Window, pos: int, fresh: bool) -> tuple[int, bool]:
        """Read plain events of the block from `pos` on; stops before anything else."""
        block, base = self._block, self._at
        stop = window.stop - base if not window.final else len(block) + 1
        i = pos - base
        usual = ",\n  {"
        while True:
            if block.startswith(usual, i) and not fresh:
                q = i + len(usual) - 1
            else:
                q = _SEPARATORS.match(block, i).end()  # type: ignore[union-attr]
                if q >= len(block) or block[q] != "{":
                    return base + i, fresh
                between = block[i:q]
                if between.count(",") == 1:
                    usual = between + "{"
                elif not fresh:
                    if not self._odd:
                        self._first_odd = base + q
                    self._odd += 1
            if q >= stop:
                return base + q, True
            try:
                event, end = _scan_once(block, q)
                if not block.startswith(",", end) and not self._followed(block, end):
                    return base + q, True
                self._keep(event, block, q, end)
            except (StrangeError, StopIteration, ValueError, RecursionError):
                return base + q, True
            self._events += 1
            self._event_bytes += end - q
            i, fresh = end, False

    def _followed(self, block: str, end: int) -> bool:
        """Does a separator, the end of the array or of the text follow?"""
        found = _FOLLOWS.match(block, end)
        return bool(found and (found[1] is None or self._last))

    def _keep(self, event: dict[str, Any], block: str, q: int, end: int) -> None:
        """Take over one event that the JSON scanner read, or raise StrangeError before that."""
        get = event.get
        ph = get("ph")
        if type(ph) is not str or (self._strange_keys and has_strange_keys(event)):
            raise StrangeError
        if end - q > MAX_DEPTH and block.count("[", q, end) + block.count("{", q, end) > MAX_DEPTH:
            raise StrangeError
        cat = get("cat")
        if ph in _FLOWS or (cat == _FRAME and self._unwanted_frame(get("name"), block, q, end)):
            if type(cat) is not str:
                cat = None
            elif not cat.isascii():
                raise StrangeError
            self._dropped_cats[cat] = self._dropped_cats.get(cat, 0) + 1
            return
        self._rows.append(self._row(event, ph, cat, block, q, end))

    def _unwanted_frame(self, name: Any, block: str, q: int, end: int) -> bool:
        frames = self._frames
        if frames.all:
            return False
        if not frames.needles or type(name) is not str:
            return True
        if not name.isascii() and block.find("\\u", q, end) >= 0:
            raise StrangeError
        return not frames.keeps(name.encode("latin-1"))

    def _row(self, event: dict[str, Any], ph: str, cat: Any, block: str, q: int, end: int) -> _Row:
        get = event.get
        args = get("args")
        keys = len(event)
        is_object = isinstance(args, dict)
        if args and isinstance(args, dict):
            keys += len(args)
        if keys != block.count('":', q, end) or self._odd_colons:
            check_keys(block, q)
        flags = 0
        ts = get("ts")
        if ts is None:
            ts = ABSENT
        elif type(ts) is bytes and ts[-4:-3] == b"." and ts[-3:].isdigit() and len(ts) < 20:
            ts = int(ts[:-4] + ts[-3:])
            flags = HAS_TS
        else:
            ts, flags = _plain_time(ts, HAS_TS)
        dur = get("dur")
        if dur is None:
            dur = 0
        else:
            if type(dur) is bytes and dur[-4:-3] == b"." and dur[-3:].isdigit() and len(dur) < 20:
                dur = int(dur[:-4] + dur[-3:])
                flags |= HAS_DUR
            else:
                dur, more = _plain_time(dur, HAS_DUR)
                flags |= more
                if dur == ABSENT:
                    dur = 0
            if dur < 0:
                flags |= NEGATIVE_DUR
                dur = 0
        pid = get("pid")
        tid = get("tid")
        if type(pid) is not int or pid > MAX_INT or pid <= TEXT_ID_BASE:
            pid = self._track(pid, block, q, end)
        if type(tid) is not int or tid > MAX_INT or tid <= TEXT_ID_BASE:
            tid = self._track(tid, block, q, end)
        correlation = device = stream = graph_node = size = external = ABSENT
        raw_args = None
        if args and isinstance(args, dict):
            found = args.get
            value = found("correlation")
            if value is not None:
                correlation, more = _plain_id(value, block, q, end)
                flags |= more
            value = found("device")
            if value is not None:
                device, more = _plain_id(value, block, q, end)
                flags |= more
            value = found("stream")
            if value is not None:
                stream, more = _plain_id(value, block, q, end)
                flags |= more
            value = found("External id")
            if value is None or "external id" in args:
                value = _either(args, "External id", "external id")
            if value is not None:
                external, more = _plain_id(value, block, q, end)
                flags |= more
            if "bytes" in args or "Bytes" in args:
                size, more = _plain_id(_either(args, "bytes", "Bytes"), block, q, end)
                flags |= more
            if "graph node id" in args:
                graph_node, more = _plain_id(args["graph node id"], block, q, end)
                flags |= more
                graph_node = graph_node or ABSENT
            if "Collective name" in args:
                raw_args = _raw_args(block, q, end)
        if ph == "M" and is_object:
            raw_args = _raw_args(block, q, end)
        name = get("name")
        # Nothing may fail from here on: numbers are given in the order of the events.
        cat_code = name_code = -1
        if type(cat) is str:
            cat_code = self._cat_codes.get(cat, -1)
        if type(name) is str:
            name_code = self._name_codes.get(name, -1)
            if not name.isascii() and block.find("\\u", q, end) >= 0:
                raise StrangeError
        if cat_code < 0 and type(cat) is str:
            if not cat.isascii():
                raise StrangeError
            cat_code = self._cats.setdefault(cat.encode(), len(self._cats))
            self._cat_codes[cat] = cat_code
        if name_code < 0 and type(name) is str:
            name_code = self._names.setdefault(name.encode("latin-1"), len(self._names))
            self._name_codes[name] = name_code
        if type(pid) is str:
            pid = self._text_id(pid.encode("latin-1"))
        if type(tid) is str:
            tid = self._text_id(tid.encode("latin-1"))
        if raw_args is not None:
            self._args_event.append(self._count + len(self._rows))
            self._args_text.append(raw_args)
        phase = ord(ph) if len(ph) == 1 and ph < "\x80" else 0
        return (
            phase,
            cat_code,
            name_code,
            pid,
            tid,
            ts,
            dur,
            flags,
            correlation,
            device,
            stream,
            graph_node,
            size,
            external,
            self._at + q,
        )

    def _track(self, value: Any, block: str, q: int, end: int) -> Any:
        """A pid or tid that is no plain integer: ABSENT or a text, still to be numbered."""
        if value is None:
            return ABSENT
        if type(value) is not str:
            raise StrangeError
        if not value.isascii() and block.find("\\u", q, end) >= 0:
            raise StrangeError
        return value

    def _text_id(self, text: bytes) -> int:
        return TEXT_ID_BASE - self._texts.setdefault(text, len(self._texts))

    # ---- the grammar written out

    def _slow_step(
        self, window: Window, pos: int, fresh: bool, force: bool = False
    ) -> tuple[int, int, bool]:
        """One turn of scan_events in _scan.c: STOPPED behind one event, or what stands there."""
        buf, base, end = window.buf, window.base, len(window.buf)
        start = pos - base
        q = _SEPARATORS_B.match(buf, start).end()  # type: ignore[union-attr]
        if q >= end:
            return (TEXT_END, window.end, fresh) if window.final else (MORE, pos, fresh)
        first = buf[q : q + 1]
        if first != b"{":
            return (ARRAY_END if first == b"]" else GARBAGE), base + q, True
        if not fresh and buf[start:q].count(b",") != 1:
            if not self._odd:
                self._first_odd = base + q
            self._odd += 1
        room = end - q
        event = EventReader(self._frames, buf, min(end, q + MAX_EVENT))
        try:
            behind = event.read(q)
        except RanOutError:
            short = room < MAX_EVENT and not window.final
            return (MORE if short else BAD), base + q, True
        except BrokenError:
            return BAD, base + q, True
        if not force:
            look = _BLANKS.match(buf, behind).end()  # type: ignore[union-attr]
            if look >= end:
                if not window.final:
                    return MORE, base + q, True
            elif buf[look : look + 1] not in (b",", b"]", b"{"):
                return SUSPECT, base + q, True
        self._commit(event, base + q)
        self._event_bytes += behind - q
        return STOPPED, base + behind, force

    def _commit(self, event: EventReader, offset: int) -> None:
        self._events += 1
        if event.unwanted():
            cat = event.cat
            self._dropped[cat] = self._dropped.get(cat, 0) + 1
            return
        cat_code = name_code = -1
        if event.cat is not None:
            cat_code = self._cats.setdefault(event.cat, len(self._cats))
        if event.name is not None:
            name_code = self._names.setdefault(event.name, len(self._names))
        pid = event.pid if isinstance(event.pid, int) else self._text_id(event.pid)
        tid = event.tid if isinstance(event.tid, int) else self._text_id(event.tid)
        if event.args is not None and (event.ph == ord("M") or event.collective):
            self._args_event.append(self._count + len(self._rows))
            self._args_text.append(event.args)
        ids = event.ids
        self._rows.append(
            (
                event.ph,
                cat_code,
                name_code,
                pid,
                tid,
                event.ts,
                event.dur,
                event.flags,
                ids["correlation"],
                ids["device"],
                ids["stream"],
                ids["graph_node"],
                ids["bytes"],
                ids["external_id"],
                offset,
            )
        )

    # ---- single events

    def accept(self, text: Text, pos: int) -> int:
        """See Reader."""
        size = 1
        while True:
            window = text.window(pos, size)
            status, at, _ = self._slow_step(window, pos, True, force=True)
            if status != MORE:
                break
            size = 2 * (window.end - pos) + NEAR_END
        if status != STOPPED:
            raise AssertionError("accept was asked for an event that does not parse")
        return at

    def repaired(self, event: bytes, offset: int) -> bool:
        """See Reader."""
        reader = EventReader(self._frames, event, min(len(event), MAX_EVENT))
        try:
            behind = reader.read(0)
        except (RanOutError, BrokenError):
            return False
        if behind != len(event):
            return False
        reader.flags |= REPAIRED
        self._commit(reader, offset)
        self._event_bytes += len(event)
        return True

    # ---- the end

    def _fold(self) -> None:
        """Rows so far into arrays."""
        if not self._rows:
            return
        kinds = COLUMN_TYPES.values()
        columns = zip(*self._rows, strict=True)
        self._chunks.append(
            [np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)]
        )
        self._count += len(self._rows)
        self._rows = []

    def finish(self) -> Events:
        """See Reader."""
        self._fold()
        columns: dict[str, npt.NDArray[np.generic]] = {}
        for i, (name, kind) in enumerate(COLUMN_TYPES.items()):
            parts = [chunk[i] for chunk in self._chunks]
            columns[name] = np.concatenate(parts) if parts else np.zeros(0, dtype=kind)
        for cat, count in self._dropped_cats.items():
            key = None if cat is None else cat.encode()
            self._dropped[key] = self._dropped.get(key, 0) + count
        found = Events(
            columns=columns,
            cats=list(self._cats),
            names=list(self._names),
            texts=list(self._texts),
            args_event=np.array(self._args_event, dtype=np.int64),
            args_text=self._args_text,
            dropped=self._dropped,
            events=self._events,
            event_bytes=self._event_bytes,
            odd_separators=self._odd,
            first_odd=self._first_odd,
        )
        self._start_over()
        return found

    def close(self) -> None:
        """See Reader."""
        self._block = ""


# ---- what the fast path may take from the JSON scanner


def has_strange_keys(event: dict[str, Any]) -> bool:
    """Does a key of a document stand in the event?"""
    return "traceEvents" in event or "schemaVersion" in event


def check_keys(block: str, q: int) -> None:
    """Raises StrangeError when a key stands twice in one object of the event."""
    try:
        _scan_keys(block, q)
    except _TwiceError:
        raise StrangeError from None


def _plain_time(value: Any, seen: int) -> tuple[int, int]:
    """A time and its flags; ABSENT when it cannot be read."""
    if type(value) is int:
        if abs(value) > MAX_MICROSECONDS:
            return ABSENT, 0
        return value * 1000, seen
    if type(value) is not bytes:
        raise StrangeError
    ns, flags = read_time(value)
    return (ABSENT, flags) if ns is None else (ns, flags | seen)


def _plain_id(value: Any, block: str, q: int, end: int) -> tuple[int, int]:
    """An integer of args and its flags; the event lies in block[q:end]."""
    if type(value) is int:
        return (value, 0) if -MAX_INT <= value <= MAX_INT else (ABSENT, NOT_INTEGER)
    if value is None:
        return ABSENT, 0
    if type(value) is bytes:
        return read_integer(value)
    if type(value) is str and block.find("\\", q, end) < 0:
        return read_quoted_integer(value.encode("latin-1"))
    raise StrangeError


def _either(args: dict[str, Any], one: str, other: str) -> Any:
    if one in args and other in args:
        raise StrangeError
    return args[one] if one in args else args.get(other)


def _raw_args(block: str, q: int, end: int) -> bytes:
    """The text of the args of the event in block[q:end], which has some."""
    at = block.find('"args"', q, end)
    if block.find("\\", q, end) >= 0 or block.count('"args"', q, end) != 1:
        raise StrangeError
    key = _ARGS.match(block, at, end)
    if not key:
        raise StrangeError
    _, stop = _scan_once(block, key.end())
    return block[key.end() : stop].encode("latin-1")
