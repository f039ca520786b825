"""The collectives of one rank, with everything by which they may be matched to those of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import CODE_OF_ACTIVITY
from specscope.analyzers.attribution import COLLECTIVES
from specscope.analyzers.columns import ABSENT, Bool, Int, ints
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.rank import Rank
from specscope.analyzers.stages import Placed
from specscope.analyzers.words import UNPLACED

# Kernels of NCCL that run several kinds, and the kind by the beginning of the recorded name.
_SERVING_SEVERAL = ("nccl.sendrecv", "nccl.other")
_KINDS_OF_NAMES = (
    ("alltoall", "alltoall"),
    ("allreduce", "allreduce"),
    ("allgather", "allgather"),
    ("reducescatter", "reducescatter"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("send", "sendrecv"),
    ("recv", "sendrecv"),
)

# Of one rank: work for a collective that meets no other rank.
_ALONE = ("ep.layout",)

FUSED = CODE_OF_ACTIVITY["fused_collective"]


@dataclass(frozen=True)
class Member:
    """One rank as the matching sees it; no cycles and stages where the trace shows none."""

    rank: Rank
    placed: Placed | None
    cycles: Cycles | None

    @property
    def number(self) -> int:
        """The rank's number."""
        return self.rank.tables.rank

    @property
    def base(self) -> int:
        """Base of the rank's clock, in nanoseconds since 1970."""
        return int(self.rank.tables.facts.get("clock_base_ns") or 0)


@dataclass(frozen=True)
class Collectives:
    """The collectives of one rank in order of their start."""

    op: Int
    stage: Int
    cycle: Int  # whole cycles from 0, then the open one; -1 before the first
    launch: Int  # number of its graph launch within cycle and stage; -1: launched alone
    kind: list[str]  # family of the kernel, such as nccl.allreduce
    fused: Bool
    name: list[str | None]  # as torch.distributed calls it, such as send
    group: list[str | None]
    ranks: list[str | None]  # of the group, as recorded
    sequence: Int  # ABSENT where not recorded
    bytes: Int


def collectives_of(one: Member, families: Callable[[Sequence[str]], list[str]]) -> Collectives:
    """The collectives of one rank with everything by which they may be matched."""
    ops = one.rank.ops
    rows = np.flatnonzero(np.isin(one.rank.activity, COLLECTIVES))
    rows = rows[np.argsort(ops.start[rows], kind="stable")]
    names = {code: ops.names[code] for code in np.unique(ops.name[rows]).tolist()}
    family = dict(zip(names, families(list(names.values())), strict=True)) if names else {}
    rows = np.array([r for r in rows.tolist() if family[int(ops.name[r])] not in _ALONE], np.int64)
    stage = np.full(len(rows), UNPLACED, np.int64)
    cycle = np.full(len(rows), -1, np.int64)
    if one.placed is not None:
        stage = one.placed.stage_of_op[rows].astype(np.int64)
    if one.cycles is not None and len(one.cycles):
        cycle = np.searchsorted(one.cycles.borders, ops.start[rows], "right") - 1
    name, group, ranks, sequence, size = _recorded(one.rank, rows)
    kind = [family[code] for code in ops.name[rows].tolist()]
    return Collectives(
        op=rows,
        stage=stage,
        cycle=cycle,
        launch=_graph_launches(one.rank, rows, stage, cycle),
        kind=[_told(*said) for said in zip(kind, name, strict=True)],
        fused=one.rank.activity[rows] == FUSED,
        name=name,
        group=group,
        ranks=ranks,
        sequence=sequence,
        bytes=size,
    )


def _graph_launches(rank: Rank, rows: Int, stage: Int, cycle: Int) -> Int:
    """Number of each op's graph launch among those of its cycle and stage, -1 when eager."""
    call = rank.ops.call[rows]
    graph = (call >= 0) & (
        rank.calls.kind[np.maximum(call, 0)] == GRAPH_LAUNCH if len(rank.calls.kind) else False
    )
    launch = np.full(len(rows), -1, np.int64)
    at = np.flatnonzero(graph)
    # Launches of one stage and cycle side by side, each with its ops in order of time.
    order = at[np.lexsort((call[at], stage[at], cycle[at]))]
    begins = _changes(cycle[order], stage[order], call[order])
    first = order[begins]
    by_time = np.lexsort((first, stage[first], cycle[first]))
    first = first[by_time]
    place = np.arange(len(first))
    block = np.where(_changes(cycle[first], stage[first]), place, 0)
    number = np.empty(len(first), np.int64)
    number[by_time] = place - np.maximum.accumulate(block)
    launch[order] = number[np.cumsum(begins) - 1]
    return launch


def _changes(*columns: Int) -> Bool:
    """Where any of the columns has another value than in the row before; so the first row."""
    changed = np.ones(len(columns[0]), np.bool_)
    changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changed


def _told(family: str, name: str | None) -> str:
    """The family, by the recorded name where NCCL's kernel serves several kinds."""
    if name is None or family not in _SERVING_SEVERAL:
        return family
    word = name.replace("_", "").lower()
    kind = next((kind for start, kind in _KINDS_OF_NAMES if word.startswith(start)), None)
    return f"nccl.{kind}" if kind else family


_Texts = list[str | None]


def _recorded(rank: Rank, rows: Int) -> tuple[_Texts, _Texts, _Texts, Int, Int]:
    """Name, group, its ranks, sequence and bytes of each op from the `collectives` table.

    A row stands for an op, or for the operator range that holds the op's launch call.
    """
    name: _Texts = [None] * len(rows)
    group: _Texts = [None] * len(rows)
    ranks: _Texts = [None] * len(rows)
    sequence = np.full(len(rows), ABSENT, np.int64)
    size = np.full(len(rows), ABSENT, np.int64)
    table = rank.tables.collectives
    if not table.num_rows or not len(rows):
        return name, group, ranks, sequence, size
    place = {int(op): index for index, op in enumerate(rows)}
    names, groups, of_groups = (table.column(n).to_pylist() for n in ("name", "group", "ranks"))
    sequences, sizes = ints(table, "sequence"), ints(table, "bytes")
    by_op, by_range = ints(table, "op_id"), ints(table, "range_id")
    held = _ops_of_ranges(rank, rows, by_range)
    # What stands on the op goes before what stands on the host.
    for row in sorted(range(table.num_rows), key=lambda row: by_op[row] != ABSENT):
        at = place.get(int(by_op[row])) if by_op[row] != ABSENT else held.get(int(by_range[row]))
        if at is None:
            continue
        name[at] = names[row] or name[at]
        group[at] = groups[row] if groups[row] is not None else group[at]
        ranks[at] = of_groups[row] if of_groups[row] is not None else ranks[at]
        sequence[at] = sequences[row] if sequences[row] != ABSENT else sequence[at]
        size[at] = sizes[row] if sizes[row] != ABSENT else size[at]
    return name, group, ranks, sequence, size


def _ops_of_ranges(rank: Rank, rows: Int, ranges: Int) -> dict[int, int]:
    """Index in `rows` of the one collective launched inside each range."""
    wanted = ranges[ranges != ABSENT]
    call = rank.ops.call[rows]
    linked = np.flatnonzero(call >= 0)
    if not len(wanted) or not len(linked):
        return {}
    linked = linked[np.argsort(rank.calls.start[call[linked]], kind="stable")]
    at = rank.calls.start[call[linked]]
    thread = rank.calls.thread[call[linked]]
    found: dict[int, int] = {}
    for number in wanted.tolist():
        low, high = np.searchsorted(at, (rank.ranges.start[number], rank.ranges.end[number]))
        inside = linked[low:high][thread[low:high] == rank.ranges.thread[number]]
        if len(inside) == 1:
            found[number] = int(inside[0])
    return found
