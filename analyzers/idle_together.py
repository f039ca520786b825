"""Idle of each rank, split by whether another rank works meanwhile: only aligned ranks tell.

Idle while nobody works is scheduling that holds all ranks up; idle while others work is the
rank's own lateness, or its waiting outside of collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Int
from specscope.analyzers.critical_path import Common
from specscope.analyzers.words import IDLE, WORK


@dataclass(frozen=True)
class IdleSplit:
    """Idle of one rank a cycle, medians over the counted cycles; shares are of the cycle."""

    rank: int
    others_busy_ns: float
    others_busy_share: float
    nobody_ns: float
    nobody_share: float


def split(
    attributed: Sequence[Attribution],
    bases: Sequence[int],
    shift: Sequence[int],
    clocks: Common,
    steady: Int,
) -> tuple[IdleSplit, ...]:
    """A row for each rank; `steady` are the counted cycles by the first rank's numbers."""
    if not len(steady):
        return ()
    spans = []
    for row, (one, base) in enumerate(zip(attributed, bases, strict=True)):
        start = clocks.common(row, one.segments.start + base)
        spans.append((start, clocks.common(row, one.segments.end + base)))
    busy = [
        (start[mine], end[mine])
        for (start, end), mine in zip(
            spans, (one.segments.state == WORK for one in attributed), strict=True
        )
    ]
    begins, passed = _union(*(np.concatenate(ends) for ends in zip(*busy, strict=True)))
    found = []
    for one, (start, end), more in zip(attributed, spans, shift, strict=True):
        idle = np.flatnonzero(one.segments.state == IDLE)
        # While this rank is idle, whoever works is another.
        covered = _until(begins, passed, end[idle]) - _until(begins, passed, start[idle])
        count = len(one.cycles)
        of = one.segments.cycle[idle]
        with_others = np.bincount(of, weights=covered, minlength=count)[steady - more]
        alone = np.bincount(of, weights=end[idle] - start[idle] - covered, minlength=count)
        alone = alone[steady - more]
        length = np.maximum(one.cycles.ns[steady - more], 1)
        found.append(
            IdleSplit(
                one.number,
                float(np.median(with_others)),
                float(np.median(with_others / length)),
                float(np.median(alone)),
                float(np.median(alone / length)),
            )
        )
    return tuple(found)


def _union(start: Int, end: Int) -> tuple[Int, Int]:
    """Borders of the union of intervals, and how much of it lies before each border.

    Borders at even places open a stretch, at odd places close it.
    """
    if not len(start):
        return np.empty(0, np.int64), np.zeros(1, np.int64)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.append(opens[1:], True)
    borders = np.stack((start[opens], reach[closes]), axis=1).ravel()
    length = borders[1::2] - borders[::2]
    passed = np.zeros(len(borders), np.int64)
    passed[1::2] = np.cumsum(length)
    passed[2::2] = passed[1:-1:2]
    return borders, passed


def _until(borders: Int, passed: Int, time: Int) -> Int:
    """How much of the union lies before each time."""
    if not len(borders):
        return np.zeros(len(time), np.int64)
    at = np.searchsorted(borders, time, "right") - 1
    place = np.maximum(at, 0)
    inside = (at >= 0) & (at % 2 == 0)
    covered: Int = np.where(at >= 0, passed[place], 0) + np.where(inside, time - borders[place], 0)
    return covered
