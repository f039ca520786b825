"""Ranks of several process groups drawn from one real rank, with waits that are known.

Every rank runs the source's ops. A collective belongs to one group of each layout; the members of
a group leave together, after the last of them has come; other ranks go on by their own time. So
what each rank waits, and in which group, is true by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from specscope.analyzers.attribution import Attribution, attribute
from specscope.analyzers.collective_times import arrivals
from specscope.analyzers.columns import Int
from specscope.analyzers.cycles import leading
from specscope.analyzers.group_rows import Group
from specscope.analyzers.group_view import together
from specscope.analyzers.links import LAST
from specscope.traces import schema
from specscope.traces.run import Run
from tests.analyzers.drawn_ranks import RULES, Distortion, collectives_of

Ranks = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """Collectives of one kind: the groups that they are in, and how kernels and torch name them."""

    groups: tuple[Ranks, ...]
    kernel: str = ""  # empty: as in the source
    names: tuple[str, ...] = ("allreduce",)  # of the members of a group, in order
    group_name: str = "tp"
    recorded_as: Ranks = ()  # the ranks of the group that is recorded; empty: as in `groups`


@dataclass(frozen=True)
class DrawnGroups:
    """The ranks as their traces show them; arrival and end by [rank, collective] as they are."""

    attributed: list[Attribution]
    kind_of: list[int]  # of each collective
    kinds: Sequence[Kind]
    arrival: Int
    end: Int
    context: dict[str, Any]

    def group(self) -> Group:
        """What the analysis makes of them."""
        tables = tuple(one.rank.tables for one in self.attributed)
        run = Run(tables, context=self.context)
        lead = leading([one.cycles for one in self.attributed])
        found = together(run, [one.rank for one in self.attributed], self.attributed, lead, RULES)
        assert found is not None
        return found

    def of(self, ranks: Ranks) -> Int:
        """The collectives that this group takes part in."""
        mine = [ranks in self.kinds[kind].groups for kind in self.kind_of]
        return np.flatnonzero(mine)

    def wait(self, ranks: Ranks) -> Int:
        """True waiting of a group's members, by [member, collective]."""
        at = self.arrival[np.ix_(ranks, self.of(ranks))]
        wait: Int = at.max(axis=0) - at
        return wait

    def transfer(self, ranks: Ranks) -> Int:
        """True transfer of a group's members, by [member, collective]."""
        rows = np.ix_(ranks, self.of(ranks))
        transfer: Int = self.end[rows] - self.arrival[rows].max(axis=0)
        return transfer


def draw_groups(
    source: Attribution,
    kinds: Sequence[Kind],
    kind_of: Callable[[int], int],
    clocks: Sequence[Distortion],
    late: Callable[[int, int], int] = lambda index, rank: 0,
    *,
    recorded: bool = True,
    listed: bool = True,
    context: dict[str, Any] | None = None,
) -> DrawnGroups:
    """Ranks like `source`, one for each clock.

    `kind_of` gives the kind of each collective, `late` how much longer a rank works before it.
    `recorded`: the collectives record their group; `listed`: the files list all groups.
    """
    ops, rows = source.rank.ops, collectives_of(source)
    count = len(clocks)
    of = [kind_of(index) for index in range(len(rows))]
    shift = np.zeros((count, len(rows) + 1), np.int64)  # of ops behind each collective
    came = np.zeros((count, len(rows)), np.int64)  # of the collective's start
    now = [0] * count
    for index in range(len(rows)):
        for rank in range(count):
            now[rank] += late(index, rank)
            came[rank, index] = now[rank]
        for group in kinds[of[index]].groups:
            last = max(now[rank] for rank in group)
            for rank in group:
                now[rank] = last
        shift[:, index + 1] = now
    middle = int(np.median(ops.end[rows]))
    begins = ops.start[rows]
    attributed, arrival, end = [], [], []
    for rank, clock in enumerate(clocks):

        def true(time: Int, own: Int = shift[rank]) -> Int:
            moved: Int = time + own[np.searchsorted(begins, time, "right")]
            return moved

        start, stop = true(ops.start), true(ops.end)
        start[rows] = begins + came[rank]
        stop[rows] = ops.end[rows] + shift[rank, 1:]
        for index in range(len(rows)):
            if late(index, rank):
                stop[_before(source, int(rows[index]))] = start[rows[index]]
        real = replace(ops, start=start, end=stop)
        arrival.append(arrivals(real, rows))
        end.append(stop[rows])
        attributed.append(_seen(source, rank, real, clock, middle, true, kinds, of, rows))
    if recorded or listed:
        for rank, one in enumerate(attributed):
            tables = _named(one, rank, kinds, of, rows, recorded=recorded, listed=listed)
            attributed[rank] = replace(one, rank=replace(one.rank, tables=tables))
    return DrawnGroups(attributed, of, kinds, np.stack(arrival), np.stack(end), context or {})


def _before(source: Attribution, row: int) -> int:
    """The op that starts last before the collective, on its stream."""
    ops = source.rank.ops
    mine = np.flatnonzero((ops.stream == ops.stream[row]) & (ops.start < ops.start[row]))
    return int(mine[ops.start[mine].argmax()])


def _seen(
    source: Attribution,
    rank: int,
    real: Any,
    clock: Distortion,
    middle: int,
    true: Callable[[Int], Int],
    kinds: Sequence[Kind],
    of: Sequence[int],
    rows: Int,
) -> Attribution:
    """The rank as its own clock shows it, with the kernels of its kinds."""
    known = real.first_start != LAST
    names, name = list(real.names), real.name.copy()
    for number, kind in enumerate(kinds):
        if kind.kernel:
            names.append(kind.kernel)
            name[rows[np.array(of) == number]] = len(names) - 1
    ops = replace(
        real,
        start=clock.seen(real.start, middle),
        end=clock.seen(real.end, middle),
        first_start=np.where(
            known, clock.seen(true(np.where(known, real.first_start, 0)), middle), LAST
        ),
        name=name,
        names=names,
    )
    calls, cycles = source.rank.calls, source.cycles
    calls = replace(
        calls, start=clock.seen(true(calls.start), middle), end=clock.seen(true(calls.end), middle)
    )
    moved = {
        field: clock.seen(true(getattr(cycles, field)), middle)
        for field in ("start", "end", "host_start", "host_end")
    }
    tables = replace(source.rank.tables, rank=rank)
    one = replace(source.rank, tables=tables, ops=ops, calls=calls)
    return attribute(one, source.placed, replace(cycles, **moved))


def _named(
    one: Attribution,
    rank: int,
    kinds: Sequence[Kind],
    of: Sequence[int],
    rows: Int,
    *,
    recorded: bool,
    listed: bool,
) -> Any:
    """The rank's tables with groups on its collectives, and in the header of its file."""
    found = []
    groups: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        own = next(group for group in kind.groups if rank in group)
        said = list(kind.recorded_as or own)
        name = str(100 * number + (0 if kind.recorded_as else kind.groups.index(own)))
        groups.append(
            {
                "pg_name": name,
                "pg_desc": kind.group_name,
                "backend_config": "cuda:nccl",
                "pg_size": len(said),
                "ranks": said,
            }
        )
        place = own.index(rank)
        found += [
            {
                "op_id": int(rows[index]),
                "name": kind.names[place % len(kind.names)],
                "group": name,
                "ranks": str(said),
            }
            for index in np.flatnonzero(np.array(of) == number)
        ]
    tables = one.rank.tables
    if recorded:
        table = pa.Table.from_pylist(found, schema=schema.COLLECTIVES)
        tables = replace(tables, collectives=table)
    facts = tables.facts | {"groups": groups if listed else [], "world_size": None}
    return replace(tables, facts=facts)
