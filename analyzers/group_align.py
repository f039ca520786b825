"""Ranks brought together: their collectives matched, their cycles counted alike, one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from specscope.analyzers import collective_match
from specscope.analyzers.clocks import Clocks, align
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Int
from specscope.analyzers.cycles import Cycles


def aligned(
    members: Sequence[Member], of_ranks: Sequence[Collectives]
) -> tuple[Matched, Clocks, tuple[int, ...]] | str:
    """Matched collectives and clocks: of the possible shifts of cycles the one that fits best."""
    best: tuple[Matched, Clocks, tuple[int, ...]] | None = None
    why = ""
    for shift in shifts(members):
        matched = collective_match.match(members, of_ranks, shift)
        if isinstance(matched, str):
            why = why or matched
            continue
        pairs = list(zip(members, matched.op, strict=True))
        start = np.stack([one.rank.ops.start[ops] + one.base for one, ops in pairs])
        end = np.stack([one.rank.ops.end[ops] + one.base for one, ops in pairs])
        clocks = align(matched, start, end)
        if isinstance(clocks, str):
            why = why or clocks
        elif best is None or clocks.residual_ns < best[1].residual_ns:
            best = matched, clocks, shift
    return best or why


def shifts(members: Sequence[Member]) -> list[tuple[int, ...]]:
    """What may lead from each rank's numbers of cycles to the first rank's, likeliest first."""
    cycles = [one.cycles for one in members]
    if any(one is None or not len(one) for one in cycles):
        return [(0,) * len(members)]
    known = [one for one in cycles if one is not None]
    by_number = [_by_number(known[0], one) for one in known]
    if all(shift is not None for shift in by_number):
        return [tuple(shift for shift in by_number if shift is not None)]
    bases = [one.base for one in members]
    by_time = tuple(
        _by_time(known[0].start + bases[0], one.start + base)
        for one, base in zip(known, bases, strict=True)
    )
    return list(dict.fromkeys([by_time, (0,) * len(members)]))


def _by_number(first: Cycles, other: Cycles) -> int | None:
    """By the numbers that the range grammar gives; None where none is on both."""
    for place, number in enumerate(other.number):
        if number is not None and number in first.number:
            return first.number.index(number) - place
    return None


def _by_time(first: Int, other: Int) -> int:
    """The commonest difference in place of the cycles that begin nearest to one another."""
    at = np.clip(np.searchsorted(first, other), 1, max(len(first) - 1, 1))
    at = np.minimum(at, len(first) - 1)
    before = np.maximum(at - 1, 0)
    nearest = np.where(np.abs(first[before] - other) <= np.abs(first[at] - other), before, at)
    shifts = Counter((nearest - np.arange(len(other))).tolist())
    return int(shifts.most_common(1)[0][0])


def whole_cycles(members: Sequence[Member], shift: Sequence[int]) -> range:
    """Numbers, on the first rank, of the whole cycles that every rank has."""
    lengths = [len(one.cycles) if one.cycles is not None else 0 for one in members]
    ends = [length + more for length, more in zip(lengths, shift, strict=True)]
    return range(max(shift), max(min(ends), *shift))
