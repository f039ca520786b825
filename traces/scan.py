"""Trace text into flat columns: the driver over a native or a pure-Python reader of events.

The driver knows documents, headers, repairs and losses; a reader (`scan_native`,
`scan_pure`) knows events. Which one is used: `reader_name()`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from specscope.traces.errors import TraceFormatError
from specscope.traces.events import Document, ScanOptions
from specscope.traces.scan_losses import Losses
from specscope.traces.scan_parts import (
    ARRAY_END,
    BAD,
    GARBAGE,
    MAX_DEPTH,
    SUSPECT,
    TEXT_END,
    Events,
    Reader,
)
from specscope.traces.scan_repair import (
    DOCUMENT_START,
    HEADER_PLACE,
    MARGIN,
    indent_of,
    mend_event,
    mend_header_text,
    places,
)
from specscope.traces.scan_values import ValueSkipper, elements_in
from specscope.traces.text import Source, Text, open_text

PURE_SWITCH = "SPECSCOPE_PURE_PYTHON"
MAX_DOCUMENTS = 1000
MAX_HEADER_VALUE = 16 << 20
MAX_HEADER = 64 << 20  # all values and keys of one document that are kept
MAX_HEADER_KEYS = 100_000
MAX_KEY = 4096
MEND_WITHIN = 1 << 20  # a broken event longer than this is skipped, not mended
ELEMENTS_NEAR = 64 << 10
MAX_BREAKS = 1_000_000  # broken places in one text: some minutes' worth
MEND_NEAR = 16 << 10  # where the next event is looked for first
STEP = 1 << 20


def reader_name() -> str:
    """`native` or `pure`: what `scan` will use."""
    if os.environ.get(PURE_SWITCH, "") not in ("", "0"):
        return "pure"
    try:
        from specscope.traces import _scan  # noqa: F401
    except ImportError:
        return "pure"
    return "native"


def scan(
    source: Source, options: ScanOptions | None = None, *, reader: str | None = None
) -> list[Document]:
    """All documents in a path, `-` (standard input) or bytes; gzip is unpacked on the way.

    Text that is no document at all gives one Document whose only content is its loss; empty
    text gives none. Raises TraceFormatError for text beyond `options.max_text_bytes`, for
    more than MAX_DOCUMENTS documents and for a file that shrinks meanwhile; OSError when it
    cannot be read. `reader` forces `native` or `pure`.
    """
    options = options or ScanOptions()
    return scan_text(open_text(source, options.max_text_bytes), options, reader or reader_name())


def scan_text(text: Text, options: ScanOptions, reader: str | Reader) -> list[Document]:
    """As `scan`, of a text that is open; closes it. `reader` may be one of one's own."""
    events = _reader(reader, options) if isinstance(reader, str) else reader
    try:
        return _Driver(text, events).documents()
    finally:
        events.close()
        text.close()


def _reader(name: str, options: ScanOptions) -> Reader:
    if name == "native":
        from specscope.traces.scan_native import NativeReader

        return NativeReader(options)
    from specscope.traces.scan_pure import PureReader

    return PureReader(options)


class _Driver:
    """Walks over the documents of one text."""

    def __init__(self, text: Text, reader: Reader):
        self._text = text
        self._reader = reader
        self._breaks = 0
        self._unclosed = False  # the text ended between the events of a bare array
        self._last_skip = -1  # where the last skipped stretch among the events ended
        self._begin(0)

    def _begin(self, start: int) -> None:
        self._start = start
        self._losses = Losses()
        self._header: dict[str, bytes] = {}
        self._header_bytes = 0
        self._is_array = self._has_events = self._truncated = False
        self._next_document = -1  # where another document was found inside this one
        self._repaired_bytes = 0  # by which mended events differ in length from their text

    # ---- documents

    def documents(self) -> list[Document]:
        """All of them, in order; together they hold every byte of the text."""
        out: list[Document] = []
        pos, opened = self._outside(0)
        while opened:
            if len(out) == MAX_DOCUMENTS:
                raise TraceFormatError(
                    f"more than {MAX_DOCUMENTS} JSON documents in one text: "
                    "lines of JSON or a log, not a trace"
                )
            pos = self._array(pos + 1, bare=True) if opened == b"[" else self._object(pos + 1)
            pos, opened = self._outside(pos)
            out.append(self._finish(pos))
            self._begin(pos)
        if not out and pos > 0:
            out.append(self._finish(pos))
        if out:
            out[-1].losses.extend(self._text.losses)
            if self._unclosed and any(loss.reason != "gzip_trailing" for loss in self._text.losses):
                out[-1].truncated = True
        return out

    def _finish(self, end: int) -> Document:
        found = self._reader.finish()
        if found.odd_separators:
            self._losses.note(
                found.first_odd,
                0,
                "odd_separator",
                "read as if one comma stood between the events",
                found.odd_separators,
            )
        event_bytes = found.event_bytes + self._repaired_bytes
        return _document(
            found,
            header=self._header,
            losses=self._losses.all(),
            event_bytes=event_bytes,
            skipped_bytes=self._losses.skipped,
            structure_bytes=end - self._start - event_bytes - self._losses.skipped,
            start=self._start,
            end=end,
            is_array=self._is_array,
            has_events=self._has_events,
            truncated=self._truncated,
        )

    def _outside(self, pos: int) -> tuple[int, bytes]:
        """From between documents to the next one: its place and bracket, b"" at the end."""
        if pos == 0 and self._text.window(0, 3).buf[:3] == b"\xef\xbb\xbf":
            pos = 3
        pos, byte = self._next(pos, _NOT_BLANK)
        if byte in (b"{", b"["):
            return pos, byte
        if not byte:
            return pos, b""
        place = self._find(DOCUMENT_START, pos)
        end = self._text_end if place is None else place
        self._losses.skip(pos, end, "not_json", "skipped; not part of a JSON document")
        return end, b"" if place is None else b"{"

    # ---- looking

    def _byte(self, pos: int) -> bytes:
        window = self._text.window(pos, 1)
        return window.buf[pos - window.base : pos - window.base + 1]

    def _next(
        self, pos: int, pattern: re.Pattern[bytes], release: bool = True
    ) -> tuple[int, bytes]:
        """The next byte of `pattern`, a class of single bytes; b"" at the end of the text."""
        while True:
            window = self._text.window(pos, 1)
            found = pattern.search(window.buf, pos - window.base)
            if found:
                return window.base + found.start(), found[0]
            pos = window.end
            if release:
                self._text.release(pos)
            if window.final:
                self._text_end = pos
                return pos, b""

    def _find(self, pattern: re.Pattern[bytes], pos: int) -> int | None:
        """Where a pattern of at most MARGIN bytes next begins; None: nowhere."""
        while True:
            window = self._text.window(pos, STEP)
            found = pattern.search(window.buf, pos - window.base)
            if found and (window.final or window.end - (window.base + found.start()) >= MARGIN):
                return window.base + found.start()
            if window.final:
                self._text_end = window.end
                return None
            pos = max(pos, window.end - MARGIN)
            self._text.release(pos)

    def _held(self, pos: int, size: int) -> tuple[bytes, bool]:
        """A copy of `size` bytes from `pos`, fewer at the text's end; True when it ends there."""
        window = self._text.window(pos, size)
        at = pos - window.base
        piece = window.buf[at : at + size]
        return piece, window.final and window.base + at + len(piece) == window.end

    # ---- objects

    def _object(self, pos: int) -> int:
        """From behind the brace of a document to behind its closing one."""
        while pos != self._next_document:
            pos, byte = self._next(pos, _NOT_SEPARATOR)
            if not byte:
                return self._cut(pos, pos)
            if byte == b"}":
                return pos + 1
            after = self._member(pos) if byte == b'"' else None
            if after is None:
                place, kind = self._header_place(pos)
                self._losses.skip(pos, place, "bad_header", "skipped up to the next key")
                self._count_break()
                if kind != "key":
                    self._truncated = True
                    return place
                after = place
            elif after < 0:
                return self._text_end
            pos = after
        return pos

    def _header_place(self, pos: int) -> tuple[int, str]:
        start = pos + 1
        while True:
            place = self._find(HEADER_PLACE, start)
            if place is None:
                return self._text_end, "end"
            first = self._byte(place)
            if first == b"{":
                return place, "document"
            at = place + 1 if first == b"\n" else place
            return at, "key"

    def _member(self, pos: int) -> int | None:
        """Read the member whose key is at `pos`; where it ends, None: broken, -1: cut off."""
        self._text.release(pos)
        piece, final = self._held(pos, MAX_KEY)
        key = _HEADER_KEY.match(piece)
        if not key or key.end() == len(piece):
            if final and _CUT_KEY.fullmatch(piece):
                self._text_end = pos + len(piece)
                return self._cut_off(pos)
            return None
        name = key[1].decode("utf-8", "replace")
        at = pos + key.end()
        first = self._byte(at)
        if name == "traceEvents" and first == b"[":
            return self._array(at + 1, bare=False)
        end, fault = self._value_end(at)
        if fault == "cut":
            mendable = first == b'"' and self._text_end - at <= MAX_HEADER_VALUE
            mended = self._mend_header(name, at) if mendable else None
            return self._cut_off(pos) if mended is None else mended
        if end is None:
            return None
        if fault == "deep":
            self._losses.skip(pos, end, "too_deep", f"skipped; nested over {MAX_DEPTH} deep")
            return end
        byte = self._next(end, _NOT_BLANK, release=False)[1]
        if byte and byte not in b",}":
            mendable = first == b'"' and end - at <= MAX_HEADER_VALUE
            return self._mend_header(name, at) if mendable else None
        self._keep_header(name, pos, at, end)
        return end

    def _keep_header(self, name: str, pos: int, at: int, end: int) -> None:
        self._header_bytes += end - pos
        crowded = len(self._header) >= MAX_HEADER_KEYS or self._header_bytes > MAX_HEADER
        if end - at > MAX_HEADER_VALUE or crowded:
            self._header_bytes -= end - pos
            self._count_break()
            self._losses.skip(pos, end, "large_header", "skipped; the header is too large")
        elif name == "traceEvents":
            self._losses.skip(pos, end, "no_array", "skipped; traceEvents is not an array")
        else:
            self._header[name] = self._held(at, end - at)[0]

    def _mend_header(self, name: str, at: int) -> int | None:
        piece, _ = self._held(at, MEND_WITHIN)
        mended = mend_header_text(piece, 0, len(piece))
        if mended is None:
            return None
        self._header[name], length = mended
        self._losses.note(at, length, "repaired_header", "quotes in the value were escaped")
        return at + length

    def _cut(self, pos: int, end: int) -> int:
        """The text ends inside the document; what lies from `pos` on is in no event."""
        action = "the text ends here; what came before is kept"
        if end > pos:
            self._losses.skip(pos, end, "truncated", action)
        elif not self._truncated:
            self._losses.note(pos, 0, "truncated", action)
        self._truncated = True
        return end

    def _cut_off(self, pos: int) -> int:
        """The text, whose end is known by now, ends in the member at `pos`."""
        self._cut(pos, self._text_end)
        return -1

    def _value_end(self, at: int) -> tuple[int | None, str]:
        """Where the value at `at` ends, `deep` when it is nested too deep; None and `cut` when
        the text ends before, None and `broken` when there is no value."""
        skipper = ValueSkipper()
        pos = at
        while True:
            window = self._text.window(pos, 1)
            done = skipper.feed(window.buf, pos - window.base)
            if done is not None:
                deep = "deep" if skipper.deepest > MAX_DEPTH else ""
                return (window.base + done, deep) if done >= 0 else (None, "broken")
            pos = window.end
            if pos - at > MAX_HEADER_VALUE:
                self._text.release(pos)  # it will not be kept
            if window.final:
                self._text_end = pos
                return None, "cut"

    # ---- arrays of events

    def _array(self, pos: int, bare: bool) -> int:
        """From behind the bracket of the events to behind the closing one."""
        self._has_events = True
        self._is_array |= bare
        fresh = True
        while True:
            status, pos, fresh = self._reader.run(self._text, pos, fresh)
            if status == ARRAY_END:
                return pos + 1
            if status == TEXT_END:
                self._unclosed = bare
                return pos if bare else self._cut(pos, pos)
            self._count_break()
            broken = status != GARBAGE
            after = self._broken_event(pos, status) if broken else self._element(pos)
            if after is None:
                return self._text_end
            if after < 0:
                self._next_document = -after
                return -after
            pos, fresh = after, True

    def _count_break(self) -> None:
        """One more place where reading costs a hundred times what an event does."""
        self._breaks += 1
        if self._breaks > MAX_BREAKS:
            raise TraceFormatError(
                f"more than {MAX_BREAKS:,} broken places; if this is a trace, export it again"
            )

    def _element(self, pos: int) -> int | None:
        """Something in the array that is no event: behind it and its like, or as _skip."""
        for size in (ELEMENTS_NEAR, MEND_WITHIN):
            piece, _ = self._held(pos, size)
            count, end = elements_in(piece)
            if count:
                joined = self._joins(pos)
                self._losses.skip(
                    pos, pos + end, "not_an_event", "skipped; not an object", joined, count
                )
                self._last_skip = pos + end
                return pos + end
            if len(piece) < size:
                break
        return self._skip(pos, "not_an_event", "skipped; not an object")

    def _joins(self, pos: int) -> bool:
        """Do only separators stand between the last skipped stretch and `pos`?"""
        if self._last_skip < 0 or not 0 <= pos - self._last_skip <= 64:
            return False
        gap = self._text.before(pos)[-(pos - self._last_skip) :] if pos > self._last_skip else b""
        return not gap.strip(_SEPARATOR_BYTES)

    def _broken_event(self, pos: int, status: int) -> int | None:
        """An event that does not parse: mend it, or skip it. Returns as _skip."""
        assert status in (BAD, SUSPECT)
        indent = indent_of(self._text.before(pos))
        place = None
        for size in (MEND_NEAR, MEND_WITHIN):
            piece, final = self._held(pos, size + MARGIN)
            if pos > self._start and DOCUMENT_START.match(piece):
                self._cut(pos, pos)
                return -pos
            place = next(places(piece, 1, len(piece), final, indent), None)
            if place is not None and place[0] > size and not final:
                place = None
            if place is not None or final:
                break
        if place is not None and place[0] > MEND_WITHIN:
            place = None
        end = place[0] if place else len(piece) if final else None
        if end is not None:
            whole = piece[:end].rstrip(_SEPARATOR_BYTES)
            mended = mend_event(whole)
            if mended is not None and self._reader.repaired(mended, pos):
                self._repaired_bytes += len(whole) - len(mended)
                self._losses.note(pos, len(whole), "repaired", "quotes or commas were mended")
                return pos + len(whole)
        if status == SUSPECT:
            return self._reader.accept(self._text, pos)
        return self._skip(pos, "bad_event", "skipped; not valid JSON and no safe repair")

    def _skip(self, pos: int, reason: str, action: str) -> int | None:
        """Skip to where the array can be picked up: that place; None: nowhere, the text ends;
        below 0: another document starts there."""
        indent = indent_of(self._text.before(pos))
        joined = self._joins(pos)
        start = pos + 1
        while True:
            window = self._text.window(start, STEP)
            base = window.base
            for at, kind in places(window.buf, start - base, len(window.buf), window.final, indent):
                if not window.final and len(window.buf) - at < MARGIN:
                    break
                end = self._trim(pos, base + at)
                self._losses.skip(pos, end, reason, action, joined)
                self._last_skip = end
                if kind == "document":
                    self._truncated = True
                    return -(base + at)
                return base + at
            if window.final:
                self._text_end = window.end
                self._cut(pos, window.end)
                return None
            start = max(start, window.end - 2 * MARGIN)
            self._text.release(start)

    def _trim(self, pos: int, end: int) -> int:
        """`end` without the separators before it."""
        before = self._text.before(end)[-(end - pos) :]
        return end - (len(before) - len(before.rstrip(_SEPARATOR_BYTES)))


_SEPARATOR_BYTES = bytes(range(0x21)) + b","
_NOT_BLANK = re.compile(rb"[^\x00-\x20]")
_NOT_SEPARATOR = re.compile(rb"[^\x00-\x20,]")
_HEADER_KEY = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"[\x00-\x20]*:[\x00-\x20]*', re.DOTALL)
_CUT_KEY = re.compile(rb'"[^"]*(?:"[\x00-\x20]*(?::[\x00-\x20]*)?)?', re.DOTALL)


def _document(found: Events, **facts: Any) -> Document:
    """The columns of a reader as a Document: texts decoded, equal ones joined."""
    columns: dict[str, Any] = dict(found.columns)
    replaced = 0
    for name, raw in (("cat", found.cats), ("name", found.names)):
        texts, codes, bad = _decoded(raw)
        replaced += bad
        if codes is not None:
            columns[name] = codes[columns[name]]
        columns[f"{name}s"] = texts
    texts, codes, _ = _decoded(found.texts)
    if codes is not None:
        for name in ("pid", "tid"):
            columns[name] = _recoded(columns[name], codes)
    dropped: dict[str, int] = {}
    for cat, count in found.dropped.items():
        label = "flow" if cat is None else cat.decode("utf-8", "replace")
        dropped[label] = dropped.get(label, 0) + count
    return Document(
        **columns,
        texts=texts,
        args_event=found.args_event,
        args_text=found.args_text,
        events=found.events,
        dropped=dropped,
        replaced_names=replaced,
        **facts,
    )


def _decoded(raw: list[bytes]) -> tuple[list[str], Any, int]:
    """Texts as str, the new numbers where some became equal (else None), and how many were
    not UTF-8."""
    import numpy as np

    texts = [text.decode("utf-8", "replace") for text in raw]
    if all(text.isascii() for text in texts):
        return texts, None, 0
    bad = sum(text.encode("utf-8") != old for text, old in zip(texts, raw, strict=True))
    distinct: dict[str, int] = {}
    codes = [distinct.setdefault(text, len(distinct)) for text in texts]
    if len(distinct) == len(texts):
        return texts, None, bad
    # -1 (absent) indexes the last place, which keeps it absent.
    return list(distinct), np.array([*codes, -1], dtype=np.int32), bad


def _recoded(column: Any, codes: Any) -> Any:
    from specscope.traces.events import ABSENT, TEXT_ID_BASE

    is_text = (column <= TEXT_ID_BASE) & (column != ABSENT)
    column = column.copy()
    column[is_text] = TEXT_ID_BASE - codes[TEXT_ID_BASE - column[is_text]]
    return column
