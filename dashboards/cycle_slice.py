"""One cycle of one rank out of the tables: its ops, its idle, and the calls behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.report import Report
from specscope.traces.errors import EvidenceError, UsageError


@dataclass(frozen=True)
class Op:
    """One op; times are relative to the start of the cycle. `delay_ns`: since its launch began."""

    op_id: int
    name: str
    start_ns: int
    ns: int
    delay_ns: int | None
    stage: str
    activity: str
    device: int
    stream: int
    owns_time: bool  # no: other ops hide it all
    carried: bool  # it began in the cycle before


@dataclass(frozen=True)
class Idle:
    """A stretch without any op, and why; `stage` is that of the op that ends it."""

    start_ns: int
    ns: int
    stage: str
    cause: str


@dataclass(frozen=True)
class Call:
    """A call on the host: one that launched an op of the cycle, or a blocking one inside it."""

    name: str
    kind: str
    thread: int
    start_ns: int
    ns: int
    stage: str | None  # of what it launched


@dataclass(frozen=True)
class CycleSlice:
    """One cycle: its row in the `cycles` table and what happened in it, in order."""

    row: Mapping[str, Any]
    ops: tuple[Op, ...]
    idle: tuple[Idle, ...]
    calls: tuple[Call, ...]
    host: tuple[Idle, ...]  # a run on the CPU: its stretches, `cause` is what was done

    @property
    def rank(self) -> int:
        """The rank."""
        return int(self.row["rank"])

    @property
    def number(self) -> int:
        """The number of the cycle on that rank."""
        return int(self.row["cycle"])

    @property
    def ns(self) -> int:
        """Its length."""
        return int(self.row["end_ns"] - self.row["start_ns"])


def ranks_with_cycles(report: Report) -> list[int]:
    """The ranks that have whole cycles."""
    table = report.tables["cycles"]
    if "cycle" not in table.column_names:
        return []
    return sorted(table["rank"].unique().to_pylist())


def cycle_row(report: Report, rank: int, number: int) -> dict[str, Any]:
    """The row of that cycle in the `cycles` table.

    Raises:
        EvidenceError: the trace has no whole cycle.
        UsageError: the rank has none of that number.
    """
    if rank not in ranks_with_cycles(report):
        raise EvidenceError(f"--cycle {number}: no whole cycle in this trace")
    cycles = _of_rank(report.tables["cycles"], rank)
    found = cycles.filter(pc.equal(cycles["cycle"], number)).to_pylist()
    if not found:
        raise UsageError(f"--cycle {number}: rank {rank} has the cycles 0 to {cycles.num_rows - 1}")
    return dict(found[0])


def middle_cycle(report: Report, rank: int) -> int | None:
    """The number of the cycle that comes closest to the median of those that lead."""
    leading = next((row for row in report.cycles if row.leads and row.rank == rank), None)
    if leading is None:
        return None
    rows = [
        row
        for row in _of_rank(report.tables["cycles"], rank).to_pylist()
        if row["kind"] == leading.kind and row["batch"] == leading.batch
    ]
    steady = [row for row in rows if not row["mark"]] or rows
    closest = min(steady, key=lambda row: abs(row["end_ns"] - row["start_ns"] - leading.median_ns))
    return int(closest["cycle"])


def cycle_slice(report: Report, rank: int, number: int) -> CycleSlice:
    """Everything in that cycle. Raises as `cycle_row`."""
    row = cycle_row(report, rank, number)
    start, end = int(row["start_ns"]), int(row["end_ns"])
    segments = _of_rank(report.tables["segments"], rank)
    segments = segments.filter(pc.equal(segments["cycle"], number))
    working = pc.equal(segments["state"].cast(pa.string()), "work")
    idle = _stretches(segments.filter(pc.invert(working)), start)
    if report.on_host:
        return CycleSlice(row, (), idle, (), _stretches(segments.filter(working), start))
    owners = set(segments.filter(working)["op_id"].to_pylist())
    ops = _of_rank(report.tables["ops"], rank)
    ops = ops.filter(
        pc.and_(pc.less(ops["start_ns"], end), pc.greater(ops["end_ns"], start))
    ).sort_by([("start_ns", "ascending"), ("op_id", "ascending")])
    calls = _of_rank(report.tables["calls"], rank)
    launched = ops.to_pylist()
    call_rows = _call_rows(calls, {op["call_id"] for op in launched} - {None})
    return CycleSlice(
        row,
        tuple(_op(op, start, call_rows, owners) for op in launched),
        idle,
        tuple(_calls(calls, launched, call_rows, start, end)),
        (),
    )


def _of_rank(table: pa.Table, rank: int) -> pa.Table:
    return table.filter(pc.equal(table["rank"], rank))


def _stretches(segments: pa.Table, start: int) -> tuple[Idle, ...]:
    return tuple(
        Idle(
            row["start_ns"] - start,
            row["end_ns"] - row["start_ns"],
            row["stage"],
            row["what"],
        )
        for row in segments.select(["start_ns", "end_ns", "stage", "what"]).to_pylist()
    )


def _call_rows(calls: pa.Table, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
    ids = pa.array(sorted(wanted), pa.int64())
    rows = calls.filter(pc.is_in(calls["call_id"], value_set=ids)).to_pylist()
    return {row["call_id"]: row for row in rows}


def _op(row: Mapping[str, Any], start: int, calls: Mapping[int, Any], owners: set[int]) -> Op:
    call = calls.get(row["call_id"])
    return Op(
        row["op_id"],
        row["name"] or "",
        row["start_ns"] - start,
        row["end_ns"] - row["start_ns"],
        None if call is None else row["start_ns"] - call["start_ns"],
        row["stage"] or "unplaced",
        row["activity"] or "other",
        row["device"],
        row["stream"],
        row["op_id"] in owners,
        row["start_ns"] < start,
    )


def _calls(
    calls: pa.Table,
    ops: Iterable[Mapping[str, Any]],
    launches: Mapping[int, Mapping[str, Any]],
    start: int,
    end: int,
) -> Iterable[Call]:
    """The launches of the ops, and what blocked their threads meanwhile."""
    stage_of = {op["call_id"]: op["stage"] for op in ops}
    threads = pa.array(sorted({row["tid"] for row in launches.values()}), pa.int64())
    inside = pc.and_(pc.less(calls["start_ns"], end), pc.greater(calls["end_ns"], start))
    sync = pc.equal(calls["kind"].cast(pa.string()), "sync")
    same = pc.is_in(calls["tid"], value_set=threads)
    blocking = calls.filter(pc.and_(pc.and_(inside, sync), same)).to_pylist()
    rows = {**launches, **{row["call_id"]: row for row in blocking}}
    for row in sorted(rows.values(), key=lambda row: (row["start_ns"], row["call_id"])):
        yield Call(
            row["name"] or "",
            row["kind"],
            row["tid"],
            row["start_ns"] - start,
            row["end_ns"] - row["start_ns"],
            stage_of.get(row["call_id"]),
        )


def chosen_cycles(report: Report, number: int | None) -> list[CycleSlice]:
    """The same cycle on every rank: `number` on the first, else the one closest to the median.

    On the other ranks it is the cycle that shares the most time with it. Raises as `cycle_row`.
    """
    ranks = ranks_with_cycles(report)
    if not ranks:
        return []
    first = ranks[0]
    chosen = middle_cycle(report, first) if number is None else number
    if chosen is None:
        return []
    row = cycle_row(report, first, chosen)
    base = clock_bases(report)
    start, end = row["start_ns"] + base.get(first, 0), row["end_ns"] + base.get(first, 0)
    slices = [cycle_slice(report, first, chosen)]
    for rank in ranks[1:]:
        shift = base.get(rank, 0)
        rows = _of_rank(report.tables["cycles"], rank).to_pylist()
        overlaps = [
            min(end, other["end_ns"] + shift) - max(start, other["start_ns"] + shift)
            for other in rows
        ]
        best = max(range(len(rows)), key=overlaps.__getitem__)
        if overlaps[best] > 0:
            slices.append(cycle_slice(report, rank, rows[best]["cycle"]))
    return slices


def parts_of(report: Report, piece: CycleSlice) -> list[dict[str, Any]]:
    """The rows of the `parts` table for that cycle; their sum is its length."""
    parts = _of_rank(report.tables["parts"], piece.rank)
    return list(parts.filter(pc.equal(parts["cycle"], piece.number)).to_pylist())


def clock_bases(report: Report) -> dict[int, int]:
    """The base of each rank's clock; 0 where none is on record."""
    return {one.rank: int(one.facts.get("clock_base_ns") or 0) for one in report.run.ranks}
