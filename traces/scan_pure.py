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
    DUPLICATE_KEY,
    HAS_DUR,
    HAS_TS,
    NEGATIVE_DUR,
    NOT_INTEGER,
    NULLED,
    ODD_DECIMALS,
    QUOTED_NUMBER,
    REPAIRED,
    ROUNDED,
    TEXT_ID_BASE,
    ScanOptions,
)
from specscope.traces.scan_parts import (
    ARRAY_END,
    BAD,
    COLUMN_TYPES,
    GARBAGE,
    MAX_DEPTH,
    MAX_EVENT,
    MAX_MICROSECONDS,
    MAX_NUMBER,
    MORE,
    STOPPED,
    SUSPECT,
    TEXT_END,
    Events,
)
from specscope.traces.text import Text, Window

BLOCK = 1 << 20  # bytes decoded at a time
NEAR_END = 64 << 10  # an event that fails so near a block's end may just be cut by it
FOLD = 20_000  # rows that are kept as tuples at most
MAX_INT = (1 << 63) - 1

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
_FLOWS = ("s", "f", "t")
_FRAME = "python_function"


class _StrangeError(Exception):
    """The event needs the slow path."""


class _RanOutError(Exception):
    """The text ended inside an event."""


class _BrokenError(Exception):
    """The grammar does not accept the event."""


_Row = tuple[int, ...]


class PureReader:
    """See scan_parts.Reader."""

    def __init__(self, options: ScanOptions):
        self._all_frames = options.all_frames
        self._needles = options.frame_needles
        self._wanted: dict[bytes, bool] = {}
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
            except (_StrangeError, StopIteration, ValueError, RecursionError):
                return base + q, True
            self._events += 1
            self._event_bytes += end - q
            i, fresh = end, False

    def _followed(self, block: str, end: int) -> bool:
        """Does a separator, the end of the array or of the text follow?"""
        found = _FOLLOWS.match(block, end)
        return bool(found and (found[1] is None or self._last))

    def _keep(self, event: dict[str, Any], block: str, q: int, end: int) -> None:
        """Take over one event that the JSON scanner read, or raise _StrangeError before that."""
        get = event.get
        ph = get("ph")
        if type(ph) is not str or (self._strange_keys and _has_strange_keys(event)):
            raise _StrangeError
        if end - q > MAX_DEPTH and block.count("[", q, end) + block.count("{", q, end) > MAX_DEPTH:
            raise _StrangeError
        cat = get("cat")
        if ph in _FLOWS or (cat == _FRAME and self._unwanted_frame(get("name"), block, q, end)):
            if type(cat) is not str:
                cat = None
            elif not cat.isascii():
                raise _StrangeError
            self._dropped_cats[cat] = self._dropped_cats.get(cat, 0) + 1
            return
        self._rows.append(self._row(event, ph, cat, block, q, end))

    def _unwanted_frame(self, name: Any, block: str, q: int, end: int) -> bool:
        if self._all_frames:
            return False
        if not self._needles or type(name) is not str:
            return True
        if not name.isascii() and block.find("\\u", q, end) >= 0:
            raise _StrangeError
        return not self._is_wanted(name.encode("latin-1"))

    def _is_wanted(self, name: bytes) -> bool:
        known = self._wanted.get(name)
        if known is None:
            known = self._wanted[name] = any(needle in name for needle in self._needles)
        return known

    def _row(self, event: dict[str, Any], ph: str, cat: Any, block: str, q: int, end: int) -> _Row:
        get = event.get
        args = get("args")
        keys = len(event)
        is_object = isinstance(args, dict)
        if args and isinstance(args, dict):
            keys += len(args)
        if keys != block.count('":', q, end) or self._odd_colons:
            _check_keys(block, q)
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
                raise _StrangeError
        if cat_code < 0 and type(cat) is str:
            if not cat.isascii():
                raise _StrangeError
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
            raise _StrangeError
        if not value.isascii() and block.find("\\u", q, end) >= 0:
            raise _StrangeError
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
        event = _Event(self, buf, min(end, q + MAX_EVENT))
        try:
            behind = event.read(q)
        except _RanOutError:
            short = room < MAX_EVENT and not window.final
            return (MORE if short else BAD), base + q, True
        except _BrokenError:
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

    def _commit(self, event: _Event, offset: int) -> None:
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
        reader = _Event(self, event, min(len(event), MAX_EVENT))
        try:
            behind = reader.read(0)
        except (_RanOutError, _BrokenError):
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


def _has_strange_keys(event: dict[str, Any]) -> bool:
    return "traceEvents" in event or "schemaVersion" in event


def _check_keys(block: str, q: int) -> None:
    """Raises _StrangeError when a key stands twice in one object of the event."""
    try:
        _scan_keys(block, q)
    except _TwiceError:
        raise _StrangeError from None


def _plain_time(value: Any, seen: int) -> tuple[int, int]:
    """A time and its flags; ABSENT when it cannot be read."""
    if type(value) is int:
        if abs(value) > MAX_MICROSECONDS:
            return ABSENT, 0
        return value * 1000, seen
    if type(value) is not bytes:
        raise _StrangeError
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
    raise _StrangeError


def _either(args: dict[str, Any], one: str, other: str) -> Any:
    if one in args and other in args:
        raise _StrangeError
    return args[one] if one in args else args.get(other)


def _raw_args(block: str, q: int, end: int) -> bytes:
    """The text of the args of the event in block[q:end], which has some."""
    at = block.find('"args"', q, end)
    if block.find("\\", q, end) >= 0 or block.count('"args"', q, end) != 1:
        raise _StrangeError
    key = _ARGS.match(block, at, end)
    if not key:
        raise _StrangeError
    _, stop = _scan_once(block, key.end())
    return block[key.end() : stop].encode("latin-1")


# ---- numbers

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


# ---- one event, written out

_BLANKS = re.compile(rb"[\x00-\x20]*")
_SEPARATORS_B = re.compile(rb"[\x00-\x20,]*")
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


class _Event:
    """read_event of _scan.c."""

    def __init__(self, reader: PureReader, buf: Any, lim: int):
        self._reader = reader
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

    def unwanted(self) -> bool:
        """Is the event kept out by design, as far as is known now?"""
        if self.ph in b"sft":
            return True
        reader = self._reader
        if reader._all_frames or self.cat != b"python_function":
            return False
        if not reader._needles or self.name is None:
            return True
        return not reader._is_wanted(self.name)

    def read(self, at: int) -> int:
        """The event at `at`; where it ends. Raises _RanOutError or _BrokenError."""
        at, more = self._first_member(at + 1)
        seen: set[bytes] = set()
        while more:
            key, at = self._key(at)
            if key in (b"traceEvents", b"schemaVersion"):
                raise _BrokenError
            read = _EVENT_KEYS.get(key)
            if read is None:
                at = self._value_end(at, 1)
            else:
                if key in seen:
                    self.flags |= DUPLICATE_KEY
                seen.add(key)
                at = read(self, at)
            at, more = self._next_member(at)
        return at

    # ---- walking

    def _skip_blanks(self, at: int) -> int:
        at = _BLANKS.match(self._buf, at, self._lim).end()  # type: ignore[union-attr]
        if at >= self._lim:
            raise _RanOutError
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
        raise _BrokenError

    def _member_or_end(self, at: int) -> tuple[int, bool]:
        byte = self._byte(at)
        if byte == b'"':
            return at + 1, True
        if byte == b"}":
            return at + 1, False
        raise _BrokenError

    def _string_end(self, at: int) -> int:
        found = _STRING_REST.match(self._buf, at, self._lim)
        if not found:
            raise _RanOutError
        return found.end()

    def _key(self, at: int) -> tuple[bytes, int]:
        """The key behind the quote at `at`, without escapes, and where its value starts."""
        end = self._string_end(at)
        key = unescape(self._buf[at : end - 1])
        at = self._skip_blanks(end)
        if self._byte(at) != b":":
            raise _BrokenError
        return key, self._skip_blanks(at + 1)

    def _value_end(self, at: int, depth: int) -> int:
        byte = self._byte(at)
        if byte == b'"':
            return self._string_end(at + 1)
        if byte in (b"{", b"["):
            return self._container_end(at, depth)
        end = _BARE.match(self._buf, at, self._lim).end()  # type: ignore[union-attr]
        if end >= self._lim:
            raise _RanOutError
        if end == at:
            raise _BrokenError
        return end

    def _container_end(self, at: int, depth: int) -> int:
        base = depth
        while True:
            found = _STRUCTURE.search(self._buf, at, self._lim)
            if not found:
                raise _RanOutError
            token, at = found[0], found.end()
            if token == b'"':
                at = self._string_end(at)
            elif token in b"{[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise _BrokenError
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


_EVENT_KEYS: dict[bytes, Callable[[_Event, int], int]] = {
    b"ph": _Event._read_ph,
    b"cat": _Event._read_cat,
    b"name": _Event._read_name,
    b"pid": _Event._read_pid,
    b"tid": _Event._read_tid,
    b"ts": _Event._read_ts,
    b"dur": _Event._read_dur,
    b"args": _Event._read_args,
}
