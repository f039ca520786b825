"""Why the device was idle: a gap cut by cause, from the launch call of the op that ends it.

Design 5.6. Before the call its thread was inside a synchronising call (`sync`) or had not
come to it yet (`host`); then inside the call (`launch_call`); after it the device had the
work and had not started it (`queue`). Between the ops of one graph launch: `graph`. Without a
call on record: `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int, Small, distinct, spread
from specscope.analyzers.links import GRAPH_LAUNCH, Calls, Ops
from specscope.analyzers.words import GRAPH, HOST, LAUNCH_CALL, QUEUE, SYNC, UNKNOWN

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Explained:
    """Stretches of gaps: `gap` is the number of the gap, `cause` an index into CAUSES."""

    gap: Int
    start: Int
    end: Int
    cause: npt.NDArray[np.int16]


@dataclass(frozen=True)
class Blocking:
    """Per thread the union of its blocking stretches: sorted, disjoint [start, end)."""

    start: dict[int, Int]
    end: dict[int, Int]


def explain(ops: Ops, calls: Calls, g0: Int, g1: Int, ender: Int, blocking: Blocking) -> Explained:
    """Gaps [g0, g1), each ended by op `ender` (-1: none), cut by cause."""
    known = ender >= 0
    safe = np.maximum(ender, 0)
    call = np.where(known, ops.call[safe], -1)
    linked = call >= 0
    if not linked.any():  # also where there are no calls at all to index
        return Explained(np.arange(len(g0)), g0, g1, np.full(len(g0), UNKNOWN, np.int16))
    inner = linked & (calls.kind[call] == GRAPH_LAUNCH)
    inner &= ops.start[safe] > ops.first_start[call]
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
    return Explained(gap, start, end, cause)


def _before_launch(
    gap: Int, g0: Int, c0: Int, thread: Small, blocking: Blocking
) -> list[tuple[Int, Int, Int, int]]:
    """[g0, c0) of each gap, cut into `sync` (its thread was blocked) and `host`."""
    rows: list[tuple[Int, Int, Int, int]] = []
    for number in distinct(thread).tolist():
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
    for number in distinct(thread).tolist():
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
