"""Idle of each stage by its cause, and what each stage launches: medians a cycle.

`verify` holds accept, as in shares and checks. Rows are of the run: the median over its ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.attribution import COLLECTIVES, Attribution
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import COPY, GRAPH_LAUNCH, LAST, LAUNCH, SET, SYNC
from specscope.analyzers.shares import Counted
from specscope.analyzers.words import ACCEPT, CAUSES, IDLE, SCHEDULE, STAGES, VERIFY, WORK


@dataclass(frozen=True)
class StageIdle:
    """Idle of one cause that the ops of one stage end."""

    stage: str
    cause: str
    ns: float
    cycle_share: float


@dataclass(frozen=True)
class StageLaunches:
    """What one stage puts on the GPU in a cycle; a graph launch is one however many ops it holds.

    Figures are medians over cycles, then over ranks.
    """

    stage: str
    launches: float  # calls that put one op on the GPU: kernels, copies, sets
    graph_launches: float
    syncs: float  # synchronising calls
    read_backs: float  # copies from the GPU to the host
    collectives: float  # ops, those inside graphs too


def idle_rows(counts: Sequence[Counted]) -> Iterator[StageIdle]:
    """Idle by stage and cause; nothing where no cycle is counted."""
    counts = [one for one in counts if len(one.ns)]
    if not counts:
        return
    first = len(ACTIVITIES)
    for stage, codes in _stages():
        for cause, name in enumerate(CAUSES):
            ns = [one.total[:, codes, IDLE, first + cause].sum(axis=1) for one in counts]
            if not any(row.any() for row in ns):
                continue
            shares = [
                np.median(row / np.maximum(one.ns, 1)) for row, one in zip(ns, counts, strict=True)
            ]
            yield StageIdle(
                stage,
                name,
                float(np.median([np.median(row) for row in ns])),
                float(np.median(shares)),
            )


def between_rows(attributed: Sequence[Attribution], leading: Sequence[Bool]) -> Iterator[StageIdle]:
    """Idle between cycles, as stage `between`: of schedule, and before the next opening."""
    tables = [
        (_between(one, rows), one.cycles.ns[rows])
        for one, rows in zip(attributed, leading, strict=True)
        if not one.on_host and rows.any()
    ]
    for cause, name in enumerate(CAUSES):
        ns = [table[:, cause] for table, _ in tables]
        if any(row.any() for row in ns):
            shares = [
                np.median(row / np.maximum(length, 1))
                for row, (_, length) in zip(ns, tables, strict=True)
            ]
            middle = float(np.median([np.median(row) for row in ns]))
            yield StageIdle("between", name, middle, float(np.median(shares)))


def _between(one: Attribution, rows: Bool) -> Int:
    """Nanoseconds by [counted cycle, cause]."""
    segments = one.segments
    work = segments.state == WORK
    last = np.zeros(len(one.cycles), np.int64)
    np.maximum.at(last, segments.cycle[work], segments.end[work])
    mine = ~work & ((one.stage == SCHEDULE) | (segments.start >= last[segments.cycle]))
    cell = segments.cycle[mine] * len(CAUSES) + one.what[mine] - len(ACTIVITIES)
    shape = (len(one.cycles), len(CAUSES))
    total = np.bincount(cell, weights=segments.ns[mine], minlength=shape[0] * shape[1])
    return total.astype(np.int64).reshape(shape)[rows]


def launch_rows(
    attributed: Sequence[Attribution], leading: Sequence[Bool]
) -> Iterator[StageLaunches]:
    """Launches by stage in the cycles `leading` of each rank; nothing of a run on the CPU."""
    tables = [
        _counts(one, rows)
        for one, rows in zip(attributed, leading, strict=True)
        if not one.on_host and rows.any()
    ]
    if not tables:
        return
    for stage, codes in _stages():
        each = [np.median(table[:, :, codes].sum(axis=2), axis=1) for table in tables]
        figures = np.median(np.stack(each), axis=0).tolist()
        if any(figures):
            yield StageLaunches(stage, *figures)


def _stages() -> Iterator[tuple[str, list[int]]]:
    for code, name in enumerate(STAGES):
        if code != ACCEPT:
            yield name, [VERIFY, ACCEPT] if code == VERIFY else [code]


def _counts(one: Attribution, rows: Bool) -> Int:
    """[launches, graph launches, syncs, read-backs, collectives; counted cycle; stage]."""
    calls, ops = one.rank.calls, one.rank.ops
    in_cycle = _of_host(one, calls.start)
    of_call = one.placed.stage_of_call.astype(np.int64)
    put = ops.first_start != LAST
    copied = np.array(["DtoH" in name for name in ops.names] + [False], dtype=bool)[ops.name]
    linked = ops.call >= 0
    safe = np.maximum(ops.call, 0)
    of_op = np.where(linked, in_cycle[safe], -1) if len(calls.start) else np.full(len(ops.call), -1)
    stage_of_op = one.placed.stage_of_op.astype(np.int64)
    collective = np.isin(one.rank.activity, COLLECTIVES)
    found = [
        _table(one, in_cycle, of_call, put & np.isin(calls.kind, (LAUNCH, COPY, SET))),
        _table(one, in_cycle, of_call, put & (calls.kind == GRAPH_LAUNCH)),
        _table(one, in_cycle, of_call, calls.kind == SYNC),
        _table(one, of_op, stage_of_op, linked & copied),
        _table(one, of_op, stage_of_op, linked & collective),
    ]
    return np.stack(found)[:, rows]


def _of_host(one: Attribution, at: Int) -> Int:
    """The cycle that holds each time on the host; -1 outside whole cycles."""
    cycles = one.cycles
    cycle = np.searchsorted(cycles.host_start, at, "right") - 1
    inside = (cycle >= 0) & (at < cycles.host_end[np.maximum(cycle, 0)])
    return np.where(inside, cycle, -1)


def _table(one: Attribution, cycle: Int, stage: Int, mine: Bool) -> Int:
    """How many of `mine` lie in each [cycle, stage]."""
    mine = mine & (cycle >= 0)
    shape = (len(one.cycles), len(STAGES))
    cell = cycle[mine] * len(STAGES) + stage[mine]
    return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
