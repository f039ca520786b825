"""The reader over the C extension: segments scanned ahead in threads, joined in order.

A text that is there as a whole is cut at places that look like the start of an event. Each
segment is scanned on that guess; it counts only when the segment before it ended exactly
where it began, else it is thrown away and read again from the true place. So the result is
that of one pass, whatever the guesses were.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from specscope.traces import _scan
from specscope.traces.events import REPAIRED, ScanOptions
from specscope.traces.scan_parts import BAD, COLUMN_TYPES, MORE, STOPPED, SUSPECT, Events
from specscope.traces.text import Text

SEGMENT = 4 << 20  # bytes scanned at a time
MAX_RESERVE = 1 << 25  # rows
GUESS_WITHIN = 64 << 10  # how far to look for the start of an event

_LINE_START = re.compile(rb'\n[ \t]{0,16}(\{)[\x00-\x20]{0,16}"(?:ph|name|cat|args)"[ ]?:')
_ANY_START = re.compile(rb'\},[\x00-\x20]{0,16}(\{)[\x00-\x20]{0,16}"(?:ph|name|cat|args)"[ ]?:')


@dataclass
class _Ahead:
    """A segment being scanned on a guess."""

    start: int
    stop: int
    scanner: _scan.Scanner
    future: Future[tuple[int, int, int]]


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class NativeReader:
    """See scan_parts.Reader."""

    def __init__(self, options: ScanOptions):
        self._seed = secrets.randbits(64)
        self._columns = _scan.Columns(self._seed)
        self._threads = max(1, min(options.threads, usable_cores()))
        self._options = options
        self._main = self._scanner()
        self._idle: list[_scan.Scanner] = []
        self._all = [self._main]
        self._ahead: deque[_Ahead] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._reserved = False

    def _scanner(self) -> _scan.Scanner:
        options = self._options
        return _scan.Scanner(options.all_frames, options.frame_needles, self._seed)

    # ---- one after another

    def run(self, text: Text, pos: int, fresh: bool) -> tuple[int, int, bool]:
        """See Reader."""
        size = 1
        start = pos
        while True:
            if self._threads > 1 and text.whole:
                status, at, fresh = self._step_ahead(text, pos, fresh)
            else:
                window = text.window(pos, size)
                stop = min(window.stop, pos + SEGMENT)
                status, at, still = self._main.scan(
                    window.buf, window.base, pos, max(stop, pos + 1), window.final, fresh, False
                )
                fresh = bool(still)
                self._columns.append(self._main)
                if status == MORE:
                    size = 1 if at >= window.stop else 2 * (window.end - at) + GUESS_WITHIN
                else:
                    size = 1
            pos = at
            if text.whole and not self._reserved:
                self._reserve(pos - start, text.window(pos, 1).end - pos)
            text.check()
            text.release(pos)
            if status not in (STOPPED, MORE):
                return status, pos, fresh

    def _reserve(self, read: int, left: int) -> None:
        """Room for what is to come, judged by the rows so far."""
        self._reserved = True
        rows = self._columns.rows
        if read >= SEGMENT // 2 and left > 0:
            self._columns.reserve(min(rows + int(rows * 1.1 * left / read), MAX_RESERVE))

    # ---- ahead, in threads

    def _step_ahead(self, text: Text, pos: int, fresh: bool) -> tuple[int, int, bool]:
        """One segment from `pos`, while others are scanned behind it."""
        while self._ahead and self._ahead[0].start < pos:
            self._discard(self._ahead.popleft())
        self._fill(text, pos, fresh)
        window = text.window(pos, 1)
        if self._ahead and self._ahead[0].start == pos:
            part = self._ahead.popleft()
            status, at, still = part.future.result()
            self._fill(text, part.stop, True)
            self._columns.append(part.scanner)
            self._idle.append(part.scanner)
        else:
            stop = self._ahead[0].start if self._ahead else pos + SEGMENT
            status, at, still = self._main.scan(window.buf, 0, pos, stop, True, fresh, False)
            self._columns.append(self._main)
        return status, at, bool(still)

    def _fill(self, text: Text, pos: int, fresh: bool) -> None:
        """Start scans of the segments that follow the last one begun, or `pos`."""
        window = text.window(pos, 1)
        start = max(self._ahead[-1].stop, pos) if self._ahead else pos
        while start < window.end and len(self._ahead) < self._threads + 1:
            stop = _guess(window.buf, start + SEGMENT, window.end)
            if self._pool is None:
                if start == pos and stop > window.end:
                    return  # one segment: not worth a thread
                self._pool = ThreadPoolExecutor(self._threads)
            scanner = self._take()
            future = self._pool.submit(
                scanner.scan, window.buf, 0, start, stop, True, fresh or start != pos, False
            )
            self._ahead.append(_Ahead(start, stop, scanner, future))
            start = stop

    def _take(self) -> _scan.Scanner:
        if self._idle:
            return self._idle.pop()
        scanner = self._scanner()
        self._all.append(scanner)
        return scanner

    def _discard(self, part: _Ahead) -> None:
        if not part.future.cancel():
            part.future.exception()
        self._idle.append(part.scanner)

    # ---- single events

    def accept(self, text: Text, pos: int) -> int:
        """See Reader."""
        window = text.window(pos, 1)
        size = 1
        while True:
            window = text.window(pos, size)
            status, at, _ = self._main.scan(
                window.buf, window.base, pos, pos + 1, window.final, True, True
            )
            if status != MORE:
                break
            size = 2 * (window.end - pos) + GUESS_WITHIN
        if status in (BAD, SUSPECT):
            raise AssertionError("accept was asked for an event that does not parse")
        self._columns.append(self._main)
        return at

    def repaired(self, event: bytes, offset: int) -> bool:
        """See Reader."""
        status, at, _ = self._main.scan(event, 0, 0, 1, True, True, True)
        if status != STOPPED or at != len(event):
            return False
        self._columns.append(self._main, REPAIRED, offset)
        return True

    # ---- the end

    def finish(self) -> Events:
        """See Reader."""
        while self._ahead:
            self._discard(self._ahead.popleft())
        out = self._columns.finish()
        self._reserved = False
        for scanner in self._all:
            self._columns.forget(scanner)
        dropped: dict[bytes | None, int] = dict(out["dropped"])
        if out["dropped_without_cat"]:
            dropped[None] = out["dropped_without_cat"]
        return Events(
            columns={
                name: np.frombuffer(out[name], dtype=kind) for name, kind in COLUMN_TYPES.items()
            },
            cats=out["cats"],
            names=out["names"],
            texts=out["texts"],
            args_event=np.frombuffer(out["args_event"], dtype=np.int64),
            args_text=out["args_text"],
            dropped=dropped,
            events=out["events"],
            event_bytes=out["event_bytes"],
            odd_separators=out["odd_separators"],
            first_odd=out["first_odd"],
        )

    def close(self) -> None:
        """See Reader."""
        while self._ahead:
            self._discard(self._ahead.popleft())
        if self._pool is not None:
            self._pool.shutdown()
        # A scanner whose rows nobody took still holds the buffer, which is to be unmapped.
        self._idle.clear()
        self._all.clear()


def _guess(buf: object, near: int, end: int) -> int:
    """Where an event seems to start, at or soon after `near`; behind the end when nowhere."""
    if near >= end:
        return end + 1
    upto = min(near + GUESS_WITHIN, end)
    found = _LINE_START.search(buf, near, upto) or _ANY_START.search(buf, near, upto)  # type: ignore[call-overload]
    return found.start(1) if found else end + 1
