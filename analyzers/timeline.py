"""The whole run on one axis of time, at any zoom: exact shares of columns, or the bars themselves.

A lane is a stream of a rank's GPU, or a host thread with its launches and blocking calls. Seen
from afar a lane is cut into columns, each with the share of time that every stage has in it: by
prefix sums, exact to the nanosecond. From near there are few enough ops to be drawn as they are.
Building costs a sort; a look costs a search per column, whatever the size of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specscope.analyzers.columns import Bool, Int, ints, which
from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES, UNPLACED

# Behind the stages: a host call that blocks its thread.
BLOCKING: Final = len(STAGES)
CLASSES: Final = (*STAGES, "blocking")
_LAUNCHES: Final = ("launch", "graph_launch", "copy")
_SYNC: Final = "sync"

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Class:
    """The time of one stage in a lane: disjoint intervals in order, and their lengths so far."""

    code: int
    start: Int
    end: Int
    before: Int  # before[i]: length of all intervals before the i-th

    def until(self, times: Int) -> Int:
        """How much of its time lies before each of the times."""
        at = np.searchsorted(self.start, times, "right")
        last = self.end[np.maximum(at - 1, 0)]
        over = np.where(at > 0, np.maximum(last - times, 0), 0)
        found: Int = self.before[at] - over
        return found


@dataclass(frozen=True)
class Lane:
    """One stream or host thread. Times are on the run's axis; `row` points into its table."""

    rank: int
    on_host: bool
    name: str
    start: Int
    end: Int
    reach: Int  # the latest end so far: where a search for what is visible begins
    row: Int
    code: npt.NDArray[np.int8]
    classes: tuple[Class, ...]

    def visible(self, low: int, high: int) -> slice:
        """The rows that may touch [low, high)."""
        first = int(np.searchsorted(self.reach, low, "right"))
        return slice(first, max(first, int(np.searchsorted(self.start, high, "left"))))

    def shares(self, edges: Int) -> Shares:
        """[class, column]: share of each column that each class has."""
        found = np.zeros((len(CLASSES), len(edges) - 1))
        width = np.maximum(np.diff(edges), 1)
        for one in self.classes:
            found[one.code] = np.diff(one.until(edges)) / width
        return found


@dataclass(frozen=True)
class Bar:
    """One op or call, as it is: times on the run's axis."""

    lane: int
    name: str
    code: int  # into CLASSES
    activity: str
    start_ns: int
    ns: int
    delay_ns: int | None  # since its launch began; None: a call, or not on record


@dataclass(frozen=True)
class CallStarts:
    """When each call of a rank began, by its id in order."""

    call_id: Int
    start: Int

    @staticmethod
    def read(calls: pa.Table) -> CallStarts:
        """Of the table of calls."""
        known, start = ints(calls, "call_id"), ints(calls, "start_ns")
        if (np.diff(known) < 0).any():
            order = np.argsort(known, kind="stable")
            known, start = known[order], start[order]
        return CallStarts(known, start)

    def of(self, call_ids: pa.ChunkedArray) -> list[int | None]:
        """The start of each; None where the call is not on record."""
        wanted = np.asarray(call_ids.fill_null(-1).to_numpy()).astype(np.int64)
        if not len(self.call_id):
            return [None] * len(wanted)
        at = np.minimum(np.searchsorted(self.call_id, wanted), len(self.call_id) - 1)
        hits = self.call_id[at] == wanted
        pairs = zip(self.start[at].tolist(), hits.tolist(), strict=True)
        return [time if hit else None for time, hit in pairs]


@dataclass(frozen=True)
class Timeline:
    """All lanes of a run, on an axis that begins with them: at `zero` of each rank's clock."""

    lanes: tuple[Lane, ...]
    length_ns: int
    zero: dict[int, int]
    _ops: dict[int, pa.Table] = field(repr=False)
    _calls: dict[int, pa.Table] = field(repr=False)
    _starts: dict[int, CallStarts] = field(repr=False)

    def of(self, rank: int | None) -> tuple[Lane, ...]:
        """The lanes of that rank, or of all."""
        return tuple(lane for lane in self.lanes if rank in (None, lane.rank))

    def count(self, lanes: Sequence[Lane], low: int, high: int) -> int:
        """How many ops and calls there are to draw, at most."""
        seen = (lane.visible(low, high) for lane in lanes)
        return sum(one.stop - one.start for one in seen)

    def bars(self, lanes: Sequence[Lane], low: int, high: int) -> Iterator[Bar]:
        """What touches [low, high), lane by lane."""
        for number, lane in enumerate(lanes):
            seen = lane.visible(low, high)
            inside = lane.end[seen] > low
            yield from self._bars(lane, number, seen, inside)

    def _bars(self, lane: Lane, number: int, seen: slice, inside: Bool) -> Iterator[Bar]:
        table = (self._calls if lane.on_host else self._ops)[lane.rank]
        rows = lane.row[seen][inside]
        wanted = ["name"] if lane.on_host else ["name", "activity", "call_id"]
        found = table.select(wanted).take(pa.array(rows))
        words = found["name"].to_pylist()
        activity: list[Any] = [None] * len(rows)
        delay: list[int | None] = [None] * len(rows)
        if not lane.on_host:
            activity = found["activity"].to_pylist()
            begun = self._starts[lane.rank].of(found["call_id"])
            zero = self.zero[lane.rank]
            delay = [
                None if call is None else start + zero - call
                for start, call in zip(lane.start[seen][inside].tolist(), begun, strict=True)
            ]
        times = zip(lane.start[seen][inside].tolist(), lane.end[seen][inside].tolist(), strict=True)
        kinds = lane.code[seen][inside].tolist()
        for index, (start, end) in enumerate(times):
            yield Bar(
                number,
                words[index] or "",
                kinds[index],
                activity[index] or "",
                start,
                end - start,
                delay[index],
            )


def timeline(report: Report) -> Timeline | None:
    """The lanes of all ranks with ops; None where there are none (a run on the CPU, a log)."""
    zero = _zeros(report)
    lanes: list[Lane] = []
    all_ops, all_calls = report.tables["ops"], report.tables["calls"]
    by_rank: dict[int, pa.Table] = {}
    calls_by_rank: dict[int, pa.Table] = {}
    ranks = [one.rank for one in report.run.ranks]
    for rank in ranks:
        ops = _of_rank(all_ops, rank)
        if not ops.num_rows:
            continue
        by_rank[rank] = ops
        calls_by_rank[rank] = _of_rank(all_calls, rank)
    if not by_rank:
        return None
    for rank, ops in by_rank.items():
        lanes += _host_lanes(rank, ops, calls_by_rank[rank], zero[rank])
        lanes += _gpu_lanes(rank, ops, zero[rank])
    first = min(int(lane.start[0]) for lane in lanes)
    for lane in lanes:
        _shift(lane, first)
    axis = {rank: zero[rank] + first for rank in by_rank}
    length = max(int(lane.reach[-1]) for lane in lanes)
    starts = {rank: CallStarts.read(calls) for rank, calls in calls_by_rank.items()}
    return Timeline(tuple(lanes), length, axis, by_rank, calls_by_rank, starts)


def _of_rank(table: pa.Table, rank: int) -> pa.Table:
    """The rows of that rank, which lie side by side: no copy."""
    column = np.asarray(table["rank"].to_numpy())
    rows = np.flatnonzero(column == rank)
    if not len(rows):
        return table.slice(0, 0)
    return table.slice(int(rows[0]), int(rows[-1]) - int(rows[0]) + 1).combine_chunks()


def _zeros(report: Report) -> dict[int, int]:
    """What to take from the times of each rank to have them on the first one's clock."""
    base = {one.rank: int(one.facts.get("clock_base_ns") or 0) for one in report.run.ranks}
    first = next(iter(base.values()), 0)
    zero = {rank: first - own for rank, own in base.items()}
    clocks = report.tables.get("rank_clocks")
    if clocks is not None:
        for row in clocks.to_pylist():
            if row["rank"] in zero and row.get("group") is None:
                zero[row["rank"]] += round(row["offset_ns"])
    return zero


def _gpu_lanes(rank: int, ops: pa.Table, zero: int) -> Iterator[Lane]:
    start, end = ints(ops, "start_ns") - zero, ints(ops, "end_ns") - zero
    stage = which(ops, "stage", STAGES).astype(np.int8)
    stage[stage < 0] = UNPLACED
    device, stream = ints(ops, "device", -1), ints(ops, "stream", -1)
    devices = np.unique(device).tolist()
    for on in devices:
        here = device == on
        for name in np.unique(stream[here]).tolist():
            rows = np.flatnonzero(here & (stream == name))
            where = f"device {on} stream {name}" if len(devices) > 1 else f"stream {name}"
            yield _lane(rank, False, f"rank {rank}, {where}", start, end, rows, stage)


def _host_lanes(rank: int, ops: pa.Table, calls: pa.Table, zero: int) -> Iterator[Lane]:
    """Threads that launch: launches by the stage of what they launch, and what blocks them."""
    if not calls.num_rows:
        return
    start, end = ints(calls, "start_ns") - zero, ints(calls, "end_ns") - zero
    kind = which(calls, "kind", (_SYNC, *_LAUNCHES))
    stage = _stage_of_calls(ops, calls)
    launches = (kind > 0) & (stage >= 0)
    blocks = kind == 0
    stage[blocks] = BLOCKING
    threads = ints(calls, "tid")
    for thread in np.unique(threads[launches]).tolist():
        rows = np.flatnonzero((threads == thread) & (launches | blocks))
        yield _lane(rank, True, f"rank {rank}, thread {thread}", start, end, rows, stage)


def _stage_of_calls(ops: pa.Table, calls: pa.Table) -> npt.NDArray[np.int8]:
    """The stage of an op that each call launched; -1: it launched none."""
    known = ints(calls, "call_id")
    order = np.argsort(known, kind="stable")
    wanted = ints(ops, "call_id", -1)
    stage = which(ops, "stage", STAGES).astype(np.int8)
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    row = order[at]
    hit = known[row] == wanted
    found = np.full(len(known), -1, np.int8)
    found[row[hit]] = np.where(stage[hit] < 0, UNPLACED, stage[hit])
    return found


def _lane(
    rank: int,
    on_host: bool,
    name: str,
    start: Int,
    end: Int,
    rows: Int,
    code: npt.NDArray[np.int8],
) -> Lane:
    rows = rows[np.argsort(start[rows], kind="stable")]
    begin, finish, own = start[rows], end[rows], code[rows]
    reach = np.maximum.accumulate(finish)
    # Where two overlap the earlier keeps the time, so that no instant counts twice.
    free = begin.copy()
    free[1:] = np.maximum(begin[1:], reach[:-1])
    last = np.maximum(finish, free)
    classes = []
    for number in np.unique(own).tolist():
        mine = (own == number) & (last > free)
        low, high = free[mine], last[mine]
        classes.append(Class(number, low, high, np.append(0, np.cumsum(high - low))))
    return Lane(rank, on_host, name, begin, finish, reach, rows, own, tuple(classes))


def _shift(lane: Lane, first: int) -> None:
    """Let the axis begin at `first`; in place, for a lane may hold millions of times."""
    of_classes = [times for one in lane.classes for times in (one.start, one.end)]
    for times in (lane.start, lane.end, lane.reach, *of_classes):
        np.subtract(times, first, out=times)
