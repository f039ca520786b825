"""The cycles of one run as series: one value a cycle for every figure that is compared.

A value is the mean over the ranks in the same round, so that the parts of a cycle still sum to
it. Entering are the steady whole cycles of the leading kind and batch size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers import compare_report as kinds
from specscope.analyzers.activities import ACTIVITIES, Rules
from specscope.analyzers.attribution import COLLECTIVES, WHATS
from specscope.analyzers.columns import Bool, Int, Small, codes, ints, which
from specscope.analyzers.links import CALL_KINDS, GRAPH_LAUNCH, LAUNCHING, SYNC
from specscope.analyzers.report import Report
from specscope.analyzers.words import ACCEPT, CAUSES, DECODE, IDLE, STAGES, STATES, VERIFY, WORK

Float = npt.NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Key:
    """What a series is of: kind, stage, what it does, family; empty where it has none."""

    kind: str
    stage: str = ""
    what: str = ""
    family: str = ""


@dataclass
class Kernel:
    """One kernel in one stage: calls and exclusive nanoseconds, over cycles and ranks."""

    family: str
    calls: int = 0
    ns: int = 0
    cycles: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Series:
    """One run. `parts` are sums over all its cycles and ranks, [stage, state, what]."""

    kind: str | None
    batch: int | None
    cycles: int
    left_out: int
    ranks: tuple[int, ...]
    values: dict[Key, Float]
    parts: Int
    kernels: dict[tuple[str, str, str], Kernel]  # by stage, activity, full name

    @property
    def rounds(self) -> int:
        """Cycles times ranks: what sums are divided by."""
        return self.cycles * len(self.ranks)


def series(report: Report, rules: Rules, *, plain_as_verify: bool = False) -> Series:
    """The series of one run; with `plain_as_verify` a plain step's forward stands as verify."""
    lead = next(((row.kind, row.batch) for row in report.cycles if row.leads), None)
    chosen, left_out = _chosen(report, lead)
    count = min((len(rows) for rows in chosen.values()), default=0)
    chosen = {rank: rows[:count] for rank, rows in chosen.items()}
    sums = _sums(report, chosen, count)
    if plain_as_verify:
        sums[:, VERIFY] += sums[:, DECODE]
        sums[:, DECODE] = 0
    stages = list(STAGES)
    stages[ACCEPT] = STAGES[VERIFY]
    if plain_as_verify:
        stages[DECODE] = STAGES[VERIFY]
    kernels: dict[tuple[str, str, str], Kernel] = {}
    values: dict[Key, Float] = {}
    if count:
        values.update(_times(sums / len(chosen)))
        values.update(_waits(report, chosen, count, stages))
    values.update(_counted(report, chosen, count, rules, stages, kernels))
    return Series(
        kind=lead[0] if lead else None,
        batch=lead[1] if lead else None,
        cycles=count,
        left_out=left_out,
        ranks=tuple(chosen),
        values=values,
        parts=sums.sum(axis=0),
        kernels=kernels,
    )


def _chosen(report: Report, lead: tuple[str, int | None] | None) -> tuple[dict[int, Int], int]:
    """Per rank the numbers of its cycles that enter, the same rounds on all; how many do not."""
    table = report.tables["cycles"]
    if lead is None or not table.num_rows:
        return {}, 0
    kind, batch = lead
    of_kind = pc.equal(table["kind"].cast(pa.string()), kind)
    of_batch = pc.is_null(table["batch"]) if batch is None else pc.equal(table["batch"], batch)
    leading = table.filter(pc.and_(of_kind, pc.fill_null(of_batch, False)))
    marked = pc.fill_null(pc.not_equal(leading["mark"].cast(pa.string()), ""), False)
    steady = leading.filter(pc.invert(marked))
    rank, cycle = ints(steady, "rank"), ints(steady, "cycle")
    whole = int(np.bincount(ints(leading, "rank")).max(initial=0))
    chosen = {int(one): cycle[rank == one] for one in np.unique(rank)}
    chosen = _same_rounds(report, chosen) or chosen
    kept = min((len(rows) for rows in chosen.values()), default=0)
    return chosen, max(whole - kept, 0)


def _same_rounds(report: Report, chosen: dict[int, Int]) -> dict[int, Int]:
    """The cycles that the ranks together count; empty where they are not one group."""
    group = report.group
    if group is None or group.measured is None or not group.cycles:
        return {}
    matched = group.measured.matched
    if set(matched.ranks) != set(chosen):
        return {}
    inside = np.flatnonzero((matched.cycle >= 0).all(axis=0))
    if not len(inside):
        return {}
    first = matched.cycle[:, inside[0]]
    cycles = np.array(group.cycles, np.int64)
    return {rank: cycles + int(first[row] - first[0]) for row, rank in enumerate(matched.ranks)}


def _sums(report: Report, chosen: dict[int, Int], count: int) -> Int:
    """Nanoseconds by [cycle, stage, state, what], ranks summed; accept counts as verify."""
    shape = (count, len(STAGES), len(STATES), len(WHATS))
    total = np.zeros(shape, np.int64)
    parts = report.tables["parts"]
    rank, ns = ints(parts, "rank"), ints(parts, "ns")
    stage = which(parts, "stage", STAGES)
    stage = np.where(stage == ACCEPT, VERIFY, stage)
    state = which(parts, "state", STATES)
    what = which(parts, "what", WHATS)
    for number, place in _places(chosen, rank, ints(parts, "cycle")):
        mine = np.flatnonzero((rank == number) & (place >= 0))
        # `unknown` stands once in the table's dictionary, for work and idle alike.
        np.add.at(total, (place[mine], stage[mine], state[mine], what[mine]), ns[mine])
    return total


def _places(chosen: dict[int, Int], rank: Int, cycle: Int) -> Iterator[tuple[int, Int]]:
    """Per rank the place of every row's cycle among the chosen ones, -1: not chosen."""
    for number, rows in chosen.items():
        yield number, _place(rows, np.where(rank == number, cycle, -1))


def _place(rows: Int, cycle: Int) -> Int:
    if not len(rows):
        return np.full(len(cycle), -1, np.int64)
    at = np.minimum(np.searchsorted(rows, cycle), len(rows) - 1)
    return np.where(rows[at] == cycle, at, -1)


def _times(mean: Float) -> dict[Key, Float]:
    """Cycle, stages, activities, idle of stages, idle by cause."""
    found = {Key(kinds.CYCLE): mean.sum(axis=(1, 2, 3))}
    idle = mean[:, :, IDLE]
    if idle.any():
        found[Key(kinds.IDLE)] = idle.sum(axis=(1, 2))
    for code, stage in enumerate(STAGES):
        own = mean[:, code]
        if not own.any():
            continue
        found[Key(kinds.STAGE, stage)] = own.sum(axis=(1, 2))
        for what, word in enumerate(WHATS):
            if own[:, WORK, what].any():
                found[Key(kinds.ACTIVITY, stage, word)] = own[:, WORK, what]
        if own[:, IDLE].any():
            found[Key(kinds.STAGE_IDLE, stage, "idle")] = own[:, IDLE].sum(axis=1)
    for cause, word in enumerate(CAUSES):
        ns = idle[:, :, len(ACTIVITIES) + cause].sum(axis=1)
        if ns.any():
            found[Key(kinds.CAUSE, "", word)] = ns
    return found


def _waits(
    report: Report, chosen: dict[int, Int], count: int, stages: list[str]
) -> dict[Key, Float]:
    """Waiting and transferring of the collectives of all ranks, by stage."""
    group = report.group
    if group is None or group.measured is None or not _same_rounds(report, chosen):
        return {}
    matched, times = group.measured.matched, group.measured.times
    place = _place(chosen[matched.ranks[0]], matched.cycle[0])
    found: dict[Key, Float] = {}
    for word, ns in (("wait", times.wait), ("transfer", times.transfer)):
        of_all = ns.mean(axis=0)
        for code in np.unique(matched.stage[place >= 0]).tolist():
            mine = np.flatnonzero((place >= 0) & (matched.stage == code))
            own = np.bincount(place[mine], weights=of_all[mine], minlength=count)
            key = Key(kinds.WAIT, stages[code], word)
            found[key] = found.get(key, np.zeros(count)) + own
    return found


def _counted(
    report: Report,
    chosen: dict[int, Int],
    count: int,
    rules: Rules,
    stages: list[str],
    kernels: dict[tuple[str, str, str], Kernel],
) -> dict[Key, Float]:
    """Counts of a cycle and times of kernel families; fills `kernels`."""
    totals: dict[Key, Float] = {}
    covered, work = np.zeros(count), np.zeros(count)
    for rank in report.run.ranks:
        rows = chosen.get(rank.rank, np.empty(0, np.int64))
        one = _RankOps(report, rank.rank, rank.ops, rank.calls, rows, rules, stages)
        for key, values in one.counts().items():
            totals[key] = totals.get(key, np.zeros(count)) + values
        for key, values in one.families(kernels).items():
            totals[key] = totals.get(key, np.zeros(count)) + values
        graph, every = one.graph_work()
        covered, work = covered + graph, work + every
    if not count:
        return {}
    found = {key: values / max(len(chosen), 1) for key, values in totals.items()}
    if work.any():
        found[Key(kinds.COUNT, "", "graph_coverage")] = covered / np.maximum(work, 1.0)
    return found


class _RankOps:
    """The ops and calls of one rank, with the place of each among the chosen cycles."""

    def __init__(
        self,
        report: Report,
        rank: int,
        ops: pa.Table,
        calls: pa.Table,
        rows: Int,
        rules: Rules,
        stages: list[str],
    ) -> None:
        self.count = len(rows)
        self.calls_kind = which(calls, "kind", CALL_KINDS)
        cycles = _of_rank(report.tables["cycles"], rank)
        self.call_place = _inside(
            rows, cycles, "host_start_ns", "host_end_ns", ints(calls, "start_ns")
        )
        placed = _of_rank(report.tables["ops"], rank)
        self.name, self.names = codes(ops, "name")
        self.is_kernel = np.asarray(pc.equal(ops["kind"].cast(pa.string()), "kernel"))
        self.stage = _words(which(placed, "stage", STAGES))
        self.activity = which(placed, "activity", ACTIVITIES)
        self.call = ints(placed, "call_id", -1)
        self.op_place = _inside(rows, cycles, "start_ns", "end_ns", ints(ops, "start_ns"))
        self.family = rules.families(self.names) if self.names else []
        self.stages = stages
        self.rows = rows
        segments = _of_rank(report.tables["segments"], rank)
        op = ints(segments, "op_id", -1)
        work = (which(segments, "state", STATES) == WORK) & (op >= 0)
        self.work_op = op[work]
        self.work_ns = (ints(segments, "end_ns") - ints(segments, "start_ns"))[work]
        self.work_place = _place(rows, ints(segments, "cycle")[work])

    def counts(self) -> dict[Key, Float]:
        """Launches, graph launches, synchronising calls, ops, collectives; by cycle."""
        kind, at = self.calls_kind, self.call_place
        found = {
            "launches": self._per_cycle(at[np.isin(kind, LAUNCHING)]),
            "graph_launches": self._per_cycle(at[kind == GRAPH_LAUNCH]),
            "syncs": self._per_cycle(at[kind == SYNC]),
            "ops": self._per_cycle(self.op_place),
            "collectives": self._per_cycle(self.op_place[np.isin(self.activity, COLLECTIVES)]),
        }
        return {Key(kinds.COUNT, "", word): values for word, values in found.items()}

    def graph_work(self) -> tuple[Float, Float]:
        """Work that graph launches put on the GPU, and all work, by cycle."""
        mine = self.work_place >= 0
        call = self.call[self.work_op]
        graph = (call >= 0) & (self.calls_kind[np.maximum(call, 0)] == GRAPH_LAUNCH)
        if not len(self.calls_kind):
            graph = np.zeros(len(call), dtype=bool)
        return self._ns(mine & graph), self._ns(mine)

    def families(self, kernels: dict[tuple[str, str, str], Kernel]) -> dict[Key, Float]:
        """Exclusive time of each kernel family by stage and activity; adds to `kernels`."""
        self._count_kernels(kernels)
        rows = np.flatnonzero((self.work_place >= 0) & self.is_kernel[self.work_op])
        kinds_of, ns = self._by_kernel(
            self.work_op[rows], self.work_place[rows], self.work_ns[rows]
        )
        found: dict[Key, Float] = {}
        for (stage, activity, name), values in zip(kinds_of, ns, strict=True):
            where, what = self.stages[stage], ACTIVITIES[activity]
            key = Key(kinds.KERNEL, where, what, self.family[name])
            found[key] = found.get(key, np.zeros(self.count)) + values
            kernels[where, what, self.names[name]].ns += int(values.sum())
        return found

    def _count_kernels(self, kernels: dict[tuple[str, str, str], Kernel]) -> None:
        """Calls of each kernel that works in the chosen cycles; in the capture without any."""
        if self.count:
            worked = np.zeros(len(self.name), dtype=bool)
            worked[self.work_op[self.work_place >= 0]] = True
            seen = np.flatnonzero(self.is_kernel & (worked | (self.op_place >= 0)))
        else:
            seen = np.flatnonzero(self.is_kernel)
        inside = np.maximum(self.op_place[seen], 0)
        weight = (self.op_place[seen] >= 0) | (self.count == 0)
        kinds_of, calls = self._by_kernel(seen, inside, weight.astype(np.int64))
        for (stage, activity, name), own in zip(kinds_of, calls, strict=True):
            key = self.stages[stage], ACTIVITIES[activity], self.names[name]
            kernel = kernels.setdefault(key, Kernel(self.family[name]))
            kernel.calls += int(own.sum())
            kernel.cycles.update(np.flatnonzero(own).tolist())

    def _by_kernel(
        self, op: Int, place: Int, weight: Int
    ) -> tuple[list[tuple[int, int, int]], Float]:
        """Sums of `weight` by (stage, activity, name) of the ops and by place."""
        shape = (len(STAGES), len(ACTIVITIES), max(len(self.names), 1))
        code = np.ravel_multi_index((self.stage[op], self.activity[op], self.name[op]), shape)
        distinct, at = np.unique(code, return_inverse=True)
        width = max(self.count, 1)
        cells = np.bincount(at * width + place, weights=weight, minlength=len(distinct) * width)
        sums = cells.astype(np.float64).reshape(len(distinct), width)
        stage, activity, name = np.unravel_index(distinct, shape)
        return list(zip(stage.tolist(), activity.tolist(), name.tolist(), strict=True)), sums

    def _per_cycle(self, place: Int) -> Float:
        counts = np.bincount(place[place >= 0], minlength=self.count)
        return counts.astype(np.float64)

    def _ns(self, rows: Bool) -> Float:
        return np.bincount(
            self.work_place[rows], weights=self.work_ns[rows], minlength=self.count
        ).astype(np.float64)


def _words(stage: Small) -> Small:
    """Stages; what has none is unplaced."""
    return np.where(stage < 0, len(STAGES) - 1, stage)


def _of_rank(table: pa.Table, rank: int) -> pa.Table:
    return table.filter(pc.equal(table["rank"], rank))


def _inside(rows: Int, cycles: pa.Table, start: str, end: str, at: Int) -> Int:
    """Place of the chosen cycle that each moment lies in; -1: in none."""
    if not len(rows) or not cycles.num_rows:
        return np.full(len(at), -1, np.int64)
    own = np.searchsorted(ints(cycles, "cycle"), rows)
    begin, stop = ints(cycles, start)[own], ints(cycles, end)[own]
    place = np.searchsorted(begin, at, "right") - 1
    safe = np.maximum(place, 0)
    return np.where((place >= 0) & (at < stop[safe]), place, -1)
