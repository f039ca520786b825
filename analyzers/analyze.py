"""From a run to its report: prepare, place, cut, attribute, count, decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from specscope.analyzers import (
    activities,
    attribution,
    coverage,
    cycles,
    marks,
    stages,
    verdict,
    warnings,
)
from specscope.analyzers import rank as ranks
from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool, worded
from specscope.analyzers.links import LAUNCHING
from specscope.analyzers.report import (
    ActivityRow,
    CycleRow,
    IdleRow,
    Report,
    Unprofiled,
)
from specscope.analyzers.shares import Counted, counted, over_ranks, rows_of, stage_share
from specscope.analyzers.statistics import Estimate, estimate, median
from specscope.analyzers.unprofiled import Reference, cycle_ns
from specscope.analyzers.words import CAUSES, EVIDENCE, IDLE, STAGES, WORK, percent
from specscope.traces import schema
from specscope.traces.run import Note, RankTables, Run


@dataclass(frozen=True)
class Options:
    """How to analyse. `evidence` narrows the kinds of evidence that may be used."""

    reference: Reference = field(default_factory=Reference)
    rules: activities.Rules | None = None
    evidence: tuple[str, ...] = EVIDENCE


def analyze(run: Run, options: Options | None = None) -> Report:
    """The report of one run. Nothing is refused by an error: a verdict is, in words."""
    options = options or Options()
    rules = options.rules or activities.load_rules()
    prepared = _each(lambda tables: ranks.prepare(tables, rules), run.ranks)
    placed = _each(lambda one: stages.place(one, options.evidence), prepared)
    usable = [(one, where) for one, where in zip(prepared, placed, strict=True) if where]
    cut = [cycles.cut(one, where) for one, where in usable]
    cut = cycles.marked(cut, [_base(one.tables) for one, _ in usable])
    attributed = _each(
        lambda row: attribution.attribute(row[0][0], row[0][1], row[1]),
        list(zip(usable, cut, strict=True)),
    )
    return _report(run, options, prepared, attributed)


def _each(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """`work` on every item, in threads: the heavy parts of numpy leave the interpreter free."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(work, items))


def _base(tables: RankTables) -> int:
    return int(tables.facts.get("clock_base_ns") or 0)


def _report(
    run: Run, options: Options, prepared: list[ranks.Rank], attributed: list[Attribution]
) -> Report:
    lead = cycles.leading([a.cycles for a in attributed])
    kind, batch = lead if lead else (None, None)
    rows = [_rows(a, lead) for a in attributed]
    speculates = any(a.placed.placement.speculates for a in attributed)
    on_host = bool(attributed) and all(a.on_host for a in attributed)
    counts = [counted(a, *lead) for a in attributed] if lead else []
    reference = cycle_ns(options.reference, run.context, batch)
    median_ns = (
        float(np.median([median(c.ns.astype(np.float64)) for c in counts])) if counts else 0.0
    )
    unprofiled = (
        Unprofiled(reference[0], reference[1], median_ns / reference[0])
        if reference and median_ns and kind == "speculation"
        else None
    )
    shares = _shares(attributed, counts, unprofiled, on_host)
    covered = tuple(coverage.measure(a, r) for a, r in zip(attributed, rows, strict=True))
    idle, idle_share = _idle(attributed, counts)
    other, notes = warnings.other_activity(attributed, rows)
    uncertain = _uncertain(attributed, rows)
    apart = warnings.disagreement(attributed)
    engine = _engine(run)
    refused = _refusals(run, prepared, attributed, covered, kind, on_host)
    if speculates or not attributed:
        decision = verdict.decide(shares, attributed, refused, unprofiled, engine, uncertain, apart)
    else:
        decision = verdict.without_speculation(
            len(counts[0].ns) if counts else 0,
            median_ns or None,
            kind,
            max(len(a.placed.placement.openings) for a in attributed),
            engine,
        )
    cycle_rows = tuple(_cycle_rows(attributed, lead))
    found = [
        *run.notes,
        *warnings.no_gpu(_gpu_counts(prepared)),
        *(warnings.host_bound(idle, ask=speculates and unprofiled is None)),
        *notes,
        *(warnings.cycles(cycle_rows, attributed) if attributed else []),
        *warnings.unlinked(covered),
        *_uncertain_note(uncertain),
        *warnings.disagreement_note(apart),
        *warnings.ranks_apart(shares),
        *warnings.one_rank(run, attributed),
    ]
    return Report(
        run=run,
        facts=_facts(run, engine, batch, attributed),
        coverage=covered,
        cycles=cycle_rows,
        shares=tuple(shares),
        idle=tuple(idle),
        idle_share=idle_share,
        activities=tuple(_activities(counts)) if not on_host else (),
        other_share=other,
        verdict=decision,
        warnings=tuple(dict.fromkeys(found)),
        unprofiled=unprofiled,
        speculates=speculates,
        on_host=on_host,
        tables=Tables(run, attributed),
    )


def _rows(one: Attribution, lead: tuple[str, int | None] | None) -> Bool:
    return one.cycles.of(*lead) if lead else np.zeros(len(one.cycles), dtype=bool)


def _gpu_counts(prepared: list[ranks.Rank]) -> list[tuple[int, int, int]]:
    return [
        (
            one.tables.rank,
            len(one.ops.start),
            int(np.isin(one.calls.kind, LAUNCHING).sum()),
        )
        for one in prepared
    ]


def _refusals(
    run: Run,
    prepared: list[ranks.Rank],
    attributed: list[Attribution],
    covered: Sequence[coverage.Coverage],
    kind: str | None,
    on_host: bool,
) -> list[str]:
    missing = [
        (rank, launches) for rank, ops, launches in _gpu_counts(prepared) if launches and not ops
    ]
    if missing:
        rank, launches = missing[0]
        who = f"rank {rank}: " if len(run.ranks) > 1 else ""
        return [f"{who}no GPU events in this trace although {launches} launch calls are there"]
    if not attributed:
        return [_no_stages(run)]
    if kind != "speculation":
        return [coverage.too_few(0)]
    return coverage.reasons(list(covered), on_host)


def _no_stages(run: Run) -> str:
    """No evidence of any stage: say which range names there are."""
    names: dict[str, None] = {}
    for one in run.ranks:
        table = one.ranges.filter(
            pa.compute.equal(one.ranges["kind"].cast(pa.string()), "annotation")
        )
        for name in table["name"].unique().to_pylist()[:20]:
            names[str(name)[:60]] = None
    if not any(one.ops.num_rows or one.calls.num_rows or one.ranges.num_rows for one in run.ranks):
        return "no work recorded in this trace"
    captures = [name for name in names if (mark := marks.read(name)) and mark.role == "capture"]
    if captures:
        return f"a trace of graph capture ({captures[0]}), not of serving: no cycle runs in it"
    seen = ", ".join(list(names)[:8]) or "none"
    return f"no stages found: nothing in the trace names or shows them (annotations: {seen})"


def _shares(
    attributed: list[Attribution],
    counts: list[Counted],
    unprofiled: Unprofiled | None,
    on_host: bool,
) -> list[Any]:
    if not counts or not any(len(c.ns) for c in counts):
        return []
    stages_ns = np.sum([c.total.sum(axis=(0, 2, 3)) for c in counts], axis=0)
    ns = unprofiled.cycle_ns if unprofiled else None
    shares = []
    for row in rows_of(stages_ns):
        per_rank = [
            stage_share(c, a.number, row, ns, on_host)
            for a, c in zip(attributed, counts, strict=True)
            if len(c.ns)
        ]
        shares.append(over_ranks(per_rank))
        shares.extend(share for share, _, _ in per_rank)
    return shares


def _idle(
    attributed: list[Attribution], counts: list[Counted]
) -> tuple[list[IdleRow], Estimate | None]:
    rows: list[IdleRow] = []
    in_all: list[Estimate] = []
    first = len(ACTIVITIES)
    per_cause: dict[str, list[tuple[float, float]]] = {cause: [] for cause in CAUSES}
    for one, count in zip(attributed, counts, strict=False):
        if one.on_host or not len(count.ns):
            continue
        idle = count.total[:, :, IDLE, first:].sum(axis=1)  # cycle, cause
        share = idle / np.maximum(count.ns, 1)[:, None]
        for index, cause in enumerate(CAUSES):
            value = (median(idle[:, index].astype(np.float64)), median(share[:, index]))
            per_cause[cause].append(value)
            if idle[:, index].any():
                rows.append(IdleRow(one.number, cause, *value))
        every = share.sum(axis=1)
        in_all.append(estimate(every, every[count.steady]))
    for cause, values in per_cause.items():
        if values and any(ns for ns, _ in values):
            rows.append(
                IdleRow(
                    None,
                    cause,
                    float(np.median([ns for ns, _ in values])),
                    float(np.median([share for _, share in values])),
                )
            )
    if not in_all:
        return rows, None
    return rows, Estimate(
        float(np.median([e.value for e in in_all])),
        float(np.median([e.low for e in in_all])),
        float(np.median([e.high for e in in_all])),
        min(e.n for e in in_all),
    )


def _activities(counts: list[Counted]) -> Iterator[ActivityRow]:
    """Activities inside each stage: medians over cycles, then over ranks."""
    counts = [c for c in counts if len(c.ns)]
    if not counts:
        return
    for stage, stage_name in enumerate(STAGES):
        for activity, name in enumerate(ACTIVITIES):
            ns = [c.total[:, stage, WORK, activity] for c in counts]
            if not any(row.any() for row in ns):
                continue
            yield ActivityRow(
                stage_name,
                name,
                float(np.median([np.median(row) for row in ns])),
                float(
                    np.median(
                        [
                            np.median(row / np.maximum(c.ns, 1))
                            for row, c in zip(ns, counts, strict=True)
                        ]
                    )
                ),
            )


def _uncertain(attributed: list[Attribution], rows: list[Bool]) -> float:
    """Share of cycle time whose stage only the order of launches tells."""
    unsure = whole = 0
    for one, counted_rows in zip(attributed, rows, strict=True):
        if one.on_host or not len(one.segments.cycle):
            continue
        inside = counted_rows[one.segments.cycle]
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


def _cycle_rows(
    attributed: list[Attribution], lead: tuple[str, int | None] | None
) -> Iterator[CycleRow]:
    for one in attributed:
        keys = dict.fromkeys(zip(one.cycles.kind, one.cycles.batch, strict=True))
        for kind, batch in keys:
            rows = one.cycles.of(kind, batch)
            ns = one.cycles.ns[rows].astype(np.float64)
            mark = one.cycles.mark[rows]
            middle = estimate(ns, ns[mark == 0])
            yield CycleRow(
                one.number,
                kind,
                batch,
                len(ns),
                int((mark == cycles.WARMUP).sum()),
                int((mark == cycles.OUTLIER).sum()),
                middle.value,
                (middle.low, middle.high),
                (kind, batch) == lead,
            )


def _engine(run: Run) -> str | None:
    named = run.context.get("engine")
    if named:
        return str(named)
    found = [r.facts.get("producer") for r in run.ranks if r.facts.get("producer")]
    return str(found[0]) if found else None


def _facts(
    run: Run, engine: str | None, batch: int | None, attributed: list[Attribution]
) -> dict[str, Any]:
    """What is known of the server; None where nothing says it."""
    context = run.context
    facts = run.ranks[0].facts if run.ranks else {}
    k = next((k for a in attributed for k in a.cycles.k if k is not None), None)
    devices = facts.get("devices") or []
    gpus = sorted({str(d.get("name", "")) if isinstance(d, Mapping) else str(d) for d in devices})
    return {
        "engine": engine,
        "engine_version": context.get("engine_version")
        or (facts.get("versions") or {}).get(f"{engine}_version"),
        "model": context.get("model"),
        "draft_model": context.get("draft_model"),
        "batch": batch if batch is not None else context.get("batch"),
        "k": k if k is not None else context.get("k"),
        "tp": facts.get("world_size") or context.get("tp"),
        "gpus": ", ".join(g for g in gpus if g) or None,
        "link": context.get("link"),
        "accept_length": context.get("accept_length"),
        "simulated_acceptance": context.get("simulated_acceptance"),
        "tokens_per_second": context.get("tokens_per_second"),
        "source": context.get("source"),
    }


class Tables(Mapping[str, pa.Table]):
    """The tables of design section 4 over all ranks, each made when it is asked for."""

    _OWN: Mapping[str, Callable[[Attribution], pa.Table]] = {
        "stages": attribution.stages_table,
        "cycles": attribution.cycles_table,
        "segments": attribution.segments_table,
        "parts": lambda one: attribution.parts_table(one, attribution.sums(one)),
    }
    _READ = ("ops", "calls", "ranges", "collectives", "tracks", "sources", "losses")

    def __init__(self, run: Run, attributed: Sequence[Attribution]) -> None:
        self._run = run
        self._attributed = attributed
        self._made: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._OWN, *self._READ))

    def __len__(self) -> int:
        return len(self._OWN) + len(self._READ)

    def _make(self, name: str) -> pa.Table:
        if name in self._OWN:
            pieces = [self._OWN[name](one) for one in self._attributed]
            return pa.concat_tables(pieces) if pieces else schema.empty(name)
        if name not in self._READ:
            raise KeyError(name)
        placed = {one.number: one for one in self._attributed}
        pieces = []
        for one in self._run.ranks:
            table = getattr(one, name)
            if name == "ops":
                table = _placed_ops(table, placed.get(one.rank))
            pieces.append(_with_rank(table, one.rank))
        return pa.concat_tables(pieces) if pieces else schema.empty(name)


def _placed_ops(table: pa.Table, one: Attribution | None) -> pa.Table:
    """The `ops` table with what is known of each op: its call, its stage, its activity."""
    unknown = np.full(table.num_rows, -1, np.int8)
    stage, activity = unknown, unknown
    if one is not None:
        call = one.rank.ops.call
        column = table.schema.get_field_index("call_id")
        table = table.set_column(column, "call_id", pa.array(call, mask=call < 0))
        stage, activity = one.placed.stage_of_op, one.rank.activity
    table = table.append_column("stage", worded(stage, STAGES))
    return table.append_column("activity", worded(activity, ACTIVITIES))


def _with_rank(table: pa.Table, rank: int) -> pa.Table:
    names = table.column_names
    if "rank" in names:
        return table
    return table.add_column(0, "rank", pa.array(np.full(table.num_rows, rank, np.int32)))
