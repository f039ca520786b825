"""Several process groups of one run together: one clock, one critical path, one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers import critical_path, group_sums, group_words, idle_together
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.clocks import Clocks
from specscope.analyzers.collective_times import Times
from specscope.analyzers.collectives import Member
from specscope.analyzers.columns import Int
from specscope.analyzers.critical_path import Paths
from specscope.analyzers.group_parts import Split
from specscope.analyzers.group_rows import Group, Measured
from specscope.analyzers.idle_together import IdleSplit

# Of ranks that are not in a group: earlier than any time.
_NEVER = np.iinfo(np.int64).min // 4


@dataclass(frozen=True)
class Chained:
    """Clocks of ranks that share no group, brought to the first rank's through those between."""

    steps: tuple[tuple[tuple[Clocks, int, int], ...], ...]  # per rank: (clocks, from row, to row)

    def common(self, row: int, times: Int) -> Int:
        """Absolute times of the rank in that row, on the first rank's clock."""
        for clocks, source, target in self.steps[row]:
            times = clocks.seen(target, clocks.common(source, times))
        return times


def joined(
    members: Sequence[Member],
    known: Sequence[Attribution | None],
    split: Split,
    parts: Sequence[Group],
) -> Group:
    """The process groups as one report."""
    numbers = tuple(one.number for one in members)
    good = [one for one in parts if one.measured is not None]
    if not good:
        why = "; ".join(f"{one.title}: {one.refused}" for one in parts[:3])
        return Group(numbers, refused=why, parts=tuple(parts), lost=split.lost)
    rows = tuple(row for one in parts for row in one.rows)
    longest = max(good, key=lambda one: (not one.own_batch, len(one.cycles)))
    starts = [one.first_cycle for one in good if one.first_cycle is not None]
    paths, idle, steady = _together(members, known, good, longest)
    path, cycle_ns, critical = group_sums.path_rows(numbers, paths, steady)
    return Group(
        numbers,
        sentence=group_words.sentence_of_groups(good),
        assumption="Process groups: " + "; ".join(one.assumption for one in good),
        cycles=tuple(steady.tolist()),
        first_cycle=max(starts, key=lambda first: first.wait_ns, default=None),
        rows=rows,
        fused=tuple(row for one in good for row in one.fused),
        cycle_ns=cycle_ns,
        path=path,
        critical=critical,
        idle=idle,
        parts=tuple(parts),
        lost=split.lost,
        paths=paths,
        base_ns=members[0].base,
    )


def _together(
    members: Sequence[Member],
    known: Sequence[Attribution | None],
    good: Sequence[Group],
    longest: Group,
) -> tuple[Paths | None, tuple[IdleSplit, ...], Int]:
    """The critical path over all groups, idle of all ranks, and the counted cycles.

    Nothing of it where groups leave ranks without a common clock, or ranks of them are missing.
    """
    steady = np.array(longest.cycles, np.int64)
    usable = [one for one in known if one is not None and not one.on_host]
    row_of = {one.number: row for row, one in enumerate(members)}
    measured = [one.measured for one in good if one.measured is not None]
    chained = _chained(len(members), row_of, measured)
    if chained is None or len(usable) < len(members) or any(one.missing for one in good):
        return None, (), steady
    clocks, shift = chained
    lengths = [len(one.cycles) + more for one, more in zip(usable, shift, strict=True)]
    whole = range(max(shift), max(min(lengths), *shift))
    steady += shift[row_of[longest.ranks[0]]]
    steady = steady[np.isin(steady, np.array(whole))]
    bases = [one.base for one in members]
    idle = idle_together.split(usable, bases, shift, clocks, steady)
    stage, times = _joint_times(measured, clocks, row_of)
    paths = critical_path.walk(usable, bases, shift, whole, stage, clocks, times)
    return paths, idle, steady


def _joint_times(
    measured: Sequence[Measured], clocks: Chained, row_of: dict[int, int]
) -> tuple[Int, Times]:
    """Stage and times of the collectives of all groups; ranks never come to those of others."""
    arrival, end, last, stage = [], [], [], []
    for one in measured:
        shape = len(row_of), len(one.matched)
        at, left = np.full(shape, _NEVER), np.full(shape, _NEVER)
        for source, number in enumerate(one.matched.ranks):
            row = row_of[number]
            for values, own in ((at, one.times.arrival), (left, one.times.end)):
                values[row] = clocks.common(row, one.clocks.seen(source, own[source]))
        arrival.append(at)
        end.append(left)
        last.append(at.max(axis=0))
        stage.append(one.matched.stage)
    nothing = np.zeros(sum(map(len, stage)), np.int64)
    joint = np.concatenate(arrival, axis=1), np.concatenate(end, axis=1), np.concatenate(last)
    times = Times(joint[0], joint[1], joint[0], joint[2], nothing - 1, nothing, nothing, nothing)
    return np.concatenate(stage), times


def _chained(
    count: int, row_of: dict[int, int], measured: Sequence[Measured]
) -> tuple[Chained, tuple[int, ...]] | None:
    """Clocks and shifts of cycles against the first rank, from group to group, the largest first.

    None where a rank cannot be reached.
    """
    steps: dict[int, tuple[tuple[Clocks, int, int], ...]] = {0: ()}
    shift = {0: 0}
    found = True
    while found and len(steps) < count:
        found = False
        for one in measured:
            rows = [row_of[number] for number in one.matched.ranks]
            target = next((place for place, row in enumerate(rows) if row in steps), None)
            if target is None:
                continue
            for place, row in enumerate(rows):
                if row not in steps:
                    through = rows[target]
                    steps[row] = ((one.clocks, place, target), *steps[through])
                    shift[row] = one.shift[place] - one.shift[target] + shift[through]
                    found = True
    if len(steps) < count:
        return None
    chained = Chained(tuple(steps[row] for row in range(count)))
    return chained, tuple(shift[row] for row in range(count))
