"""Puts together what a run gives: its cycle, stages, acceptance and baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specscope.analyzers import acceptance_sources
from specscope.analyzers.baseline import baseline_of
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.shares import StageShare
from specscope.analyzers.throughput import StageCost, Throughput
from specscope.analyzers.unprofiled import Reference
from specscope.traces.run import Run


def throughput_of(
    run: Run,
    reference: Reference,
    inputs: Inputs,
    facts: Mapping[str, Any],
    shares: Sequence[StageShare],
    unprofiled: tuple[float, str] | None,
    median_ns: float | None,
) -> Throughput | None:
    """What the leading cycles give; None where no cycle is known.

    Raises:
        UsageError: the baseline that was given is of another server.
    """
    if unprofiled is None and not median_ns:
        return None
    cycle_ns, source = unprofiled or (median_ns or 0.0, "median cycle of the trace")
    profiled = unprofiled is None
    batch = reference.batch or _whole(facts.get("batch"))
    k = _whole(facts.get("k"))
    found = acceptance_sources.sources(run, reference, inputs, k)
    return Throughput(
        cycle_ns=cycle_ns,
        cycle_source=source,
        profiled=profiled,
        batch=batch,
        k=k,
        acceptance=found[0] if found else None,
        baseline=baseline_of(inputs, run.context, facts, batch, profiled=profiled),
        positions=next((one for one in found if one.by_position), None),
        others=tuple(found[1:]),
        stages=tuple(stage_costs(shares, cycle_ns, None if profiled else median_ns)),
    )


def stage_costs(
    shares: Sequence[StageShare], cycle_ns: float, profiled_ns: float | None
) -> list[StageCost]:
    """Each stage of a cycle of that length; together they are the cycle.

    Of the profiled cycle: its share. Of another length: its work as recorded, and its part of
    what is left for idle, in proportion to the idle recorded. Nothing where the work alone is
    longer. Without idle on record (a log of host times) all is scaled.
    """
    rows = [share for share in shares if share.rank is None and share.part_of is None]
    whole = sum(row.cycle_share.value for row in rows)
    if not rows or whole <= 0:
        return []
    if profiled_ns is None:
        return [
            StageCost(
                row.stage,
                row.cycle_share.value * cycle_ns,
                (row.cycle_share.low * cycle_ns, row.cycle_share.high * cycle_ns),
            )
            for row in rows
        ]
    work = sum(row.work_share for row in rows) * profiled_ns
    idle = sum(row.idle_share for row in rows) * profiled_ns
    if idle <= 0:
        scaled = [row.cycle_share.value / whole * cycle_ns for row in rows]
        return [StageCost(row.stage, ns, (ns, ns)) for row, ns in zip(rows, scaled, strict=True)]
    if work > cycle_ns:
        return []
    kept = (cycle_ns - work) / idle
    costs = []
    for row in rows:
        ns = (row.work_share + row.idle_share * kept) * profiled_ns
        low, high = row.unprofiled or (ns / cycle_ns, ns / cycle_ns)
        costs.append(StageCost(row.stage, ns, (min(low * cycle_ns, ns), max(high * cycle_ns, ns))))
    return costs


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value >= 1 else None
