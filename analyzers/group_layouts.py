"""Which layout of process groups a kind of collective follows that records no group.

All members of a group leave a collective together, so the right layout is the largest in which
they do. Where some members of a group run a kind and others that run collectives do not, that
layout is refuted, as by replicas that use other kernel libraries; it is taken only where no other
is left. What a rank's clock is off by is the same for all kinds: it is taken for nothing where
some kind leaves together by the clocks as they are, as on one host; else for what most
collectives agree on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from specscope.analyzers import collective_match
from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Int
from specscope.analyzers.group_align import shifts
from specscope.analyzers.process_groups import Layout, part_of

# Ranks that leave so near to one another leave together: the ends of larger rings are apart.
_TOGETHER_NS: Final = 10_000
# A layout that leaves so much more apart than the best is not the one.
_TIMES_APART: Final = 3.0
_NS_APART: Final = 5_000.0
# A profiler's stray end is none of the layout.
_MOST: Final = 0.9


def choose(
    members: Sequence[Member],
    collectives: Sequence[Collectives],
    rows_of: Mapping[str, Sequence[Int]],
    layouts: Sequence[Layout],
) -> dict[str, Layout | None]:
    """The layout of each kind, by rows of every rank; None where no layout lets its ranks meet."""
    if len(layouts) < 2:
        return dict.fromkeys(rows_of, layouts[0] if layouts else None)
    speaks = {one.number for one, of in zip(members, collectives, strict=True) if len(of.op)}
    apart = [_apart(members, collectives, rows_of, layout) for layout in layouts]
    chosen: dict[str, Layout | None] = {}
    for kind, rows in rows_of.items():
        runs = {one.number for one, row in zip(members, rows, strict=True) if len(row)}
        by_layout = list(zip(layouts, apart, strict=True))
        shared = [of for of in by_layout if kind in of[1] and _by_all(of[0], runs, speaks)]
        known = shared or [of for of in by_layout if kind in of[1]]
        most = _TIMES_APART * min((of[kind] for _, of in known), default=0.0) + _NS_APART
        chosen[kind] = next((layout for layout, of in known if of[kind] <= most), None)
    return chosen


def _by_all(layout: Layout, runs: set[int], speaks: set[int]) -> bool:
    """Does each group run the kind with all its ranks that run collectives, or with none?"""
    members = (set(group.ranks) & speaks for group in layout.groups)
    return all(ranks <= runs or not ranks & runs for ranks in members)


def _apart(
    members: Sequence[Member],
    collectives: Sequence[Collectives],
    rows_of: Mapping[str, Sequence[Int]],
    layout: Layout,
) -> dict[str, float]:
    """How far apart the ranks of a group leave, by kind; kinds that do not correspond are not in.

    Of several groups the one counts that leaves the furthest apart.
    """
    worst: dict[str, float] = {}
    unlike: set[str] = set()
    for group in layout.groups:
        ends: dict[str, Int] = {}
        for kind, rows in rows_of.items():
            who = [
                index
                for index, one in enumerate(members)
                if one.number in group.ranks and len(rows[index])
            ]
            if len(who) < 2:
                continue
            of_ranks = [part_of(collectives[index], rows[index]) for index in who]
            found = _ends([members[index] for index in who], of_ranks)
            if found is None:
                unlike.add(kind)
            else:
                ends[kind] = found
        for kind, value in _by_one_clock(ends).items():
            worst[kind] = max(worst.get(kind, 0.0), value)
    return {kind: value for kind, value in worst.items() if kind not in unlike}


def _ends(members: Sequence[Member], of_ranks: Sequence[Collectives]) -> Int | None:
    """Ends by [rank, collective], less the first rank's; None where not all of them correspond."""
    best: Int | None = None
    for shift in shifts(members):
        matched = collective_match.match(members, of_ranks, shift)
        if isinstance(matched, str) or matched.differing:
            continue
        pairs = zip(members, matched.op, strict=True)
        end = np.stack([one.rank.ops.end[ops] + one.base for one, ops in pairs])
        left = end - end[0]
        if best is None or _spread(left, _middle(left)) < _spread(best, _middle(best)):
            best = left
    return best


def _by_one_clock(ends: Mapping[str, Int]) -> dict[str, float]:
    """How far apart the ranks leave, by kind, all kinds by one clock."""
    by_ranks: dict[int, dict[str, Int]] = {}
    for kind, left in ends.items():
        by_ranks.setdefault(len(left), {})[kind] = left
    found: dict[str, float] = {}
    for ranks, of in by_ranks.items():
        as_they_are = np.zeros((ranks, 1), np.int64)
        clocks = [as_they_are, *(_middle(left) for left in of.values())]
        together = [
            sum(int((_reach(left, clock) <= _TOGETHER_NS).sum()) for left in of.values())
            for clock in clocks
        ]
        one_host = any(_spread(left, as_they_are) <= _TOGETHER_NS for left in of.values())
        clock = as_they_are if one_host else clocks[int(np.argmax(together))]
        found |= {kind: _spread(left, clock) for kind, left in of.items()}
    return found


def _middle(left: Int) -> Int:
    """What each rank's ends are usually off by; whole nanoseconds."""
    middle: Int = np.sort(left, axis=1)[:, left.shape[1] // 2][:, np.newaxis]
    return middle


def _reach(left: Int, clock: Int) -> Int:
    """From the first to the last rank that leaves, by collective."""
    by_clock = left - clock
    reach: Int = by_clock.max(axis=0) - by_clock.min(axis=0)
    return reach


def _spread(left: Int, clock: Int) -> float:
    return float(np.quantile(_reach(left, clock), _MOST))
