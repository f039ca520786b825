"""Which collective of one rank is which of another.

The ranks are of one process group: every collective is one of all of them. Matched are, best
first:

1. group and sequence number, where the trace has them (`collectives` table);
2. the order within the same launch (graph launch, or eager launches of one stage) of the same
   cycle, where kind and count agree on all ranks;
3. without cycles, the order in the whole capture, where kind and count agree.

A launch whose collectives differ between ranks is left out whole and described; nothing is
zipped together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import ABSENT, Bool, Int
from specscope.analyzers.words import STAGES

# More launches than this share whose collectives differ: the traces do not correspond.
MOST_DIFFERING = 0.1
_MOST_NAMED = 3


@dataclass(frozen=True)
class Matched:
    """Collectives matched over all ranks, in order of the first rank's time.

    `op`, `stage` and `cycle` are by [rank, collective]; `cycle` numbers the cycles of each rank.
    """

    ranks: tuple[int, ...]
    op: Int
    stage: Int  # of the first rank
    cycle: Int
    kind: tuple[str, ...]
    fused: Bool
    in_graph: Bool  # launched by a graph
    group: tuple[str | None, ...]
    sequence: Int
    bytes: Int
    by: str  # sequence, launch, capture
    total: tuple[int, ...]  # collectives of each rank, matched or not
    differing: tuple[str, ...]  # launches that were left out, in words
    names: tuple[tuple[str | None, ...], ...] = ()  # by [rank, collective], as recorded

    def __len__(self) -> int:
        return int(self.op.shape[1])


def match(
    members: Sequence[Member], collectives: Sequence[Collectives], shift: Sequence[int]
) -> Matched | str:
    """The collectives that all ranks have, or why they do not correspond.

    `shift` is added to the number of a rank's cycle to get that of the first rank.
    """
    counts = [len(one.op) for one in collectives]
    if not all(counts):
        without = ", ".join(
            str(m.number) for m, count in zip(members, counts, strict=True) if not count
        )
        return f"no collectives on rank {without}" if any(counts) else "no collectives"
    if all((one.sequence != ABSENT).all() for one in collectives):
        keys = [_by_sequence(one) for one in collectives]
        if all(max(Counter(k).values()) == 1 for k in keys):
            return _joined(members, collectives, *_same_keys(members, collectives, keys))
    if all(m.cycles is not None and len(m.cycles) for m in members):
        return _by_launch(members, collectives, shift)
    return _by_capture(members, collectives)


def _by_sequence(one: Collectives) -> list[tuple[Any, ...]]:
    return list(zip(one.group, one.sequence.tolist(), strict=True))


def _same_keys(
    members: Sequence[Member], collectives: Sequence[Collectives], keys: list[list[Any]]
) -> tuple[list[list[int]], list[str], str]:
    """Rows of every rank with one key; those that differ in kind are described."""
    places = [{key: row for row, key in enumerate(of)} for of in keys]
    rows: list[list[int]] = []
    differing = []
    for key in keys[0]:
        if not all(key in place for place in places):
            continue
        found = [place[key] for place in places]
        kinds = {one.kind[row] for one, row in zip(collectives, found, strict=True)}
        if len(kinds) > 1:
            named = " and ".join(sorted(kinds))
            differing.append(f"sequence {key[1]} of group {key[0]}: {named}")
            continue
        rows.append(found)
    return rows, differing, "sequence"


def _by_launch(
    members: Sequence[Member], collectives: Sequence[Collectives], shift: Sequence[int]
) -> Matched | str:
    blocks = [_blocks(one, more) for one, more in zip(collectives, shift, strict=True)]
    whole = _cycles_of_all(members, shift)
    rows: list[list[int]] = []
    differing: list[str] = []
    asked = 0
    for key in dict.fromkeys(key for of in blocks for key in of):
        found = [of.get(key, []) for of in blocks]
        kinds = [[one.kind[row] for row in of] for one, of in zip(collectives, found, strict=True)]
        inside = key[0] in whole
        asked += inside
        if all(one == kinds[0] for one in kinds):
            rows += [list(together) for together in zip(*found, strict=True)]
        elif inside:
            # Outside of whole cycles the capture begins and ends in the middle of a launch.
            differing.append(_difference(members, key, kinds))
    if differing and len(differing) > MOST_DIFFERING * asked:
        return _do_not_correspond(differing, asked)
    return _joined(members, collectives, rows, differing, "launch")


def _blocks(one: Collectives, shift: int) -> dict[tuple[int, int, int], list[int]]:
    """Rows by (cycle, stage, launch), each in order of time."""
    if not len(one.op):
        return {}
    keys = np.stack((one.cycle + shift, one.stage, one.launch))
    order = np.lexsort(keys[::-1])
    begins = np.flatnonzero(np.any(np.diff(keys[:, order], axis=1) != 0, axis=0)) + 1
    parts = sorted(np.split(order, begins), key=lambda rows: int(rows[0]))
    names = keys[:, [rows[0] for rows in parts]].T.tolist()
    return {
        (cycle, stage, launch): rows.tolist()
        for (cycle, stage, launch), rows in zip(names, parts, strict=True)
    }


def _cycles_of_all(members: Sequence[Member], shift: Sequence[int]) -> range:
    """Numbers of the whole cycles that every rank has."""
    lengths = [len(m.cycles) if m.cycles is not None else 0 for m in members]
    ends = [length + more for length, more in zip(lengths, shift, strict=True)]
    return range(max(shift), min(ends))


def _difference(
    members: Sequence[Member], key: tuple[int, int, int], kinds: Sequence[Sequence[str]]
) -> str:
    """One launch whose collectives differ, in words."""
    lengths = [len(one) for one in kinds]
    other = next(index for index, one in enumerate(kinds) if one != kinds[0])
    where = f"cycle {key[0]}, {STAGES[key[1]]}"
    first, second = members[0].number, members[other].number
    if lengths[0] != lengths[other]:
        return f"{where}: rank {first} has {lengths[0]} collectives, rank {second} {lengths[other]}"
    at = next(
        i for i, pair in enumerate(zip(kinds[0], kinds[other], strict=True)) if pair[0] != pair[1]
    )
    return (
        f"{where}: collective {at} is {kinds[0][at]} on rank {first}, "
        f"{kinds[other][at]} on rank {second}"
    )


def _do_not_correspond(differing: Sequence[str], asked: int) -> str:
    shown = "; ".join(differing[:_MOST_NAMED])
    more = f"; and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
    return (
        f"the collectives of the ranks do not correspond in {len(differing)} of {asked} launches "
        f"({shown}{more})"
    )


def _by_capture(members: Sequence[Member], collectives: Sequence[Collectives]) -> Matched | str:
    """Without cycles: the whole capture of every rank must hold the same collectives."""
    for other, one in zip(members[1:], collectives[1:], strict=True):
        counts = Counter(collectives[0].kind), Counter(one.kind)
        if counts[0] != counts[1]:
            kind = next(k for k in (*counts[0], *counts[1]) if counts[0][k] != counts[1][k])
            return (
                f"the collectives of the ranks do not correspond: rank {members[0].number} has "
                f"{counts[0][kind]} of {kind}, rank {other.number} {counts[1][kind]}, and no "
                "cycles are found by which to match them, as in traces of two different runs, or "
                "sampled or filtered ones"
            )
        if one.kind != collectives[0].kind:
            return (
                f"the collectives of ranks {members[0].number} and {other.number} come in another "
                "order, and no cycles are found by which to match them"
            )
    rows = [[row] * len(members) for row in range(len(collectives[0].op))]
    return _joined(members, collectives, rows, [], "capture")


def _of_one_group(collectives: Sequence[Collectives], rows: Sequence[int]) -> bool:
    """Do the recorded ranks of the group agree? What is not recorded says nothing."""
    named = {one.ranks[row] for one, row in zip(collectives, rows, strict=True)} - {None}
    return len(named) < 2


def _joined(
    members: Sequence[Member],
    collectives: Sequence[Collectives],
    rows: list[list[int]],
    differing: list[str],
    by: str,
) -> Matched | str:
    """The matched rows side by side; those of several groups or sizes are left out."""
    if not rows:
        return "no collective is on record on every rank"
    recorded = any(ranks is not None for one in collectives for ranks in one.ranks)
    together = [row for row in rows if _of_one_group(collectives, row)] if recorded else rows
    if not together:
        return (
            "the collectives of the ranks belong to different process groups; give the ranks of "
            "one tensor-parallel group"
        )
    if len(together) < len(rows):
        lost = len(rows) - len(together)
        differing = [*differing, f"{lost} collectives of different process groups"]
    at = np.array(together, np.int64).T
    size = np.stack([one.bytes[of] for one, of in zip(collectives, at, strict=True)])
    known = (size != ABSENT).all(axis=0)
    same = ~known | (size == size[0]).all(axis=0)
    if not same.all():
        differing = [*differing, f"{int((~same).sum())} collectives whose sizes differ"]
    at = at[:, same]
    if not at.shape[1]:
        return "the sizes of all collectives differ between the ranks"
    first = collectives[0]
    order = np.argsort(at[0], kind="stable")
    at = at[:, order]
    rows_of_first = at[0].tolist()
    return Matched(
        ranks=tuple(m.number for m in members),
        op=np.stack([one.op[of] for one, of in zip(collectives, at, strict=True)]),
        stage=first.stage[at[0]],
        cycle=np.stack([one.cycle[of] for one, of in zip(collectives, at, strict=True)]),
        kind=tuple(first.kind[row] for row in rows_of_first),
        fused=first.fused[at[0]],
        in_graph=first.launch[at[0]] >= 0,
        group=tuple(first.group[row] for row in rows_of_first),
        sequence=first.sequence[at[0]],
        bytes=first.bytes[at[0]],
        by=by,
        total=tuple(len(one.op) for one in collectives),
        differing=tuple(differing),
        names=tuple(
            tuple(one.name[row] for row in of.tolist())
            for one, of in zip(collectives, at, strict=True)
        ),
    )
