"""The cycle log: a row for every stage and cycle, written without a profiler.

A hook appends a row to a bounded queue and goes on; a background thread writes. When the queue
is full the row is dropped and counted, and the log says how many and where. When the disk does
not take it the log ends with one warning. A forked child begins a log of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import get_native_id
from time import perf_counter_ns
from typing import Any, Final

from . import complaints, cycle_log_writer
from .cycle_log_rows import REASONS, Row, Seen, SeenAccept, fitting
from .cycle_log_writer import Identity, Pieces
from .metrics import Exporter

POLL_SECONDS: Final = 0.1
# Accept lengths kept of one cycle.
MOST_LENGTHS: Final = 1024
_MOST: Final = 1 << 31  # accept lengths have 32 bits, ranks too

_logger = logging.getLogger("specscope")


@dataclass(frozen=True)
class LogConfig:
    """Where the log goes and how large it may become, for each process."""

    folder: Path | None  # None: no files, for the metrics alone
    rank: int | None = None  # else the environment's RANK
    world_size: int | None = None
    queue_rows: int = 20_000
    batch_rows: int = 1_000
    flush_seconds: float = 1.0
    piece_bytes: int = 64 << 20
    total_bytes: int = 1 << 30
    engine: str = ""
    engine_version: str = ""


class CycleLog:
    """The log of this process. `put` is for hooks: it never blocks and never raises."""

    def __init__(
        self,
        config: LogConfig,
        *,
        put_bytes: Callable[[int, Any], int] = os.write,
        poll_seconds: float = POLL_SECONDS,
        metrics: Exporter | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._at_end = at_end  # for when there is nothing left to write for
        self._files = config.folder is not None
        self._put_bytes = put_bytes
        self._poll_seconds = poll_seconds
        self._rows: deque[Row | Seen | SeenAccept] = deque()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._left_out = 0  # numbers that the log has no room for
        self._lost: Counter[str] = Counter()  # in all
        self._told: Counter[str] = Counter()  # as rows of the log last said
        self._told_in: Path | None = None
        self._pieces: Pieces | None = None
        self._error = ""
        self._dead = False
        self._started_ns = time.time_ns()
        self._clock_base_ns = cycle_log_writer.clock_base_ns()

    def start(self) -> bool:
        """Import what writing needs, try the folder, start the writer; False when it is off."""
        folder = self._config.folder
        try:
            if folder is not None:
                cycle_log_writer.prepare()
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not os.access(folder, os.W_OK | os.X_OK):
                    raise PermissionError(13, "permission denied")
        except Exception as error:
            self._fail(error, (), files_only=True)
        if not self._dead:
            self._start_thread()
        return not self._dead

    @property
    def is_on(self) -> bool:
        """Does it still take rows?"""
        return not self._dead

    def put(self, row: Row) -> None:
        """Append a row, or count it as dropped."""
        if self._dead:
            self._lose("write_failed", 1)
        elif len(self._rows) >= self._config.queue_rows:
            self._lose("queue_full", 1)
        else:
            self._rows.append(row)
            if self._thread is None:
                self._start_thread()

    def room_for(self, rows: int) -> Callable[[Seen | SeenAccept], None] | None:
        """What takes so many more ranges; None where they must go through `put`."""
        if self._dead or self._thread is None or len(self._rows) + rows > self._config.queue_rows:
            return None
        return self._rows.append

    def put_range(self, seen: Seen) -> None:
        """Append a range, of which the writer makes the row."""
        if self.room_for(1) is None:
            self.put(Row.of(*seen))
        else:
            self._rows.append(seen)

    def record_accept(self, cycle: int | None, lengths: list[int]) -> None:
        """Accept lengths of one cycle, one a sequence, the bonus token included."""
        self.put(self._row((cycle, lengths[:MOST_LENGTHS], 0, perf_counter_ns(), get_native_id())))

    def set_rank(self, rank: int | None, world_size: int | None = None) -> None:
        """Say who this process is, as soon as it is known; a new piece begins when it changes."""
        config = self._config
        self._config = replace(
            config,
            rank=config.rank if rank is None else rank,
            world_size=config.world_size if world_size is None else world_size,
        )

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits and end the file; gives up waiting for a stuck disk."""
        thread = self._thread
        self._stop.set()
        if thread is not None and thread.is_alive():
            thread.join(timeout)
        self._dead = True
        over = thread is None or not thread.is_alive()
        if self._config.folder is not None and over and (left := self._drained()):
            self._lose("write_failed", left)  # put in while the log ended
        if self._metrics is not None:
            self._metrics.close()

    def after_fork(self) -> None:
        """In a forked child: nothing of the parent's is written, a log of its own begins."""
        if self._pieces is not None:
            self._pieces.abandon()
        self._rows = deque()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._lost, self._told = Counter(), Counter()
        self._left_out = 0
        self._pieces = None
        self._thread = None
        self._started_ns = time.time_ns()
        if self._metrics is not None:
            self._metrics.after_fork()

    def report(self) -> dict[str, Any]:
        """What was written and what was lost."""
        pieces = self._pieces
        path = pieces.path if pieces else None
        return {
            "active": self.is_on and self._files,
            "folder": str(self._config.folder) if self._config.folder is not None else None,
            "file": str(path) if path else None,
            "rows": pieces.rows if pieces else 0,
            "bytes": pieces.size if pieces else 0,
            "waiting": len(self._rows),
            "lost": dict(self._lost),
            "left_out": self._left_out,
            "error": self._error,
        }

    def _lose(self, reason: str, count: int) -> None:
        with self._lock:
            self._lost[reason] += count

    def _start_thread(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            _at_process_end(self.close)
            thread = threading.Thread(target=self._run, name="specscope-cycle-log", daemon=True)
            self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is going down
            self._fail(error, ())

    def _run(self) -> None:
        last = time.monotonic()
        rows: list[Row] = []
        mine, stop = threading.current_thread(), self._stop
        try:
            while not self._dead:
                stopping = stop.wait(self._poll_seconds)
                if self._thread is not mine:  # the log began anew: its rows are another's
                    return
                self._poll_metrics()
                now = time.monotonic()
                waiting = len(self._rows)
                if (
                    stopping
                    or waiting >= self._config.batch_rows
                    or (waiting and now - last >= self._config.flush_seconds)
                ):
                    last = now
                    # A failure empties the queue: nothing would come out of it any more.
                    while waiting > 0 and not self._dead and (rows := self._take()):
                        waiting -= len(rows)
                        self._write(rows)
                        rows = []
                if stopping:
                    break
            if self._pieces is not None:
                self._tell_losses()
                self._pieces.close()
        except BaseException as error:
            self._fail(error, rows)

    def _take(self) -> list[Row]:
        size = min(self._config.batch_rows, len(self._rows))
        return [self._row(self._rows.popleft()) for _ in range(size)]

    def _row(self, seen: Row | Seen | SeenAccept) -> Row:
        if isinstance(seen, Row):
            return seen
        if isinstance(seen[0], str):
            return Row.of(*seen)
        cycle, drafts, bonus, now, thread = seen
        lengths = [
            draft + bonus
            for draft in drafts
            if type(draft) is int and -_MOST <= draft + bonus < _MOST
        ]
        self._leave_out(len(drafts) - len(lengths))
        return Row.accept(cycle, lengths, now, thread)

    def _leave_out(self, numbers: int) -> None:
        """Count numbers that the log cannot hold; the first are worth a warning."""
        if numbers and not self._left_out:
            _logger.warning("specscope: the cycle log leaves out numbers that it cannot hold")
        self._left_out += numbers

    def _fitting(self, rows: Sequence[Row]) -> Sequence[Row]:
        fit, left_out = fitting(rows)
        self._leave_out(left_out)
        return fit

    def _write(self, rows: Sequence[Row]) -> None:
        if self._metrics is not None:
            rows = self._fitting(rows)
            self._metrics.take(rows)
        if not self._files:
            if self._config.folder is not None:
                self._lose("write_failed", len(rows))
            return
        try:
            self._write_files(rows)
        except Exception as error:
            self._fail(error, rows, files_only=True)

    def _poll_metrics(self) -> None:
        if self._metrics is None:
            return
        with self._lock:
            lost = {reason: self._lost[reason] for reason in self._reasons()}
        self._metrics.poll(self._identity().rank, lost)
        if self._config.folder is None and not self._metrics.is_on:
            self._dead = True
            if self._at_end is not None:
                self._at_end()

    def _reasons(self) -> tuple[str, ...]:
        return REASONS if self._config.folder is not None else ("queue_full",)

    def _write_files(self, rows: Sequence[Row]) -> None:
        pieces = self._pieces
        if pieces is None or pieces.identity != self._identity():
            if pieces is not None:
                pieces.close()
            pieces = self._pieces = self._new_pieces(pieces)
        try:
            pieces.write(rows)
        except (OverflowError, TypeError, ValueError):  # before a byte of them was written
            fit = self._fitting(rows)
            if fit is rows:
                raise
            pieces.write(fit)
        removed = pieces.removed_rows - self._lost["rotated_away"]
        if removed > 0:
            self._lose("rotated_away", removed)
        self._tell_losses()

    def _tell_losses(self) -> None:
        """Rows with what was lost so far, when that is news, and once in every piece.

        They hold totals, so that the newest stays true when older pieces go.
        """
        pieces = self._pieces
        with self._lock:
            lost = self._lost.copy()
        if pieces is None or not lost or not self._files:
            return
        if lost == self._told and pieces.path == self._told_in:
            return
        now = perf_counter_ns()
        pieces.note([Row.lost(count, reason, now) for reason, count in lost.items()])
        self._told, self._told_in = lost, pieces.path

    def _identity(self) -> Identity:
        config = self._config
        return Identity(
            rank=_possible(config.rank, "RANK"),
            world_size=_possible(config.world_size, "WORLD_SIZE"),
            start_ns=self._started_ns,
            clock_base_ns=self._clock_base_ns,
            engine=config.engine[:80],
            engine_version=config.engine_version[:80],
        )

    def _new_pieces(self, before: Pieces | None) -> Pieces:
        assert self._config.folder is not None
        return Pieces(
            self._config.folder,
            self._identity(),
            piece_bytes=self._config.piece_bytes,
            total_bytes=self._config.total_bytes,
            put_bytes=self._put_bytes,
            before=before,
        )

    def _fail(self, error: BaseException, rows: Sequence[Row], *, files_only: bool = False) -> None:
        """The log ends; the server does not notice. Metrics can do without its files."""
        self._error = f"{type(error).__name__}: {error}"[:300]
        self._files = False
        waiting = len(rows)
        if not files_only or self._metrics is None:
            self._dead = True
            waiting += self._drained()
        if waiting:
            self._lose("write_failed", waiting)
        if self._pieces is not None:
            self._pieces.abandon()
        complaints.about(self._config.folder, "the cycle log is off", self._error)

    def _drained(self) -> int:
        """How many rows waited; they are gone."""
        count = 0
        while True:
            try:
                self._rows.popleft()
            except IndexError:
                return count
            count += 1


def _at_process_end(close: Callable[[], None]) -> None:
    """Have a forked child of multiprocessing write its last rows: it ends without `atexit`."""
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, close, exitpriority=1)


def _possible(given: int | None, variable: str) -> int | None:
    """What was given, where it can be a rank or a number of them; else the environment's."""
    return given if given is not None and 0 <= given < _MOST else _environment(variable)


def _environment(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 8 else None
