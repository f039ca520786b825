"""How much of the counted cycles rests on evidence, and what is missing in them (5.8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import (
    GRAPH_LAUNCH,
    KERNEL,
    LAST,
    LAUNCHING,
    graphs_without_op,
    kernels_missing,
)
from specscope.analyzers.rank import Rank
from specscope.analyzers.replays import Short, short_replays
from specscope.analyzers.words import WORK

# Launches without their work in the counted cycles, of all launches: above, nothing is called idle.
MOST_LOST = 0.01


@dataclass(frozen=True)
class Coverage:
    """Of the counted cycles of one rank; shares are None where there is nothing to share."""

    rank: int
    cycles: int
    ops: int
    linked_ops: int
    launches: int
    graph_launches: int
    linked_share: float | None  # of GPU busy time
    placed_share: float | None  # of GPU busy time: stage rests on evidence
    placed_cycle_share: float | None  # of cycle time, idle included
    launches_without_op: int  # in the whole capture
    launches_without_op_counted: int  # inside the counted cycles
    graphs_without_op: bool  # graph launches, and not one has a kernel
    kernels_missing: bool  # kernel launches, and not one has a kernel
    short_replays: Short | None  # in the counted cycles
    ambiguous_ops: int  # their correlation is used by two processes
    devices: tuple[int, ...]  # that ran kernels

    @property
    def blind(self) -> bool:
        """Is so much GPU work not on record that time seems idle in which it ran?"""
        launches = max(self.launches, 1)
        return (
            self.graphs_without_op
            or self.kernels_missing
            or self.short_replays is not None
            or self.launches_without_op_counted > MOST_LOST * launches
        )


def measure(one: Attribution, rows: Bool) -> Coverage:
    """Coverage of the cycles `rows` of one rank."""
    counted = np.flatnonzero(rows)
    inside = rows[one.segments.cycle] if len(one.segments.cycle) else np.empty(0, bool)
    ns = one.segments.ns[inside]
    work = one.segments.state[inside] == WORK
    op = one.segments.op[inside]
    ops = one.rank.ops
    linked = (op >= 0) & (ops.call[np.maximum(op, 0)] >= 0) if len(ops.start) else op >= 0
    placed = one.placed_segment[inside]
    busy, whole = int(ns[work].sum()), int(ns.sum())
    lost = without_op(one.rank)
    cycle_of_call = counted_cycle(one, rows)
    host = one.on_host
    return Coverage(
        rank=one.number,
        cycles=len(counted),
        ops=len(ops.start),
        linked_ops=int((ops.call >= 0).sum()),
        launches=int(np.isin(one.rank.calls.kind, LAUNCHING).sum()),
        graph_launches=int((one.rank.calls.kind == GRAPH_LAUNCH).sum()),
        linked_share=None if host or not busy else int(ns[work & linked].sum()) / busy,
        placed_share=None if host or not busy else int(ns[work & placed].sum()) / busy,
        placed_cycle_share=None if not whole else int(ns[placed].sum()) / whole,
        launches_without_op=len(lost),
        launches_without_op_counted=int((cycle_of_call[lost] >= 0).sum()),
        graphs_without_op=graphs_without_op(one.rank.ops, one.rank.calls),
        kernels_missing=kernels_missing(one.rank.ops, one.rank.calls),
        short_replays=short_replays(one.rank, one.placed.stage_of_call, cycle_of_call),
        ambiguous_ops=ops.ambiguous,
        devices=tuple(np.unique(ops.device[ops.kind == KERNEL]).tolist()),
    )


def counted_cycle(one: Attribution, rows: Bool) -> Int:
    """Per call the counted cycle that the host launched it in, -1: none."""
    start, cut = one.rank.calls.start, one.cycles
    if not len(cut):
        return np.full(len(start), -1, np.int64)
    at = np.searchsorted(cut.host_start, start, "right") - 1
    inside = (at >= 0) & rows[np.maximum(at, 0)] & (start < cut.host_end[np.maximum(at, 0)])
    return np.where(inside, at, -1)


def without_op(rank: Rank) -> Int:
    """Calls that launch work and have no op on record.

    Launches inside a graph capture put nothing on the GPU and do not count.
    """
    has = rank.ops.first_start != LAST
    bare = np.flatnonzero(np.isin(rank.calls.kind, LAUNCHING) & ~has)
    return bare[~_captured(rank, bare)] if len(bare) else bare


def _captured(rank: Rank, rows: Int) -> Bool:
    """Does each call lie between the begin and the end of a stream capture on its thread?"""
    calls = rank.calls
    begins = np.array(["StreamBeginCapture" in n for n in calls.names] + [False], dtype=bool)
    ends = np.array(["StreamEndCapture" in n for n in calls.names] + [False], dtype=bool)
    captured = np.zeros(len(rows), dtype=bool)
    if not begins.any():
        return captured
    for thread in np.unique(calls.thread[rows]).tolist():
        here = calls.thread == thread
        start = np.sort(calls.start[here & begins[calls.name]])
        stop = np.sort(calls.start[here & ends[calls.name]])
        mine = np.flatnonzero(calls.thread[rows] == thread)
        at = calls.start[rows[mine]]
        captured[mine] = np.searchsorted(start, at, "right") > np.searchsorted(stop, at, "right")
    return captured
