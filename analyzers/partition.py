"""The exclusive partition: each instant of a cycle on a rank has exactly one owner.

Design 5.5 and 5.6. Three steps, all on sorted arrays, no loop over ops:

1. On each stream the earlier op keeps an overlap, so streams become disjoint pieces.
2. Between streams the instant goes to the lowest (class, start, stream).
3. What nothing covers is idle; the op that ends it owns it and explains it.

An op of no length owns no instant, but it ends the idle before it: the device did something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int, Small, distinct, spread
from specscope.analyzers.links import GRAPH_LAUNCH, Calls, Ops
from specscope.analyzers.words import (
    GRAPH,
    HOST,
    IDLE,
    LAUNCH_CALL,
    QUEUE,
    SYNC,
    UNKNOWN,
    WORK,
)

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Segments:
    """Pieces of cycles, sorted by time: `what` is an activity code (work) or a cause (idle)."""

    cycle: Int
    start: Int
    end: Int
    op: Int  # the op that runs, or that ends the idle
    state: npt.NDArray[np.int8]
    what: npt.NDArray[np.int16]

    @property
    def ns(self) -> Int:
        """Length of each segment."""
        return self.end - self.start


@dataclass(frozen=True)
class _Order:
    """Orders of the ops that differ only where ops start together, so one sort serves all.

    `on_stream`: start, the earlier launch call (an unlinked op last), the lower correlation,
    file order. `on_device`: start, stream, then as on the stream."""

    on_stream: Int
    on_device: Int


def _ordered(ops: Ops, calls: Calls) -> _Order:
    by_start = np.argsort(ops.start, kind="stable")
    start = ops.start[by_start]
    same = start[1:] == start[:-1]
    on_stream = on_device = by_start
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        row = by_start[tied]
        launched = np.full(len(row), _LAST, np.int64)
        linked = ops.call[row] >= 0
        launched[linked] = calls.start[ops.call[row[linked]]]
        keys = (row, ops.correlation[row], launched, ops.start[row])
        on_stream = by_start.copy()
        on_stream[tied] = row[np.lexsort(keys)]
        row = on_stream[tied]
        on_device = on_stream.copy()
        on_device[tied] = row[np.lexsort((ops.stream[row], ops.start[row]))]
    return _Order(on_stream, on_device)


def partition(
    ops: Ops, calls: Calls, op_class: Small, activity: Small, borders: Int, blocking: Blocking
) -> Segments:
    """Cut [borders[0], borders[-1]) into segments; cycle i is [borders[i], borders[i + 1]).

    `op_class` is the order between streams (compute 0, collective 1, copy 2, set 3).
    `borders` are sorted. Cost: O(n log n) in ops, plus their overlaps.
    """
    nothing = np.empty(0, np.int64)
    if len(borders) < 2 or len(ops.start) == 0:
        return Segments(
            nothing, nothing, nothing, nothing, nothing.astype(np.int8), nothing.astype(np.int16)
        )
    order = _ordered(ops, calls)
    begin, end = _disjoint(ops, order)
    times, owner = _owners(ops, op_class, order, begin, end, borders)
    keep = (times[:-1] >= borders[0]) & (times[:-1] < borders[-1])
    pieces = np.flatnonzero(keep)
    starts, winner = _first_to_start(ops, op_class, order)
    following = np.searchsorted(starts, times[pieces], "right")
    ender = np.append(winner, -1)[following]
    is_work = owner[pieces] >= 0
    cycle = np.searchsorted(borders, times[pieces], "right") - 1
    work = pieces[is_work]
    segments = Segments(
        cycle=cycle[is_work],
        start=times[work],
        end=times[work + 1],
        op=owner[work],
        state=np.full(len(work), WORK, np.int8),
        what=activity[owner[work]].astype(np.int16),
    )
    gaps = pieces[~is_work]
    idle = _explain(
        ops, calls, times[gaps], times[gaps + 1], ender[~is_work], cycle[~is_work], blocking
    )
    return _merge(segments, idle)


def _disjoint(ops: Ops, order: _Order) -> tuple[Int, Int]:
    """Per op the piece [begin, end) that no earlier op of its stream covers (empty: equal)."""
    begin, end = ops.start.copy(), np.maximum(ops.end, ops.start)
    for lane in _lanes(ops, order.on_stream):
        covered = np.maximum.accumulate(end[lane])
        begin[lane[1:]] = np.maximum(begin[lane[1:]], covered[:-1])
    return begin, np.maximum(end, begin)


def _lanes(ops: Ops, order: Int) -> list[Int]:
    """The ops of each stream of each device, in `order`."""
    streams = distinct(ops.stream)
    lane = np.searchsorted(streams, ops.stream)
    count = len(streams)
    if (ops.device != ops.device[0]).any():
        devices = distinct(ops.device)
        lane = np.searchsorted(devices, ops.device) * count + lane
        count *= len(devices)
    if count == 1:
        return [order]
    lane = lane[order]
    small = lane.astype(np.uint16) if count < 1 << 16 else lane  # few streams: a radix sort
    by_lane = order[np.argsort(small, kind="stable")]
    edges = np.cumsum(np.bincount(lane, minlength=count))[:-1]
    return [rows for rows in np.split(by_lane, edges) if len(rows)]


def _first_to_start(ops: Ops, op_class: Small, order: _Order) -> tuple[Int, Int]:
    """Each distinct start of an op, and the op that ends the idle before it.

    Of several that start together: the first of each stream, then the lowest (class, stream).
    """
    row = order.on_device
    start = ops.start[row]
    new = np.concatenate(([True], start[1:] != start[:-1]))
    if new.all():
        return start, row
    tied = np.flatnonzero(~new | ~np.append(new[1:], True))
    some = row[tied]
    lead = np.concatenate(
        (
            [True],
            (ops.start[some[1:]] != ops.start[some[:-1]])
            | (ops.stream[some[1:]] != ops.stream[some[:-1]]),
        )
    )
    some = some[lead]
    some = some[np.lexsort((ops.stream[some], op_class[some], ops.start[some]))]
    first = np.concatenate(([True], ops.start[some[1:]] != ops.start[some[:-1]]))
    winner = row[new].copy()
    winner[np.searchsorted(start[new], ops.start[some[first]])] = some[first]
    return start[new], winner


def _owners(
    ops: Ops, op_class: Small, order: _Order, begin: Int, end: Int, borders: Int
) -> tuple[Int, Int]:
    """Elementary borders, and per stretch between two of them the owning op (-1: idle)."""
    is_running = end > begin
    running = order.on_stream[is_running[order.on_stream]]
    instants = ops.start[ops.end <= ops.start]
    times = np.concatenate((begin[running], end[running], instants, borders))
    times = distinct(times)
    first = np.searchsorted(times, begin[running], "left")
    count = np.searchsorted(times, end[running], "left") - first
    owner = np.full(len(times), -1, np.int64)
    at, op = spread(first, count), np.repeat(running, count)
    once = np.bincount(at, minlength=len(times)) < 2
    alone = once[at]
    owner[at[alone]] = op[alone]
    at, op = at[~alone], op[~alone]
    if len(at):
        # Lower is stronger: class, then true start, then stream.
        strongest = np.lexsort((ops.stream[op], ops.start[op], op_class[op], at))
        at, op = at[strongest], op[strongest]
        lead = np.concatenate(([True], at[1:] != at[:-1]))
        owner[at[lead]] = op[lead]
    return times, owner[:-1]


@dataclass(frozen=True)
class Blocking:
    """Per thread the union of its blocking stretches: sorted, disjoint [start, end)."""

    start: dict[int, Int]
    end: dict[int, Int]


def _explain(
    ops: Ops, calls: Calls, g0: Int, g1: Int, ender: Int, cycle: Int, blocking: Blocking
) -> Segments:
    """Idle stretches cut by cause (design 5.6)."""
    if len(g0) == 0:
        nothing = np.empty(0, np.int64)
        return Segments(
            nothing, nothing, nothing, nothing, nothing.astype(np.int8), nothing.astype(np.int16)
        )
    known = ender >= 0
    safe = np.maximum(ender, 0)
    call = np.where(known, ops.call[safe], -1)
    linked = call >= 0
    if not linked.any():  # also where there are no calls at all to index
        return Segments(
            cycle,
            g0,
            g1,
            ender,
            np.full(len(g0), IDLE, np.int8),
            np.full(len(g0), UNKNOWN, np.int16),
        )
    inner = linked & (calls.kind[call] == GRAPH_LAUNCH)
    inner &= ops.start[safe] > _launch_start(ops, len(calls.start))[call]
    plain = linked & ~inner
    c0 = np.where(plain, np.clip(calls.start[call], g0, g1), g1)
    c1 = np.where(plain, np.clip(calls.end[call], c0, g1), g1)
    rows: list[tuple[Int, Int, Int, int]] = []
    everything = np.arange(len(g0))
    rows.append((everything[~linked], g0[~linked], g1[~linked], UNKNOWN))
    rows.append((everything[inner], g0[inner], g1[inner], GRAPH))
    p = np.flatnonzero(plain)
    rows.append((p, c0[p], c1[p], LAUNCH_CALL))
    rows.append((p, c1[p], g1[p], QUEUE))
    rows.extend(_before_launch(p, g0[p], c0[p], calls.thread[call[p]], blocking))
    gap = np.concatenate([row[0] for row in rows])
    start = np.concatenate([row[1] for row in rows])
    end = np.concatenate([row[2] for row in rows])
    cause = np.concatenate([np.full(len(row[0]), row[3], np.int16) for row in rows])
    real = end > start
    gap, start, end, cause = gap[real], start[real], end[real], cause[real]
    return Segments(
        cycle=cycle[gap],
        start=start,
        end=end,
        op=ender[gap],
        state=np.full(len(gap), IDLE, np.int8),
        what=cause,
    )


def _before_launch(
    gap: Int, g0: Int, c0: Int, thread: Small, blocking: Blocking
) -> list[tuple[Int, Int, Int, int]]:
    """[g0, c0) of each gap, cut into `sync` (its thread was blocked) and `host`."""
    rows: list[tuple[Int, Int, Int, int]] = []
    for number in np.unique(thread).tolist():
        mine = np.flatnonzero((thread == number) & (c0 > g0))
        if len(mine) == 0:
            continue
        low, high = g0[mine], c0[mine]
        begins = blocking.start.get(number, np.empty(0, np.int64))
        ends = blocking.end.get(number, np.empty(0, np.int64))
        first = np.searchsorted(ends, low, "right")
        count = np.maximum(np.searchsorted(begins, high, "left") - first, 0)
        hit = spread(first, count)
        of = np.repeat(np.arange(len(mine)), count)
        blocked_from = np.maximum(begins[hit], low[of])
        blocked_to = np.minimum(ends[hit], high[of])
        rows.append((gap[mine[of]], blocked_from, blocked_to, SYNC))
        # Host time: before the first blocked stretch, between two, and after the last.
        host_from = np.concatenate((low, blocked_to))
        host_gap = np.concatenate((np.arange(len(mine)), of))
        order = np.lexsort((host_from, host_gap))
        host_from, host_gap = host_from[order], host_gap[order]
        next_blocked = np.full(len(host_from), _LAST, np.int64)
        # Row 0 of a gap is its start, row j + 1 follows its j-th blocked stretch.
        position = np.arange(len(host_from)) - np.searchsorted(host_gap, host_gap, "left")
        follows = position < count[host_gap]
        offset = np.cumsum(count) - count
        next_blocked[follows] = blocked_from[offset[host_gap[follows]] + position[follows]]
        host_to = np.minimum(next_blocked, high[host_gap])
        rows.append((gap[mine[host_gap]], host_from, host_to, HOST))
    return rows


def _launch_start(ops: Ops, n_calls: int) -> Int:
    """Per call the start of its first op; the last entry answers an op without a call."""
    first = np.full(n_calls + 1, _LAST, np.int64)
    linked = ops.call >= 0
    np.minimum.at(first, ops.call[linked], ops.start[linked])
    return first


def _merge(a: Segments, b: Segments) -> Segments:
    start = np.concatenate((a.start, b.start))
    order = np.argsort(start, kind="stable")
    return Segments(
        cycle=np.concatenate((a.cycle, b.cycle))[order],
        start=start[order],
        end=np.concatenate((a.end, b.end))[order],
        op=np.concatenate((a.op, b.op))[order],
        state=np.concatenate((a.state, b.state))[order],
        what=np.concatenate((a.what, b.what))[order],
    )


def blocking_stretches(ops: Ops, calls: Calls, is_sync: Bool, is_copy: Bool) -> Blocking:
    """When each thread was inside a blocking call: `is_sync` calls, and pageable copies.

    A pageable asynchronous copy (`is_copy` calls whose op is named Pageable) blocks until
    the copy ends, at most until the call returns.
    """
    starts = [calls.start[is_sync]]
    ends = [calls.end[is_sync]]
    threads = [calls.thread[is_sync]]
    pageable = np.array(["Pageable" in name for name in ops.names] + [False], dtype=bool)
    mine = np.flatnonzero(pageable[ops.name] & (ops.call >= 0))
    mine = mine[is_copy[ops.call[mine]]]
    call = ops.call[mine]
    starts.append(calls.start[call])
    ends.append(np.minimum(calls.end[call], ops.end[mine]))
    threads.append(calls.thread[call])
    start, end, thread = np.concatenate(starts), np.concatenate(ends), np.concatenate(threads)
    out_start: dict[int, Int] = {}
    out_end: dict[int, Int] = {}
    for number in np.unique(thread).tolist():
        here = np.flatnonzero((thread == number) & (end > start))
        out_start[number], out_end[number] = union(start[here], end[here])
    return Blocking(out_start, out_end)


def union(start: Int, end: Int) -> tuple[Int, Int]:
    """The union of intervals, as sorted disjoint ones."""
    if len(start) == 0:
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    new = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(new)[1:] - 1, [len(start) - 1]))
    return start[new], reach[last]
