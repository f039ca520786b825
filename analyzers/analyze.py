"""From a run to its report: prepare, place, cut, attribute, count, decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from specscope.analyzers import (
    activities,
    attribution,
    causes,
    coverage,
    cycles,
    evidence_log,
    flag_steps,
    recapture,
    refusals,
    rows,
    signs,
    stage_parts,
    stages,
    verdict,
    warnings,
)
from specscope.analyzers import rank as ranks
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool
from specscope.analyzers.corrected_cycle import corrected_cycle
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.report import Report, Unprofiled
from specscope.analyzers.report_tables import Tables
from specscope.analyzers.shares import Counted, counted
from specscope.analyzers.stage_parts import StageIdle
from specscope.analyzers.statistics import median
from specscope.analyzers.throughput_of import throughput_of
from specscope.analyzers.unprofiled import Reference, cycle_ns
from specscope.analyzers.verify_points import verify_by_batch
from specscope.analyzers.words import EVIDENCE, percent
from specscope.traces.run import Note, RankTables, Run

if TYPE_CHECKING:
    from specscope.analyzers.graph_rows import Graphs
    from specscope.analyzers.group_rows import Group
    from specscope.analyzers.message_sizes import Models
    from specscope.traces.graph_capture import CaptureTrace


@dataclass(frozen=True)
class Options:
    """How to analyse. `evidence` narrows the kinds of evidence that may be used.

    `captures` are graph-capture traces: they show the inside of graph launches. `models` are the
    widths of target and draft: they give the sizes of messages that no trace records. `inputs`
    were measured beside the traces.
    """

    reference: Reference = field(default_factory=Reference)
    rules: activities.Rules | None = None
    evidence: tuple[str, ...] = EVIDENCE
    captures: tuple[CaptureTrace, ...] = ()
    models: Models | None = None
    inputs: Inputs = field(default_factory=Inputs)


def analyze(run: Run, options: Options | None = None) -> Report:
    """The report of one run. Nothing is refused by an error: a verdict is, in words."""
    options = options or Options()
    rules = options.rules or activities.load_rules()
    prepared = _each(lambda tables: ranks.prepare(tables, rules), run.ranks)
    clock = evidence_log.clock_of(run)
    attributed = _attributed(prepared, options, clock or evidence_log.HOST)
    report = _report(run, options, prepared, attributed, clock)
    if report.speculates:
        found = causes.judge(signs.of(report))
        engine, version = report.facts["engine"], report.facts["engine_version"]
        told = flag_steps.told(run.context)
        report = replace(report, causes=causes.with_mends(found, engine, version, told))
    if clock != evidence_log.CUDA_EVENTS:
        return report
    by_host = _attributed(prepared, options, evidence_log.HOST)
    return replace(report, warnings=(*report.warnings, *warnings.log_host_times(by_host)))


def _attributed(
    prepared: Sequence[ranks.Rank], options: Options, log_clock: str
) -> list[Attribution]:
    placed = _each(lambda one: stages.place(one, options.evidence, log_clock), prepared)
    usable = [(one, where) for one, where in zip(prepared, placed, strict=True) if where]
    cut = [cycles.cut(one, where) for one, where in usable]
    cut = cycles.marked(cut, [_base(one.tables) for one, _ in usable])
    return _each(
        lambda row: attribution.attribute(row[0][0], row[0][1], row[1]),
        list(zip(usable, cut, strict=True)),
    )


def _each(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """`work` on every item, in threads: the heavy parts of numpy leave the interpreter free."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(work, items))


def _base(tables: RankTables) -> int:
    return int(tables.facts.get("clock_base_ns") or 0)


def _report(
    run: Run,
    options: Options,
    prepared: list[ranks.Rank],
    attributed: list[Attribution],
    log_clock: str | None,
) -> Report:
    lead = cycles.leading([a.cycles for a in attributed])
    kind, batch = lead if lead else (None, None)
    leading = [_leading_cycles(a, lead) for a in attributed]
    speculates = any(a.placed.placement.speculates for a in attributed)
    on_host = bool(attributed) and all(a.on_host for a in attributed)
    covered = tuple(coverage.measure(a, r) for a, r in zip(attributed, leading, strict=True))
    # Where work is not on record a cycle seems idle while it runs: the length of the cycles means
    # something, the parts of it do not.
    blind = any(one.blind for one in covered)
    counts = [counted(a, *lead) for a in attributed] if lead and not blind else []
    reference = cycle_ns(_with_accept(options), run.context, batch)
    median_ns = (
        # A rank that ran at another batch has no such cycle.
        float(np.median([median(c.ns.astype(np.float64)) for c in counts if len(c.ns)]))
        if any(len(c.ns) for c in counts)
        else 0.0
    )
    unprofiled = (
        Unprofiled(reference[0], reference[1], median_ns / reference[0])
        if reference and median_ns and kind == "speculation"
        else None
    )
    shares = rows.share_rows(attributed, counts, unprofiled, on_host)
    idle, idle_share = rows.idle_rows(attributed, counts)
    other, notes = warnings.other_activity(attributed, leading)
    uncertain = _uncertain(attributed, leading)
    apart = warnings.disagreement(attributed)
    engine = rows.engine_of(run)
    refused = refusals.reasons(run, prepared, attributed, covered, kind, on_host)
    if speculates or not attributed:
        decision = verdict.decide(
            shares, attributed, refused, unprofiled, engine, uncertain, apart, log_clock
        )
    else:
        decision = verdict.without_speculation(
            max((len(c.ns) for c in counts), default=0),
            median_ns or None,
            kind,
            max(len(a.placed.placement.openings) for a in attributed),
            engine,
            refusals.batches_apart(attributed, kind),
        )
    if decision.recapture and any("nsys" in one.facts for one in run.ranks):
        decision = replace(decision, recapture=recapture.NSYS)
    graphs, graph_tables, graph_notes = _graphs(options, prepared, attributed, leading)
    group, group_tables, group_notes = _group(run, options, prepared, attributed, lead)
    cycle_rows = tuple(rows.cycle_rows(attributed, lead))
    facts = rows.facts_of(run, engine, batch, attributed)
    usable = not decision.withheld
    corrected = (
        corrected_cycle(attributed, lead, group, shares, unprofiled, blind)
        if unprofiled is not None and lead is not None and usable
        else None
    )
    throughput = (
        throughput_of(
            run,
            options.reference,
            options.inputs,
            facts,
            shares if usable else [],
            reference,
            median_ns if usable and median_ns else None,
            corrected,
            verify_by_batch(attributed) if counts and usable else {},
        )
        if kind == "speculation"
        else None
    )
    if throughput is not None and throughput.acceptance is not None:
        facts |= {
            "accept_length": throughput.acceptance.accept_length,
            "simulated_acceptance": throughput.acceptance.simulated or None,
        }
    elif throughput is not None and throughput.notes:
        facts |= {"accept_length": None}  # every source was refused
    found = [
        *run.notes,
        *options.inputs.notes,
        *(
            throughput.notes
            if throughput is not None
            else options.inputs.unused(options.reference.accept_length, decision.refused)
        ),
        *warnings.no_gpu(refusals.gpu_counts(prepared)),
        *(warnings.host_bound(idle, ask=speculates and unprofiled is None)),
        *notes,
        *(warnings.cycles(cycle_rows, attributed) if attributed else []),
        *warnings.unlinked(prepared, covered),
        *warnings.cut_replays(attributed),
        *warnings.graph_spans(attributed, leading),
        *_uncertain_note(uncertain),
        *warnings.disagreement_note(apart),
        *warnings.ranks_apart(shares),
        *warnings.one_rank(run, attributed),
        *warnings.log_shortened(run),
        *group_notes,
        *graph_notes,
    ]
    return Report(
        run=run,
        facts=facts,
        coverage=covered,
        cycles=cycle_rows,
        shares=tuple(shares),
        idle=tuple(idle),
        idle_share=idle_share,
        activities=tuple(rows.activity_rows(counts)) if not on_host else (),
        other_share=other,
        verdict=decision,
        warnings=tuple(dict.fromkeys(found)),
        unprofiled=unprofiled,
        speculates=speculates,
        on_host=on_host,
        clock=log_clock or ("host" if on_host else "gpu"),
        graphs=graphs,
        group=group,
        corrected=corrected,
        throughput=throughput,
        stage_idle=_stage_idle(attributed, leading, counts),
        launches=tuple(stage_parts.launch_rows(attributed, leading)) if not blind else (),
        tables=Tables(run, prepared, attributed, {**graph_tables, **group_tables}),
    )


def _with_accept(options: Options) -> Reference:
    """What the user gave; the accept length from a file that was named, where none was given."""
    given = options.reference
    named = [one.accept_length for one in options.inputs.served if one.accept_length]
    if given.accept_length is not None or not named:
        return given
    return replace(given, accept_length=named[0])


def _stage_idle(
    attributed: list[Attribution], leading: list[Bool], counts: list[Counted]
) -> tuple[StageIdle, ...]:
    """Idle by stage and cause; none of a run on the CPU, nor where work is not on record."""
    if not counts or any(one.on_host for one in attributed):
        return ()
    return (*stage_parts.idle_rows(counts), *stage_parts.between_rows(attributed, leading))


def _group(
    run: Run,
    options: Options,
    prepared: list[ranks.Rank],
    attributed: list[Attribution],
    lead: tuple[str, int | None] | None,
) -> tuple[Group | None, dict[str, Callable[[], pa.Table]], list[Note]]:
    """The ranks together, their tables, and what is to be said of them."""
    if len(prepared) < 2:
        return None, {}, []
    # One rank needs none of this.
    from specscope.analyzers import group_tables, group_view

    rules = options.rules or activities.load_rules()
    group = group_view.together(run, prepared, attributed, lead, rules, options.models)
    return group, group_tables.of(group, attributed), group_view.notes(group)


def _graphs(
    options: Options,
    prepared: list[ranks.Rank],
    attributed: list[Attribution],
    leading: list[Bool],
) -> tuple[Graphs | None, dict[str, Callable[[], pa.Table]], list[Note]]:
    """The inside of graph launches, its tables, and what is to be said of it."""
    if not options.captures:
        return None, {}, []
    # Few analyses need these modules.
    from specscope.analyzers import graph_inside, graph_tables

    graphs, notes = graph_inside.inside_of(options.captures, prepared, attributed, leading)
    return graphs, graph_tables.of(graphs), notes


def _leading_cycles(one: Attribution, lead: tuple[str, int | None] | None) -> Bool:
    return one.cycles.of(*lead) if lead else np.zeros(len(one.cycles), dtype=bool)


def _uncertain(attributed: list[Attribution], leading: list[Bool]) -> float:
    """Share of cycle time whose stage only the order of launches tells."""
    unsure = whole = 0
    for one, counted_cycles in zip(attributed, leading, strict=True):
        if one.on_host or not len(one.segments.cycle):
            continue
        inside = counted_cycles[one.segments.cycle]
        call = np.where(one.segments.op >= 0, one.rank.ops.call[np.maximum(one.segments.op, 0)], -1)
        guess = (call >= 0) & ~one.placed.sure[np.maximum(call, 0)]
        unsure += int(one.segments.ns[inside & guess].sum())
        whole += int(one.segments.ns[inside].sum())
    return unsure / whole if whole else 0.0


def _uncertain_note(share: float) -> list[Note]:
    if share <= 0.001:
        return []
    return [
        Note(
            "borders_uncertain",
            f"{percent(share)} of the cycle lies between stages where no known kernel marks the "
            "border; stage totals may be off by that much",
            "attach specscope's ranges, or capture with the engine's own scopes",
        )
    ]
