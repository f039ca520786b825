"""Work and idle of each stage at the times of a replay: the cycle cut as the report cuts it.

As in `shares`: a stage has the work of its ops and the idle that its ops end, so the stages of a
cycle add up to it. (`replay_stages` has spans, from a stage's first op to its last: another
figure.) Ops that overlap: the one that began first has the time. Why the GPU idles is not
replayed: what is left of an idle is shared out as the causes of the idle before the same op were
in the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.columns import Bool, Int, spread
from specscope.analyzers.replay import Float
from specscope.analyzers.replay_graph import RankReplay, Replay
from specscope.analyzers.words import ACCEPT, CAUSES, SCHEDULE, STAGES, UNKNOWN, VERIFY, WORK


@dataclass(frozen=True)
class StagePart:
    """One stage of a cycle; `verify` holds accept."""

    stage: str
    work_ns: float
    idle_ns: float
    idle_by_cause: tuple[float, ...] = ()  # in the order of `CAUSES`; empty: not told apart

    @property
    def ns(self) -> float:
        """What the stage takes of the cycle."""
        return self.work_ns + self.idle_ns


@dataclass(frozen=True)
class Parts:
    """The stages, and what lies between cycles by cause: medians a cycle, then over ranks."""

    stages: tuple[StagePart, ...]
    between: tuple[float, ...]


@dataclass(frozen=True)
class _Cut:
    """One rank: sums in nanoseconds of its counted cycles."""

    work: Float  # [cycle, stage]
    idle: Float  # [cycle, stage, cause]
    between: Float  # [cycle, cause]


def parts_of(one: Replay, time: Float, cycle_ns: float) -> Parts:
    """The stages at these times; the little that medians miss of the cycle is idle.

    Where there is no idle to take it, work is.
    """
    cuts = [_cut(rank, time) for rank in one.ranks if rank.counted.any()]
    found = []
    for code, name in enumerate(STAGES):
        if code == ACCEPT:
            continue
        codes = [VERIFY, ACCEPT] if code == VERIFY else [code]
        work = _middle([cut.work[:, codes].sum(axis=1) for cut in cuts])
        idle = _middle([cut.idle[:, codes].sum(axis=(1, 2)) for cut in cuts])
        causes = [
            _middle([cut.idle[:, codes, cause].sum(axis=1) for cut in cuts])
            for cause in range(len(CAUSES))
        ]
        if work + idle > 0:
            found.append(StagePart(name, work, idle, tuple(causes)))
    work, idle = sum(part.work_ns for part in found), sum(part.idle_ns for part in found)
    fits = idle > 0 and work <= cycle_ns
    of_idle = (cycle_ns - work) / idle if fits else cycle_ns / max(work + idle, 1.0)
    of_work = 1.0 if fits else of_idle
    stages = tuple(
        StagePart(
            part.stage,
            part.work_ns * of_work,
            part.idle_ns * of_idle,
            tuple(ns * of_idle for ns in part.idle_by_cause),
        )
        for part in found
    )
    between = [_middle([cut.between[:, cause] for cut in cuts]) for cause in range(len(CAUSES))]
    return Parts(stages, tuple(ns * of_idle for ns in between))


def _middle(rows: Sequence[Float]) -> float:
    return float(np.median([np.median(row) for row in rows]))


def _cut(one: RankReplay, time: Float) -> _Cut:
    """Work and idle between the borders, op after op in order of their begin."""
    begin, end = time[one.device.begin_point], time[one.device.end_point]
    order = np.lexsort((end, begin))
    begin, end = begin[order], end[order]
    reach = np.maximum.accumulate(end)
    before = np.concatenate((begin[:1], reach[:-1]))
    stage = one.attribution.placed.stage_of_op.astype(np.int64)[order]
    opens = np.isin(one.device.begin_point[order], one.border)
    border = time[one.border]
    n = len(one.counted)

    work = np.zeros((n, len(STAGES)))
    row, cycle, ns = _inside(np.maximum(begin, before), reach, border)
    np.add.at(work, (cycle, stage[row]), ns)

    idle = np.zeros((n, len(STAGES), len(CAUSES)))
    between = np.zeros((n, len(CAUSES)))
    row, cycle, ns = _inside(before, begin, border)
    part = ns[:, None] * _causes(one)[order[row]]
    np.add.at(idle, (cycle, stage[row]), part)
    # What the first op of the next cycle ends lies between the two, and so does scheduling.
    apart = opens[row] | (stage[row] == SCHEDULE)
    np.add.at(between, cycle[apart], part[apart])
    return _Cut(work[one.counted], idle[one.counted], between[one.counted])


def _inside(begin: Float, end: Float, border: Float) -> tuple[Int, Int, Float]:
    """What of each stretch lies in which cycle: (row, cycle, nanoseconds)."""
    rows: Int = np.flatnonzero(end > begin)
    first = np.maximum(np.searchsorted(border, begin[rows], "right") - 1, 0)
    last = np.minimum(np.searchsorted(border, end[rows], "left"), len(border) - 1)
    count = np.maximum(last - first, 0)
    cycle, row = spread(first, count), np.repeat(rows, count)
    ns = np.minimum(end[row], border[cycle + 1]) - np.maximum(begin[row], border[cycle])
    held: Bool = ns > 0
    return row[held], cycle[held], ns[held]


def _causes(one: RankReplay) -> Float:
    """Per op the shares of the causes in the idle before it as recorded; `unknown` where none."""
    segments, what = one.attribution.segments, one.attribution.what
    rows = np.flatnonzero((segments.state != WORK) & (segments.op >= 0))
    n = len(one.device.begin_point)
    cell = segments.op[rows].astype(np.int64) * len(CAUSES) + what[rows] - len(ACTIVITIES)
    ns = np.bincount(cell, weights=segments.ns[rows], minlength=n * len(CAUSES))
    ns = ns.reshape(n, len(CAUSES))
    whole = ns.sum(axis=1)
    ns[whole == 0, UNKNOWN] = 1.0
    out: Float = ns / np.maximum(ns.sum(axis=1), 1e-9)[:, None]
    return out
