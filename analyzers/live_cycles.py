"""Folds rows of a cycle log into cycles while the log grows: what each stage took in each cycle.

A stage has the time in which no range of another stage was open inside it, on the thread that
runs the stages; what no stage has, up to the start of the next cycle, is `schedule`. That is how
`analyze` cuts a log too (evidence_log, host_partition); here it is done row by row, in bounded
memory. Rows may come late: those of sampled cycles wait for their events, accept lengths too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from specscope.analyzers.words import DECODE, PREFILL, SCHEDULE, STAGES, VERIFY

# Cycles that are kept of one process, as many as `analyze` looks at.
MOST_CYCLES: Final = 20_000
# Cycles whose rows are kept, for more of them may come.
OPEN_CYCLES: Final = 256
# Ranges of one cycle, far above what any engine has.
MOST_RANGES: Final = 512

_COLUMNS: Final = (
    *("row", "stage", "cycle", "start_ns", "end_ns", "gpu_start_ns", "gpu_end_ns"),
    *("batch", "thread", "accept_length", "lost_rows", "reason"),
)
_CODE: Final = {name: code for code, name in enumerate(STAGES)}

# Start, end and stage of one range.
Piece = tuple[int, int, int]
Times = tuple[int, ...]  # nanoseconds by stage


@dataclass(frozen=True)
class LiveCycle:
    """One cycle so far. `start_ns` is since 1970; its length is known by the next one.

    `host_ns` and `gpu_ns` are by stage, without `schedule`, which is what is left of the length.
    """

    number: int
    start_ns: int
    kind: str
    batch: int | None
    host_ns: Times
    gpu_ns: Times | None
    gpu_length_ns: int | None


@dataclass(frozen=True)
class LiveAccept:
    """Accept lengths of one cycle: their mean, the bonus token included, over the sequences."""

    time_ns: int
    number: int | None
    length: float
    sequences: int


@dataclass
class _Open:
    """The rows of one cycle."""

    host: list[tuple[int, Piece]] = field(default_factory=list)  # thread, range
    gpu: list[Piece] = field(default_factory=list)
    batch: int | None = None
    gpu_length: int | None = None


class CycleFold:
    """The cycles of one process in the last `window_ns`, in bounded memory."""

    def __init__(self, window_ns: int) -> None:
        self.cycles: dict[int, LiveCycle] = {}
        self.accepts: deque[LiveAccept] = deque(maxlen=MOST_CYCLES)
        self.lost: dict[str, int] = {}
        self.newest_ns: int | None = None
        self.unnumbered_rows = 0
        self.late_rows = 0  # came after their cycle was closed
        self.cut_cycles = 0  # inside the window, let go for `MOST_CYCLES`
        self._window_ns = window_ns
        self._open: dict[int, _Open] = {}
        self._closed_up_to: int | None = None
        self._threads: Counter[int] = Counter()

    def take(self, rows: pa.Table, clock_base_ns: int) -> None:
        """More rows, whose times become times since 1970 by `clock_base_ns`."""
        changed: set[int] = set()
        columns = [rows[name].to_pylist() for name in _COLUMNS]
        for row in zip(*columns, strict=True):
            (word, stage, number, start, end, gpu_start, gpu_end) = row[:7]
            (batch, thread, length, lost, reason) = row[7:]
            if word == "lost":
                self.lost[str(reason)] = max(self.lost.get(str(reason), 0), lost or 0)
                continue
            at = end + clock_base_ns
            if self.newest_ns is None or at > self.newest_ns:
                self.newest_ns = at
            if word == "accept":
                if length is not None:
                    self.accepts.append(LiveAccept(at, number, length, max(batch or 1, 1)))
                continue
            if number is None:
                self.unnumbered_rows += 1
                continue
            cycle = self._cycle(number)
            if cycle is None:
                self.late_rows += 1
                continue
            changed.add(number)
            if batch is not None:
                cycle.batch = batch
            if word == "cycle":
                cycle.gpu_length = cycle.gpu_length if gpu_end is None else gpu_end
            elif len(cycle.host) < MOST_RANGES:
                code = _CODE[stage]
                cycle.host.append((thread, (start + clock_base_ns, at, code)))
                self._threads[thread] += code != SCHEDULE
                if gpu_end is not None and gpu_start is not None:
                    cycle.gpu.append((gpu_start, gpu_end, code))
        main = self._main_thread()
        for number in changed:
            found = _cycle_of(number, self._open[number], main)
            if found is not None:
                self.cycles[number] = found
        self._trim()

    def _cycle(self, number: int) -> _Open | None:
        cycle = self._open.get(number)
        if cycle is None:
            if self._closed_up_to is not None and number <= self._closed_up_to:
                return None
            cycle = self._open[number] = _Open()
        return cycle

    def _main_thread(self) -> int | None:
        """The thread that runs the stages: the one with the most ranges of them."""
        if len(self._threads) > 64:
            self._threads = Counter(dict(self._threads.most_common(8)))
        return max(self._threads, key=self._threads.__getitem__, default=None)

    def _trim(self) -> None:
        """Let go of rows that nothing joins any more, and of cycles before the window."""
        if len(self._open) > OPEN_CYCLES:
            numbers = sorted(self._open)[: len(self._open) - OPEN_CYCLES]
            for number in numbers:
                del self._open[number]
            self._closed_up_to = max(self._closed_up_to or numbers[-1], numbers[-1])
        if self.newest_ns is None:
            return
        oldest = self.newest_ns - self._window_ns
        while self.accepts and self.accepts[0].time_ns < oldest:
            self.accepts.popleft()
        if self.cycles and self.cycles[next(iter(self.cycles))].start_ns < oldest:
            self.cycles = {n: one for n, one in self.cycles.items() if one.start_ns >= oldest}
        if len(self.cycles) > MOST_CYCLES:
            over = sorted(self.cycles)[: len(self.cycles) - MOST_CYCLES]
            self.cut_cycles += len(over)
            for number in over:
                del self.cycles[number]


def _cycle_of(number: int, rows: _Open, main: int | None) -> LiveCycle | None:
    """The cycle of these rows, or None while none of its stages is there."""
    mine = [piece for thread, piece in rows.host if thread == main]
    starts = [start for start, _, stage in mine if stage != SCHEDULE]
    if not starts:
        return None
    holds = {stage for _, _, stage in mine}
    if PREFILL in holds:
        kind = "mixed" if holds & {VERIFY, DECODE} else "prefill"
    else:
        kind = "decode" if DECODE in holds and VERIFY not in holds else "speculation"
    gpu = None
    if rows.gpu_length:
        gpu = own_times(rows.gpu, 0, rows.gpu_length)
    return LiveCycle(
        number,
        min(starts),
        kind,
        rows.batch,
        own_times(mine, min(starts)),
        gpu,
        rows.gpu_length if gpu is not None else None,
    )


def own_times(pieces: Sequence[Piece], low: int, high: int | None = None) -> Times:
    """Nanoseconds of each stage in [low, high): of every instant the innermost range is the owner.

    The innermost is the one that starts last; of equal starts, the shorter. `schedule` has none.
    """
    times = [0] * len(STAGES)
    stack: list[tuple[int, int]] = []  # end, stage
    at = low
    for start, end, stage in sorted(pieces, key=lambda piece: (piece[0], -piece[1])):
        first, last = max(start, low), end if high is None else min(end, high)
        if last <= first:
            continue
        at = _ended(stack, times, at, first)
        if stack:
            times[stack[-1][1]] += first - at
        at = first
        stack.append((last, stage))
    _ended(stack, times, at, None)
    times[SCHEDULE] = 0
    return tuple(times)


def _ended(stack: list[tuple[int, int]], times: list[int], at: int, until: int | None) -> int:
    """Close what ends before `until`; the time up to which all of it is counted."""
    while stack and (until is None or stack[-1][0] <= until):
        end, stage = stack.pop()
        if end > at:
            times[stage] += end - at
            at = end
    return at
