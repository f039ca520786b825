"""Ops and calls of one rank, by cycle: counts, kernel families, what graphs launched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers import compare_report as kinds
from specscope.analyzers.activities import ACTIVITIES, Rules
from specscope.analyzers.attribution import COLLECTIVES
from specscope.analyzers.columns import Bool, Int, Small, codes, ints, which
from specscope.analyzers.links import CALL_KINDS, GRAPH_LAUNCH, LAUNCHING, SYNC
from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES, STATES, WORK

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


class RankOps:
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
        self.work_place = place_of(rows, ints(segments, "cycle")[work])

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


def place_of(rows: Int, cycle: Int) -> Int:
    """Place of every cycle among the chosen ones, -1: not chosen."""
    if not len(rows):
        return np.full(len(cycle), -1, np.int64)
    at = np.minimum(np.searchsorted(rows, cycle), len(rows) - 1)
    return np.where(rows[at] == cycle, at, -1)
