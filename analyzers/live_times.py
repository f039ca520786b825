"""Whole cycles of a followed log as columns, by either clock, and means of pieces of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.hook_cost import HookCost
from specscope.analyzers.live_cycles import CycleFold, LiveCycle
from specscope.analyzers.statistics import Float
from specscope.analyzers.words import CYCLE_KINDS, SCHEDULE, STAGES

# A cycle so much longer than the median is a pause of the load: no part of means over time.
PAUSE: Final = 20.0


@dataclass(frozen=True)
class LiveProcess:
    """What is given of one process: its fold, and how its log stands."""

    rank: int | None
    pid: int
    fold: CycleFold
    world_size: int | None = None
    engine: str = ""
    quiet_s: float = 0.0
    ended: bool = False
    notes: tuple[str, ...] = ()
    hook_cost: HookCost | None = None


@dataclass(frozen=True)
class Times:
    """Whole cycles of one rank by one clock."""

    start: Int
    length: Int
    stages: Int  # [cycle, stage]


def leading_kind(ranks: Sequence[LiveProcess]) -> str | None:
    """The kind of the cycles that the figures speak of: speculation before plain decode."""
    kinds = {cycle.kind for one in ranks for cycle in one.fold.cycles.values()}
    return next((kind for kind in CYCLE_KINDS if kind in kinds), None)


def _in_order(fold: CycleFold) -> list[LiveCycle]:
    return sorted(fold.cycles.values(), key=lambda cycle: cycle.number)


def by_host(fold: CycleFold, kind: str | None, oldest: int) -> Times:
    """Cycles whose next one is on record, by the host's times."""
    cycles = _in_order(fold)
    pairs = [
        (one, after.start_ns - one.start_ns)
        for one, after in pairwise(cycles)
        if after.number == one.number + 1
        and one.kind == kind
        and after.start_ns > one.start_ns >= oldest
    ]
    return _times([(one.start_ns, length, one.host_ns) for one, length in pairs])


def by_events(fold: CycleFold, kind: str | None, oldest: int) -> Times:
    """Sampled cycles, by CUDA events."""
    return _times(
        [
            (one.start_ns, one.gpu_length_ns, one.gpu_ns)
            for one in _in_order(fold)
            if one.kind == kind
            and one.start_ns >= oldest
            and one.gpu_ns is not None
            and one.gpu_length_ns is not None
        ]
    )


def _times(rows: Sequence[tuple[int, int, tuple[int, ...]]]) -> Times:
    length = np.array([row[1] for row in rows], np.int64)
    stages = np.array([row[2] for row in rows], np.int64).reshape(len(rows), len(STAGES))
    stages[:, SCHEDULE] = np.maximum(length - stages.sum(axis=1), 0)
    return Times(np.array([row[0] for row in rows], np.int64), length, stages)


def steady(times: Times) -> Bool:
    """Cycles that are no pause of the load."""
    if not len(times.length):
        return np.zeros(0, dtype=bool)
    kept: Bool = times.length <= PAUSE * np.median(times.length)
    return kept


def means(index: Int, values: Float, count: int) -> Float:
    """Mean of the values of each piece; nan where it has none."""
    inside = (index >= 0) & (index < count)
    number = np.bincount(index[inside], minlength=count).astype(np.float64)
    total = np.bincount(index[inside], weights=values[inside], minlength=count)
    found: Float = np.divide(total, number, out=np.full(count, np.nan), where=number > 0)
    return found
