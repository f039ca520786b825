"""Puts together what a run gives: its cycle, stages, acceptance and baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from specscope.analyzers import acceptance_sources
from specscope.analyzers.accept_positions import sign_of
from specscope.analyzers.acceptance_checks import checked
from specscope.analyzers.baseline import baseline_of, impossible
from specscope.analyzers.corrected_cycle import CorrectedCycle, simple
from specscope.analyzers.device_check import check_of
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.other_widths import points_from
from specscope.analyzers.shares import StageShare
from specscope.analyzers.throughput import StageCost, Throughput
from specscope.analyzers.throughput_growth import growth_of
from specscope.analyzers.token_value import Step, TokenValue, values_of
from specscope.analyzers.unprofiled import Reference
from specscope.analyzers.verify_cost import Line, Point, line_through
from specscope.analyzers.verify_points import points_of
from specscope.traces.run import Run


def throughput_of(
    run: Run,
    reference: Reference,
    inputs: Inputs,
    facts: Mapping[str, Any],
    shares: Sequence[StageShare],
    unprofiled: tuple[float, str] | None,
    median_ns: float | None,
    corrected: CorrectedCycle | None,
    verify_by_batch: Mapping[int, float],
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
    found, notes = checked(acceptance_sources.sources(run, reference, inputs, k), k)
    base = baseline_of(inputs, run.context, facts, batch, profiled=profiled)
    if refused := impossible(cycle_ns, profiled, base):
        notes, base = [*notes, *refused], None
    positions = next((one for one in found if one.by_position), None)
    plain = Throughput(
        cycle_ns=cycle_ns,
        cycle_source=source,
        profiled=profiled,
        batch=batch,
        k=k,
        acceptance=found[0] if found else None,
        baseline=base,
        positions=positions,
        others=tuple(found[1:]),
        stages=tuple(stage_costs(shares, cycle_ns, None if profiled else median_ns, corrected)),
        sign=sign_of(positions) if positions else None,
        device=check_of(inputs.device, shares) if inputs.device else None,
        log_rate=next((r for one in inputs.served for r in one.rates if r.batch == batch), None),
        notes=(*notes, *acceptance_sources.without_k(inputs, k)),
    )
    also = points_from(inputs.others, facts, profiled=profiled)
    return _with_costs(plain, run.context, facts.get("engine"), verify_by_batch, also)


def _with_costs(
    found: Throughput,
    context: Mapping[str, Any],
    engine: object,
    by_batch: Mapping[int, float],
    also: Sequence[Point],
) -> Throughput:
    """The same with the costs of tokens: line of the verify, worth of a draft token, growth."""
    chain = context.get("topk") in (None, 1)
    width = _whole(context.get("draft_tokens")) or (found.k + 1 if found.k and chain else None)
    verify_ns = found.stage_ns("verify")
    points = [*points_of(by_batch, found.batch, width, verify_ns, found.baseline), *also]
    line = line_through(points)
    step = _step(found, engine, line) if chain else None
    values: tuple[TokenValue, ...] = ()
    if step is not None and found.positions is not None:
        plain_ns = found.baseline.step_ns if found.baseline else None
        values = values_of(found.positions.by_position, found.cycle_ns, step, plain_ns)
    length = found.acceptance.accept_length if found.acceptance else None
    growth = (
        growth_of(line, width, found.cycle_ns, verify_ns, length)
        if line is not None and width is not None
        else ()
    )
    return replace(
        found,
        verify_line=line,
        step=step,
        token_values=values,
        growth=growth,
        missing=tuple(_missing(found)),
    )


def _step(found: Throughput, engine: object, line: Line | None) -> Step | None:
    """One more draft token: a forward of the draft, and one more token of each sequence to verify.

    SGLang makes the first draft token in draft-extend: its draft stage holds k - 1 forwards,
    that of other engines k.
    """
    draft_ns = found.stage_ns("draft")
    if found.k is None or draft_ns <= 0:
        return None
    forwards = found.k - 1 if engine == "sglang" else found.k
    if forwards < 1:
        return None
    if line is None or not found.batch:
        return Step(
            draft_ns / forwards,
            (0.0, 0.0),
            "what it costs to verify is not measured",
        )
    low, high = line.per_token_range_ns
    basis = (
        "a verify against a plain step: at most that"
        if line.with_plain
        else f"verify with {len(line.points)} numbers of tokens"
    )
    return Step(draft_ns / forwards, (low * found.batch, high * found.batch), basis)


def _missing(found: Throughput) -> Iterator[str]:
    """What is not known, each with what would tell it."""
    if found.acceptance is None:
        yield "accept length: give --accept-length, --server-log, --metrics or --responses"
    if found.baseline is None:
        yield "plain step: give --baseline or --baseline-tokens-per-second"
    if found.batch is None:
        yield "batch: give --batch"
    if found.profiled:
        yield "cycle without a profiler: give --cycle-ms or --tokens-per-second"


def stage_costs(
    shares: Sequence[StageShare],
    cycle_ns: float,
    profiled_ns: float | None,
    corrected: CorrectedCycle | None = None,
) -> list[StageCost]:
    """Each stage of a cycle of that length; together they are the cycle.

    Of the profiled cycle (`profiled_ns` None): its share. Of another length: as `corrected` has
    it, else by the simple rule. The range is what the stage can be at all.
    """
    rows = {row.stage: row for row in shares if row.rank is None and row.part_of is None}
    if profiled_ns is None:
        if sum(row.cycle_share.value for row in rows.values()) <= 0:
            return []
        return [
            StageCost(
                row.stage,
                row.cycle_share.value * cycle_ns,
                (row.cycle_share.low * cycle_ns, row.cycle_share.high * cycle_ns),
            )
            for row in rows.values()
        ]
    costs = []
    for part in (corrected or simple(shares, cycle_ns, profiled_ns)).stages:
        row = rows.get(part.stage)
        known = row.unprofiled if row is not None else None
        low, high = known or (part.ns / cycle_ns, part.ns / cycle_ns)
        ends = (min(low * cycle_ns, part.ns), max(high * cycle_ns, part.ns))
        costs.append(StageCost(part.stage, part.ns, ends))
    return costs


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value >= 1 else None
