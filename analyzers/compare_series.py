"""The cycles of one run as series: one value a cycle for every figure that is compared.

A value is the mean over the ranks in the same round, so that the parts of a cycle still sum to
it. Entering are the steady whole cycles of the leading kind and batch size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers import compare_report as kinds
from specscope.analyzers.activities import ACTIVITIES, Rules
from specscope.analyzers.attribution import WHATS
from specscope.analyzers.columns import Int, ints, which
from specscope.analyzers.compare_ops import Float, Kernel, Key, RankOps, place_of
from specscope.analyzers.report import Report
from specscope.analyzers.words import ACCEPT, CAUSES, DECODE, IDLE, STAGES, STATES, VERIFY, WORK


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
        yield number, place_of(rows, np.where(rank == number, cycle, -1))


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
    place = place_of(chosen[matched.ranks[0]], matched.cycle[0])
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
        one = RankOps(report, rank.rank, rank.ops, rank.calls, rows, rules, stages)
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
