"""The collectives of a run by process group: each group is matched and measured by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Int
from specscope.analyzers.group_layouts import choose
from specscope.analyzers.process_groups import Assigned, ProcessGroup, part_of

RECORDED: Final = "recorded"


@dataclass(frozen=True)
class Part:
    """One process group: which members are of it, and their collectives in it."""

    group: ProcessGroup
    who: tuple[int, ...]
    collectives: tuple[Collectives, ...]
    by: tuple[str, ...]  # how it is known: recorded, listed, tp


@dataclass(frozen=True)
class Split:
    """All process groups of a run with two ranks read, and what could not be given to one."""

    parts: tuple[Part, ...]
    lost: tuple[str, ...]  # in words
    known: bool  # does anything say a group?


def split(
    members: Sequence[Member], collectives: Sequence[Collectives], assigned: Assigned
) -> Split:
    """The parts, the largest groups first; none where nothing says a group."""
    groups = list(assigned.groups)
    of = [own.copy() for own in assigned.of]
    by: dict[int, set[str]] = {}
    for own in of:
        for number in set(own[own >= 0].tolist()):
            by.setdefault(number, set()).add(RECORDED)
    lost: list[str] = []
    rows_of = _rows_by_kind(collectives, of)
    chosen = choose(members, collectives, rows_of, assigned.layouts)
    for kind, rows in rows_of.items():
        layout = chosen[kind]
        if layout is None:
            if by or assigned.layouts:
                count = max(len(row) for row in rows)
                lost.append(f"{count:,} of {kind} a rank, whose process group nothing says")
            continue
        for group in layout.groups:
            number = _place(groups, group)
            for member, own, row in zip(members, of, rows, strict=True):
                if member.number in group.ranks:
                    own[row] = number
            by.setdefault(number, set()).add(layout.by)
    parts = []
    for number in sorted(by, key=lambda n: (-len(groups[n].ranks), groups[n].ranks)):
        part = _part(members, collectives, of, groups[number], number, by[number])
        if part is not None:
            parts.append(part)
    return Split(tuple(parts), tuple(lost), bool(by or assigned.layouts))


def _rows_by_kind(collectives: Sequence[Collectives], of: Sequence[Int]) -> dict[str, list[Int]]:
    """Rows by rank of the collectives whose group nothing says, by kind."""
    kinds = [np.array(one.kind, dtype=object) for one in collectives]
    free = [own < 0 for own in of]
    names = dict.fromkeys(
        name for kind, some in zip(kinds, free, strict=True) for name in kind[some].tolist()
    )
    return {
        name: [
            np.flatnonzero(some & (kind == name)) for kind, some in zip(kinds, free, strict=True)
        ]
        for name in names
    }


def _place(groups: list[ProcessGroup], group: ProcessGroup) -> int:
    for number, known in enumerate(groups):
        if known.ranks == group.ranks:
            return number
    groups.append(group)
    return len(groups) - 1


def _part(
    members: Sequence[Member],
    collectives: Sequence[Collectives],
    of: Sequence[Int],
    group: ProcessGroup,
    number: int,
    by: set[str],
) -> Part | None:
    """The group's part of the collectives; None where fewer than two of its ranks were read."""
    rows = [np.flatnonzero(own == number) for own in of]
    who = tuple(
        index
        for index, (member, row) in enumerate(zip(members, rows, strict=True))
        if len(row) or member.number in group.ranks
    )
    if len(who) < 2:
        return None
    own_rows = tuple(part_of(collectives[index], rows[index]) for index in who)
    return Part(group, who, own_rows, tuple(sorted(by)))
