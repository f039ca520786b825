"""The flat table of figures that a report gives (`rules/figures.toml` says what each means).

What a report does not know is left out: a figure is zero only where the trace shows that there
is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from specscope.analyzers import figures, server_flags
from specscope.analyzers.figures import Figures
from specscope.analyzers.report import Report
from specscope.analyzers.shares import StageShare
from specscope.analyzers.stage_parts import StageIdle
from specscope.analyzers.words import CAUSES

_STAGES: Final = ("draft", "verify", "draft_extend", "schedule")
_INNER: Final = ("draft", "verify", "draft_extend")
_ACTIVITIES: Final = ("attention", "gemm", "moe", "sampling", "copy")
_LATE: Final = ("host", "launch_call")
_CAUSE_WORDS: Final = ("host", "launch_call", "sync", "queue", "graph")
_LATENESS: Final = {"previous": "wire", "host": "host", "compute": "compute"}
_PREFILL: Final = ("prefill", "mixed")

Pairs = Iterator[tuple[str, float]]


def of(report: Report) -> Figures:
    """Every figure that the report gives."""
    table: Figures = dict(_decision(report))
    for key in ("server_command", "server_args"):  # what the server says goes before its command
        table |= {
            figure: value
            for figure, value in server_flags.flags(report.run.context.get(key)).items()
            if value or figure not in table
        }
    shares = {row.stage: row for row in report.shares if row.rank is None and row.stage in _STAGES}
    lengths = [row.median_ns for row in report.cycles if row.leads]
    if report.blind:
        return table | {"blind": 1.0}
    if not shares or not lengths:
        return table
    table["cycle.ms"] = float(np.median(lengths)) / 1e6
    # A cycle log is written without a profiler.
    traced = "cycle_log" not in report.tables
    table["recorded_only"] = float(traced and "server.cycle.ms" not in figures.complete(table))
    table |= dict(_mixed(report))
    placed = [row.placed_share for row in report.coverage if row.placed_share is not None]
    if placed:
        table["placed.share"] = min(placed)
    for row in shares.values():
        table |= {
            f"{row.stage}.ms": row.total_ns / 1e6,
            f"{row.stage}.share": row.cycle_share.value,
        }
    if report.on_host:
        return table
    table["blind"] = 0.0
    table |= dict(_work(report, shares))
    table |= dict(_idle(report, shares))
    table |= dict(_left(report))
    table |= dict(_launches(report, shares))
    table |= dict(_group(report))
    return table


def _decision(report: Report) -> Pairs:
    """What was measured of the server without a profiler."""
    facts, context, known = report.facts, report.run.context, report.throughput
    numbers: dict[str, Any] = {
        "batch": facts.get("batch"),
        "k": facts.get("k"),
        "draft_tokens": context.get("draft_tokens"),
        "prompt_tokens": context.get("prompt_tokens"),
        "tokens_per_second": facts.get("tokens_per_second"),
        "accept_length": facts.get("accept_length"),
        "plain.step.ms": _plain_step(report),
    }
    simulated = facts.get("simulated_acceptance")
    if known is not None:
        numbers["batch"] = known.batch or numbers["batch"]
        numbers["k"] = known.k or numbers["k"]
        if known.acceptance is not None:
            numbers["accept_length"] = known.acceptance.accept_length
            simulated = known.acceptance.simulated
        if known.baseline is not None:
            numbers["plain.step.ms"] = known.baseline.step_ns / 1e6
        if known.positions is not None and not known.positions.simulated:
            numbers["acceptance.first"] = known.positions.by_position[0]
            numbers["acceptance.wiring"] = int(known.sign is not None and known.sign.wiring)
        if not known.profiled:  # else its rate is that of the recorded cycle: none was measured
            numbers["server.cycle.ms"] = known.cycle_ns / 1e6
            numbers["tokens_per_second"] = known.tokens_per_second
    if report.unprofiled is not None:
        numbers["server.cycle.ms"] = report.unprofiled.cycle_ns / 1e6
    for name, value in numbers.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)
    if isinstance(simulated, bool):
        yield "accept_length.simulated", float(simulated)


def _plain_step(report: Report) -> float | None:
    """As measured beside the traces, at the batch of the cycles."""
    context, batch = report.run.context, report.facts.get("batch")
    step = context.get("baseline_step_ms")
    same_batch = batch is None or context.get("batch") in (None, batch)
    return step if isinstance(step, int | float) and same_batch else None


def _mixed(report: Report) -> Pairs:
    """Cycles that hold a prefill, by time."""
    ns = [(row.kind in _PREFILL, row.count * row.median_ns) for row in report.cycles]
    whole = sum(length for _, length in ns)
    if whole:
        yield "mixed.share", sum(length for mixed, length in ns if mixed) / whole


def _work(report: Report, shares: dict[str, StageShare]) -> Pairs:
    """Work by stage and activity; of graph launches without their kernels only its sum."""
    opaque = sum(row.opaque_ns for row in shares.values())
    cycle = float(np.median([row.median_ns for row in report.cycles if row.leads]))
    yield "opaque.share", opaque / cycle
    yield "cycle.work.ms", sum(row.work_ns for row in shares.values()) / 1e6
    for stage, row in shares.items():
        yield f"{stage}.work.ms", row.work_ns / 1e6
        yield f"{stage}.work.share", row.work_share
        if not row.collectives_known:
            continue
        yield f"{stage}.collective.ms", row.collective_ns / 1e6
        yield f"{stage}.collective.share", row.collective_share
        for activity in _ACTIVITIES:
            found = _activity(report, stage, activity)
            yield f"{stage}.{activity}.ms", found[0] / 1e6
            yield f"{stage}.{activity}.share", found[1]
    if not opaque:
        every = shares.values()
        yield "cycle.collective.ms", sum(row.collective_ns for row in every) / 1e6
        yield "cycle.collective.share", sum(row.collective_share for row in every)
        for activity in _ACTIVITIES:
            each = [_activity(report, stage, activity) for stage in shares]
            yield f"cycle.{activity}.ms", sum(ns for ns, _ in each) / 1e6
            yield f"cycle.{activity}.share", sum(share for _, share in each)


def _activity(report: Report, stage: str, activity: str) -> tuple[float, float]:
    """Nanoseconds a cycle, and their share; `verify` holds accept."""
    stages = ("verify", "accept") if stage == "verify" else (stage,)
    rows = [r for r in report.activities if r.stage in stages and r.activity == activity]
    return sum(row.ns for row in rows), sum(row.cycle_share for row in rows)


def _idle(report: Report, shares: dict[str, StageShare]) -> Pairs:
    """Idle by stage and cause; where ops are without a launch call, causes are not known."""
    found = {(row.stage, row.cause): row for row in report.stage_idle}
    unknown = {stage for stage, cause in found if cause == "unknown"}
    if report.idle_share is not None:
        yield "cycle.idle.share", report.idle_share.value
    for stage, row in shares.items():
        yield f"{stage}.idle.ms", row.idle_ns / 1e6
        yield f"{stage}.idle.share", row.idle_share
    for stage in (*shares, "between"):
        if stage in unknown or not report.launches:
            continue
        for cause in _CAUSE_WORDS:
            yield from _idle_pair(f"{stage}.{cause}", [found.get((stage, cause))])
        yield from _idle_pair(f"{stage}.late", [found.get((stage, cause)) for cause in _LATE])
    if not unknown and report.launches:
        for cause in _CAUSE_WORDS:
            every = [found.get((stage, cause)) for stage in shares]
            yield from _idle_pair(f"cycle.{cause}", every)
        inner = [found.get((stage, "sync")) for stage in _INNER]
        yield from _idle_pair("inner.sync", inner)


def _left(report: Report) -> Pairs:
    """Idle that is left without the profiler; nothing where the run could not be replayed."""
    found = report.corrected
    if (
        found is None
        or found.replayed is None
        or any(r.cause == "unknown" for r in report.stage_idle)
    ):
        return
    late = [CAUSES.index(cause) for cause in _LATE]
    for stage in ("draft", "verify"):
        if part := found.part(stage):
            yield f"{stage}.late.left.ms", sum(part.idle_by_cause[cause] for cause in late) / 1e6
    inner = [part for stage in _INNER if (part := found.part(stage))]
    sync = CAUSES.index("sync")
    yield "inner.sync.left.ms", sum(part.idle_by_cause[sync] for part in inner) / 1e6
    yield "between.host.left.ms", found.between[CAUSES.index("host")] / 1e6


def _idle_pair(name: str, rows: list[StageIdle | None]) -> Pairs:
    known = [row for row in rows if row is not None]
    yield f"{name}.ms", sum(row.ns for row in known) / 1e6
    yield f"{name}.share", sum(row.cycle_share for row in known)


def _launches(report: Report, shares: dict[str, StageShare]) -> Pairs:
    """Launches of draft and verify; none where no launch call is on record."""
    if not report.launches:
        return
    rows = {row.stage: row for row in report.launches}
    for stage in ("draft", "verify"):
        row = rows.get(stage)
        if stage not in shares:
            continue
        yield f"{stage}.launches", row.launches if row else 0.0
        yield f"{stage}.graph_launches", row.graph_launches if row else 0.0
        if shares[stage].collectives_known:
            yield f"{stage}.collectives", row.collectives if row else 0.0
    inner = [rows[stage] for stage in ("draft", "verify") if stage in rows]
    yield "read_backs", sum(row.read_backs for row in inner)


def _group(report: Report) -> Pairs:
    """Waiting and transferring, and who is late; nothing where ranks do not correspond."""
    group = report.group
    if group is None or group.refused or group.left_out or not group.rows:
        yield from _alone(report)
        return
    # Shares of a cycle at another batch are not those of the headline's.
    apart = {one.title for one in group.parts if one.own_batch}
    found = [row for row in group.rows if row.group is None or row.group not in apart]
    if not found:
        return
    over = [row for row in found if row.rank is None]
    ranks = sorted({row.rank for row in found if row.rank is not None})
    for row in over:
        yield f"{row.stage}.wait.ms", row.wait_ns / 1e6
        yield f"{row.stage}.wait.share", row.wait_share
        yield f"{row.stage}.transfer.ms", row.transfer_ns / 1e6
        yield f"{row.stage}.transfer.share", row.transfer_share
    yield "cycle.wait.ms", sum(row.wait_ns for row in over) / 1e6
    yield "cycle.transfer.ms", sum(row.transfer_ns for row in over) / 1e6
    waits = {
        rank: (
            sum(row.wait_ns for row in found if row.rank == rank) / 1e6,
            sum(row.wait_share for row in found if row.rank == rank),
        )
        for rank in ranks
    }
    most = max(waits.values())
    yield "waiting_rank.wait.ms", most[0]
    yield "waiting_rank.wait.share", most[1]
    late = {rank: sum(row.late_ns or 0.0 for row in found if row.rank == rank) for rank in ranks}
    if in_all := sum(late.values()):
        rank = max(late, key=lambda one: late[one])
        yield "late_rank", float(rank)
        yield "late_rank.share", late[rank] / in_all
        worst = max((row for row in found if row.rank == rank), key=lambda row: row.late_ns or 0.0)
        if worst.cause not in (None, "unknown"):
            for cause, word in _LATENESS.items():
                yield f"late_rank.by_{word}", float(worst.cause == cause)


def _alone(report: Report) -> Pairs:
    """Where no collective runs there is nothing to wait for and nothing to transfer."""
    known = all(row.collectives_known for row in report.shares)
    if not report.launches or not known or any(row.collectives for row in report.launches):
        return
    for name in ("verify.wait", "verify.transfer", "cycle.wait", "cycle.transfer"):
        yield f"{name}.ms", 0.0
        yield f"{name}.share", 0.0
    yield "waiting_rank.wait.ms", 0.0
    yield "waiting_rank.wait.share", 0.0
