"""Rows of the report from what was attributed: stages, cycles, idle, activities, facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from specscope.analyzers import cycles
from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.evidence_log import accepted
from specscope.analyzers.report import ActivityRow, CycleRow, IdleRow, Unprofiled
from specscope.analyzers.shares import Counted, StageShare, over_ranks, rows_of, stage_share
from specscope.analyzers.statistics import Estimate, estimate, median
from specscope.analyzers.words import CAUSES, DRAFT, IDLE, STAGES, WORK
from specscope.traces.context import MOST_DRAFT_TOKENS
from specscope.traces.run import Run


def share_rows(
    attributed: list[Attribution],
    counts: list[Counted],
    unprofiled: Unprofiled | None,
    on_host: bool,
) -> list[StageShare]:
    """Every stage: over the ranks, then each rank."""
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


def idle_rows(
    attributed: list[Attribution], counts: list[Counted]
) -> tuple[list[IdleRow], Estimate | None]:
    """Idle by cause, of each rank and over the ranks; and idle in all. Nothing on a CPU."""
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


def activity_rows(counts: list[Counted]) -> Iterator[ActivityRow]:
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


def cycle_rows(
    attributed: list[Attribution], lead: tuple[str, int | None] | None
) -> Iterator[CycleRow]:
    """Cycles of each rank, kind and batch; `lead` names those of the headline."""
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


def engine_of(run: Run) -> str | None:
    """The engine: as measured beside the traces, else as the traces show."""
    named = run.context.get("engine")
    if named:
        return str(named)
    found = [r.facts.get("producer") for r in run.ranks if r.facts.get("producer")]
    return str(found[0]) if found else None


def facts_of(
    run: Run, engine: str | None, batch: int | None, attributed: list[Attribution]
) -> dict[str, Any]:
    """What is known of the server; None where nothing says it."""
    context = run.context
    facts = run.ranks[0].facts if run.ranks else {}
    same_batch = batch is None or context.get("batch") in (None, batch)
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
        "k": next(
            (
                n
                for n in (k, context.get("k"), _k_of_steps(attributed, engine))
                if n and n <= MOST_DRAFT_TOKENS
            ),
            None,
        ),
        "tp": facts.get("world_size") or context.get("tp"),
        "gpus": ", ".join(g for g in gpus if g) or None,
        "link": context.get("link"),
        "accept_length": context.get("accept_length") or _accept_length(run),
        "simulated_acceptance": context.get("simulated_acceptance"),
        "tokens_per_second": context.get("tokens_per_second") if same_batch else None,
        "source": context.get("source"),
    }


def _k_of_steps(attributed: list[Attribution], engine: str | None) -> int | None:
    """Draft tokens by the steps that ranges of the draft are numbered with: s=0..n.

    SGLang makes the first token in draft-extend, so there its draft has a step less.
    """
    steps = [
        span.step
        for one in attributed
        for span in one.placed.placement.spans
        if span.stage == DRAFT and span.step is not None
    ]
    if not steps or max(steps) >= MOST_DRAFT_TOKENS:
        return None
    return max(steps) + (2 if engine == "sglang" else 1)


def _accept_length(run: Run) -> float | None:
    """As the cycle log has it, the median over its ranks."""
    found = [accepted(rank).mean for rank in run.ranks]
    known = [mean for mean in found if mean is not None]
    return float(np.median(known)) if known else None
