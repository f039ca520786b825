"""Sums up the rows of the cycle log for Prometheus: counts in fixed buckets, no row is kept.

The writer's thread gives the rows, in the order in which the ranges of each thread closed. A
range holds those inside it, so of every instant the innermost range is the owner, and a stage
is counted once a cycle, whatever ranges it has. Standard library alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from .cycle_log_rows import ACCEPT_ROW, CYCLE_ROW, LOST_ROW, STAGE_CODE, Row

_US: Final = 1_000
# 50 us to 1 s, close where cycles of servers lie.
TIME_BUCKETS: Final = tuple(
    n * _US
    for n in (
        *(50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000),
        *(30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_000_000),
    )
)
LENGTH_BUCKETS: Final = tuple(range(1, 18))
BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

# Bounds of what is kept: ranges of a cycle, cycles that wait for their neighbour, threads.
MOST_RANGES: Final = 256
MOST_STARTS: Final = 128
MOST_THREADS: Final = 64

_PREFILL: Final = STAGE_CODE["prefill"]
_DECODE: Final = STAGE_CODE["decode"]


class Histogram:
    """Counts of whole numbers by upper bound (inclusive), and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def observe(self, value: int) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many were observed."""
        return sum(self.counts)


class _Cycle:
    """What is known so far of the cycle that a thread is in."""

    __slots__ = ("batch", "gpu", "inside", "number", "start", "times")

    def __init__(self, number: int | None, start: int, batch: int | None) -> None:
        self.number = number
        self.start = start
        self.batch = batch
        self.times: dict[int, int] = {}  # by stage
        self.gpu: dict[int, int] = {}
        # Ranges that no later one has held yet: start, length, length on the GPU.
        self.inside: list[tuple[int, int, int]] = []


class _Thread:
    """The open cycle of a thread, and the starts of its last ones: a sampled one comes late."""

    __slots__ = ("open", "starts")

    def __init__(self) -> None:
        self.open: _Cycle | None = None
        self.starts: dict[int, tuple[int, bool]] = {}


class Tally:
    """All that the page of a process shows of its rows."""

    def __init__(self) -> None:
        self.stages: dict[int, Histogram] = {}  # nanoseconds of the host, by stage
        self.gpu_stages: dict[int, Histogram] = {}
        self.cycle = Histogram(TIME_BUCKETS)
        self.gpu_cycle = Histogram(TIME_BUCKETS)
        self.accept = Histogram(LENGTH_BUCKETS)
        self.batch = Histogram(BATCH_BUCKETS)
        self._threads: dict[int, _Thread] = {}

    # Written out in one piece: it runs for every row, and takes the interpreter while it does.
    def take(self, rows: Iterable[Row]) -> None:
        """Count these rows."""
        lengths_seen, most = self.accept.counts, len(LENGTH_BUCKETS)
        thread, last = None, -1
        for row in rows:
            (kind, stage, number, _, start, end, gpu_start, gpu_end, batch, _, _, name) = row[:12]
            if kind == ACCEPT_ROW:
                lengths = row[12] or ()
                for length in lengths:  # buckets 1, 2, 3... need no search
                    lengths_seen[length - 1 if 0 < length <= most else most * (length > 0)] += 1
                self.accept.sum += sum(lengths)
                continue
            if kind == LOST_ROW:
                continue
            if thread is None or name != last:
                thread, last = self._threads.get(name) or self._new_thread(name), name
            cycle = thread.open
            if cycle is None or number != cycle.number or number is None:
                self._close(thread)
                cycle = thread.open = _Cycle(number, start, batch)
            else:
                if start < cycle.start:  # noqa: PLR1730 - a call costs more
                    cycle.start = start
                if batch is not None:
                    cycle.batch = batch
            gpu = 0
            if gpu_end is not None and gpu_start is not None:
                gpu = gpu_end - gpu_start
            if kind == CYCLE_ROW:
                if gpu > 0:
                    self.gpu_cycle.observe(gpu)
                if cycle.times:  # else it comes before its stages, as that of a sampled cycle does
                    self._close(thread)
                continue
            assert stage is not None
            inside = cycle.inside
            length = own = end - start
            own_gpu = gpu
            while inside and inside[-1][0] >= start:
                _, held, held_gpu = inside.pop()
                own -= held
                own_gpu -= held_gpu
            inside.append((start, length, gpu))
            if len(inside) > MOST_RANGES:
                del inside[: MOST_RANGES // 2]
            times = cycle.times
            times[stage] = times.get(stage, 0) + own
            if gpu_end is not None:
                cycle.gpu[stage] = cycle.gpu.get(stage, 0) + own_gpu

    def settle(self) -> None:
        """Nothing came for a while: cycles that are open count as they are."""
        for thread in self._threads.values():
            self._close(thread)

    def _new_thread(self, name: int) -> _Thread:
        if len(self._threads) >= MOST_THREADS:
            oldest = next(iter(self._threads))
            self._close(self._threads.pop(oldest))
        thread = self._threads[name] = _Thread()
        return thread

    def _close(self, thread: _Thread) -> None:
        """The thread's cycle is over: observe it, and its length once a neighbour is known."""
        cycle, thread.open = thread.open, None
        if cycle is None:
            return
        times = cycle.times
        _observe(self.stages, times)
        if cycle.gpu:
            _observe(self.gpu_stages, cycle.gpu)
        number, start, starts = cycle.number, cycle.start, thread.starts
        if _PREFILL in times or number in starts:
            return
        if cycle.batch is not None:
            self.batch.observe(cycle.batch)
        if number is None:
            return
        plain = _DECODE in times
        before, after = starts.get(number - 1), starts.get(number + 1)
        if before is not None and before[1] == plain and before[0] <= start:
            self.cycle.observe(start - before[0])
        if after is not None and after[1] == plain and start <= after[0]:
            self.cycle.observe(after[0] - start)
        starts[number] = (start, plain)
        if len(starts) > MOST_STARTS:
            del starts[next(iter(starts))]


def _observe(histograms: dict[int, Histogram], times: dict[int, int]) -> None:
    for stage, ns in times.items():
        found = histograms.get(stage)
        if found is None:
            found = histograms[stage] = Histogram(TIME_BUCKETS)
        own = max(ns, 0)  # events may lie closer than ranges
        found.counts[bisect_left(TIME_BUCKETS, own)] += 1
        found.sum += own
