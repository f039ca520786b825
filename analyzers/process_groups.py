"""Which process group each collective of a rank belongs to: ranks that meet in no group never meet.

A group is the set of its ranks. It is known, best first, by what is recorded on the collective
(its ranks, or the name of a group whose ranks the file lists); else by the groups that the files
list; else by the server's `tp`. Kernels inside graphs and custom kernels record nothing: of the
layouts of groups that are listed, theirs is the one whose ranks leave together (`unsettled`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Int

# What torch calls a group that nobody described, and its first group, which holds all ranks.
_UNNAMED: Final = ("", "undefined")
_WORLD: Final = "default_pg"
_MOST_GROUPS: Final = 4096

LISTED, BY_TP = "listed", "tp"


@dataclass(frozen=True)
class ProcessGroup:
    """A set of ranks that communicate, in their order, and the names that files give to it."""

    ranks: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its names, where it has any, and its ranks."""
        ranks = f"ranks {ranges(self.ranks)}"
        return f"{'/'.join(self.names)} ({ranks})" if self.names else ranks


@dataclass(frozen=True)
class Layout:
    """Groups of one size, without a rank in common, that hold all ranks that were read."""

    groups: tuple[ProcessGroup, ...]
    by: str


@dataclass(frozen=True)
class Assigned:
    """Per rank that was read: index into `groups` of each collective, -1 where nothing says it."""

    groups: tuple[ProcessGroup, ...]
    of: tuple[Int, ...]
    layouts: tuple[Layout, ...]  # for those that nothing says, the largest groups first

    @property
    def unsettled(self) -> bool:
        """Is there a collective whose group nothing says?"""
        return any((of < 0).any() for of in self.of)


def assign(
    members: Sequence[Member], collectives: Sequence[Collectives], tp: object = None
) -> Assigned:
    """The groups of all collectives, as far as something says them."""
    listed = [_listed(one) for one in members]
    by_ranks: dict[tuple[int, ...], list[str]] = {}
    for of in listed:
        for group in of.values():
            names = by_ranks.setdefault(group.ranks, [])
            names += [name for name in group.names if name not in names]
    place = {ranks: number for number, ranks in enumerate(by_ranks)}
    pairs: set[tuple[int, ...]] = set()
    assigned = []
    for member, one, of in zip(members, collectives, listed, strict=True):
        known: dict[tuple[str | None, str | None, int], int] = {}
        own = np.full(len(one.op), -1, np.int64)
        ways = map(_way, one.kind, one.name)
        for row, said in enumerate(zip(one.group, one.ranks, ways, strict=True)):
            if said not in known:
                ranks = _recorded_ranks(said[1]) or _ranks_of_name(said[0], of)
                if ranks and said[2]:
                    named = by_ranks.get(ranks, [])
                    ranks = _pair(ranks, member.number, said[2])
                    if ranks not in by_ranks:
                        by_ranks[ranks] = named
                        pairs.add(ranks)
                if ranks and ranks not in place:
                    place[ranks] = len(place)
                    by_ranks.setdefault(ranks, [])
                known[said] = place[ranks] if ranks else -1
            own[row] = known[said]
        assigned.append(own)
    groups = tuple(ProcessGroup(ranks, tuple(names)) for ranks, names in by_ranks.items())
    read = [one.number for one in members]
    whole = [group for group in groups if group.ranks not in pairs]
    return Assigned(groups, tuple(assigned), _layouts(whole, read, tp))


def _way(kind: str, name: str | None) -> int:
    """To the rank after, 1, or from the rank before, -1, by the recorded name; else 0."""
    if not kind.endswith(".sendrecv") or name is None:
        return 0
    word = name.lower().removeprefix("i")
    return 1 if word.startswith("send") else -1 if word.startswith("recv") else 0


def _pair(ranks: tuple[int, ...], own: int, way: int) -> tuple[int, ...]:
    """A rank of a pipeline sends to the next one and receives from the one before."""
    if own not in ranks or len(ranks) < 3:
        return ranks
    other = ranks[(ranks.index(own) + way) % len(ranks)]
    return (min(own, other), max(own, other))


def _listed(one: Member) -> dict[str, ProcessGroup]:
    """Groups that the file lists, by the name that its collectives use."""
    found: dict[str, ProcessGroup] = {}
    listed = one.rank.tables.facts.get("groups") or []
    for entry in listed[:_MOST_GROUPS] if isinstance(listed, list) else []:
        if not isinstance(entry, Mapping):
            continue
        ranks = _whole_numbers(entry.get("ranks"))
        backend = str(entry.get("backend_config") or "nccl")
        if ranks is None or len(ranks) != entry.get("pg_size", len(ranks)):
            continue
        if not re.search("nccl|rccl|xccl|ucc", backend):
            continue  # a group of hosts: its collectives are no kernels
        described = str(entry.get("pg_desc") or "")
        names = () if described in (*_UNNAMED, _WORLD) else (described,)
        found[str(entry.get("pg_name"))] = ProcessGroup(ranks, names)
    return found


def _whole_numbers(values: object) -> tuple[int, ...] | None:
    if not isinstance(values, list) or not values:
        return None
    if any(type(value) is not int or value < 0 for value in values):
        return None
    return tuple(sorted(set(values)))


def _recorded_ranks(text: str | None) -> tuple[int, ...] | None:
    """The ranks as a collective records them, `[0, 1]`; None where the list is cut short."""
    if text is None:
        return None
    try:
        return _whole_numbers(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _ranks_of_name(name: str | None, listed: Mapping[str, ProcessGroup]) -> tuple[int, ...] | None:
    found = listed.get(name) if name is not None else None
    return found.ranks if found else None


def _layouts(groups: Sequence[ProcessGroup], read: Sequence[int], tp: object) -> tuple[Layout, ...]:
    """Ways to split the ranks that were read into groups that are known, the largest first."""
    some = [group for group in groups if len(group.ranks) > 1]
    found = []
    for start in (group for group in some if read[0] in group.ranks):
        chosen, left = [start], set(read) - set(start.ranks)
        for group in some:
            as_large = len(group.ranks) == len(start.ranks)
            if as_large and left & set(group.ranks) and not _common(group, chosen):
                chosen.append(group)
                left -= set(group.ranks)
        if not left:
            found.append(Layout(tuple(chosen), LISTED))
    # Tensor-parallel ranks stand side by side, pipeline stages apart.
    found.sort(key=lambda one: (len(one.groups[0].ranks), one.groups[0].ranks))
    # Those that split the ranks that were read alike cannot be told apart: the smaller is whole.
    alike: dict[frozenset[frozenset[int]], Layout] = {}
    for layout in found:
        split = frozenset(frozenset(group.ranks) & frozenset(read) for group in layout.groups)
        alike.setdefault(split, layout)
    found = sorted(alike.values(), key=lambda one: -len(one.groups[0].ranks))
    if not found and type(tp) is int and 1 < tp < len(read):
        first = sorted({rank // tp for rank in read})
        blocks = tuple(ProcessGroup(tuple(range(n * tp, n * tp + tp))) for n in first)
        found = [Layout(blocks, BY_TP)]
    return tuple(found)


def _common(group: ProcessGroup, others: Sequence[ProcessGroup]) -> bool:
    return any(set(group.ranks) & set(other.ranks) for other in others)


def part_of(one: Collectives, rows: Int) -> Collectives:
    """Some of the collectives of a rank, in their order."""
    numbers = rows.tolist()
    columns: dict[str, Any] = {}
    for column in fields(one):
        values = getattr(one, column.name)
        some = [values[row] for row in numbers] if isinstance(values, list) else values[rows]
        columns[column.name] = some
    return replace(one, **columns)


def ranges(numbers: Sequence[int]) -> str:
    """`0-3, 8`: numbers that follow one another as a range."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    shown = ["-".join(map(str, part)) for part in parts[:8]]
    return ", ".join(shown) + (", ..." if len(parts) > 8 else "")
