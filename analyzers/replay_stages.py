"""What each stage takes at the times of a replay, and what the ranks wait for one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.columns import Int
from specscope.analyzers.replay import TRANSFER, Float
from specscope.analyzers.replay_graph import RankReplay, Replay
from specscope.analyzers.words import ACCEPT, SCHEDULE, STAGES, UNPLACED, VERIFY


@dataclass(frozen=True)
class StageTime:
    """A stage of the counted cycles: medians, then the mean over the ranks; `by_rank` without it.

    From the begin of its first op to the end of its last, the idle inside with it: what a pair
    of CUDA events around the stage's launches would read. `verify` holds accept.
    """

    stage: str
    ns: float
    by_rank: tuple[float, ...]


def stage_times(replay: Replay, time: Float) -> tuple[StageTime, ...]:
    """Every stage that the counted cycles of every rank hold, at these times.

    What is scheduled lies between stages and before them: it has no span of its own.
    """
    found = [_spans(one, time) for one in replay.ranks if one.counted.any()]
    named = (code for code in range(len(STAGES)) if code not in (SCHEDULE, UNPLACED))
    stages = [stage for stage in named if all(stage in spans for spans in found)]
    rows = []
    for stage in stages:
        by_rank = tuple(spans[stage] for spans in found)
        rows.append(StageTime(STAGES[stage], float(np.mean(by_rank)), by_rank))
    return tuple(rows)


def cycle_of_op(one: RankReplay) -> Int:
    """Whole cycle that each op begins in, as recorded; -1 outside of them."""
    borders = one.attribution.cycles.borders
    cycle = np.searchsorted(borders, one.device.begin_ns, "right") - 1
    return np.where(cycle < len(one.attribution.cycles), cycle, -1)


def _spans(one: RankReplay, time: Float) -> dict[int, float]:
    """Median span of each stage over the counted cycles that hold it."""
    stage = one.attribution.placed.stage_of_op.astype(np.int64)
    stage = np.where(stage == ACCEPT, VERIFY, stage)
    cycle = cycle_of_op(one)
    inside = (cycle >= 0) & one.counted[cycle]
    cell = (cycle * len(STAGES) + stage)[inside]
    size = len(one.counted) * len(STAGES)
    first, last = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(first, cell, time[one.device.begin_point[inside]])
    np.maximum.at(last, cell, time[one.device.end_point[inside]])
    span = (last - first).reshape(len(one.counted), len(STAGES))
    held = np.isfinite(span)
    return {
        code: float(np.median(span[held[:, code], code]))
        for code in np.flatnonzero(held.any(axis=0)).tolist()
    }


def waiting_ns(replay: Replay, time: Float) -> float:
    """What a rank waits in collectives for the last one, a counted cycle: mean over the ranks."""
    edges = replay.graph.edges
    rows = np.flatnonzero(edges.kind == TRANSFER)
    if not len(rows):
        return 0.0
    means = []
    for row, one in enumerate(replay.ranks):
        mine = rows[edges.rank[rows] == row]
        op = edges.item[mine]
        cycle = cycle_of_op(one)[op]
        inside = (cycle >= 0) & one.counted[cycle]
        wait = time[edges.source[mine]] - time[one.device.begin_point[op]]
        per_cycle = np.bincount(cycle[inside], wait[inside], minlength=len(one.counted))
        if one.counted.any():
            means.append(float(np.median(per_cycle[one.counted])))
    return float(np.mean(means)) if means else 0.0
