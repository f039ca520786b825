"""The key `group` of the JSON report: what all ranks show together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES
from specscope.dashboards.json_values import figure, interval_ns, ns, share, shares, text

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group, PathRow, RankStage

Json = dict[str, Any]


def group_json(report: Report) -> Json | None:
    """The key, or None where there is one rank, or no collectives."""
    group = report.group
    if group is None:
        return None
    first = group.first_cycle
    return {
        "ranks": list(group.ranks),
        "groups": [_process_group(one) for one in group.parts],
        "refused": text(group.refused) or None,
        "sentence": text(group.sentence) or None,
        "assumption": text(group.assumption) or None,
        "cycles": list(group.cycles),
        "first_cycle": None
        if first is None
        else {
            "cycle": first.cycle,
            "rank": first.rank,
            "wait_ns": first.wait_ns,
            "late_rank": first.late_rank,
        },
        "clocks": _clocks(group),
        "collectives": _collectives(group),
        "stages": [_stage(row) for row in group.rows],
        "idle": [
            {
                "rank": one.rank,
                "others_busy_ns": ns(one.others_busy_ns),
                "others_busy_share": share(one.others_busy_share),
                "nobody_ns": ns(one.nobody_ns),
                "nobody_share": share(one.nobody_share),
            }
            for one in group.idle
        ],
        "fused": [
            {
                "group": text(one.group) if one.group else None,
                "stage": one.stage,
                "calls": figure(one.calls),
                "transfer_ns": ns(one.transfer_ns),
                "wire_interval_ns": [ns(one.wire_ns), ns(one.transfer_ns)],
                "reason": text(one.reason),
            }
            for one in group.fused
        ],
        "communication": [
            {
                "rank": one.rank,
                "stage": one.stage,
                "exposed_ns": ns(one.collective_ns),
                "exposed_share": share(one.collective_share),
                "hidden_ns": ns(one.hidden_collective_ns),
            }
            for one in report.shares
            if one.part_of is None and one.collectives_known
        ],
        "bandwidth": _bandwidth(group),
        "cycle_ns": None if group.cycle_ns is None else ns(group.cycle_ns),
        "critical_path": [_part(row) for row in group.path],
        "critical_ranks": [{"rank": rank, "cycles": cycles} for rank, cycles in group.critical],
    }


def _process_group(one: Group) -> Json:
    return {
        "name": text(one.title),
        "ranks": list(one.ranks),
        "missing": list(one.missing),
        "refused": text(one.refused) or None,
        "assumption": text(one.assumption) or None,
        "kinds": _kinds(one),
        "clocks": _clocks(one),
        "collectives": _collectives(one),
        "bandwidth": _bandwidth(one),
    }


def _kinds(one: Group) -> Json:
    """How many collectives of each kind matched."""
    kinds = one.measured.matched.kind if one.measured is not None else ()
    return {text(kind): count for kind, count in sorted(Counter(kinds).items())}


def _clocks(group: Group) -> Json | None:
    if group.measured is None:
        return None
    clocks = group.measured.clocks
    return {
        "aligned_by": clocks.used,
        "stage": STAGES[clocks.stage],
        "residual_ns": ns(clocks.residual_ns),
        "spread_ns": ns(clocks.spread_ns),
        "ranks": [
            {
                "rank": clock.rank,
                "offset_ns": ns(clock.offset_ns),
                "drift_ppm": figure(clock.drift_ppm),
                "residual_ns": ns(clock.residual_ns),
                "spread_ns": ns(clock.spread_ns),
            }
            for clock in clocks.clocks
        ],
    }


def _collectives(group: Group) -> Json | None:
    if group.measured is None:
        return None
    matched = group.measured.matched
    return {
        "matched": len(matched),
        "by": matched.by,
        "on_record": list(matched.total),
        "left_out": [text(line) for line in matched.differing],
    }


def _bandwidth(group: Group) -> Json | None:
    """Null where no size is known."""
    found = group.bandwidth
    if found is None or not found.rows:
        return None
    return {
        "assumption": text(found.assumption) or None,
        "without_size": found.unknown,
        "floors": [
            {
                "library": floor.library,
                "kind": floor.kind,
                "low_bytes": floor.low_bytes,
                "high_bytes": floor.high_bytes,
                "transfer_ns": floor.ns,
            }
            for floor in found.floors
        ],
        "sizes": [
            {
                "library": row.library,
                "kind": row.kind,
                "low_bytes": row.low_bytes,
                "high_bytes": row.high_bytes,
                "bytes_source": list(row.sources),
                "count": row.count,
                "transfer_ns": ns(row.transfer_ns),
                "algbw": figure(row.algbw),
                "busbw": figure(row.busbw),
            }
            for row in found.rows
        ],
    }


def _stage(row: RankStage) -> Json:
    return {
        "rank": row.rank,
        "group": text(row.group) if row.group else None,
        "stage": row.stage,
        "calls": figure(row.calls),
        "wait_ns": ns(row.wait_ns),
        "wait_interval_ns": interval_ns((row.wait_low_ns, row.wait_high_ns)),
        "transfer_ns": ns(row.transfer_ns),
        "transfer_interval_ns": interval_ns((row.transfer_low_ns, row.transfer_high_ns)),
        "wait_share": share(row.wait_share),
        "wait_share_interval": shares((row.wait_share_low, row.wait_share_high)),
        "transfer_share": share(row.transfer_share),
        "transfer_share_interval": shares((row.transfer_share_low, row.transfer_share_high)),
        "fused": row.fused,
        "late_share": share(row.late_share),
        "late_ns": None if row.late_ns is None else ns(row.late_ns),
        "lateness_share": share(row.lateness_share),
        "cause": row.cause,
        "cause_share": share(row.cause_share),
        "end_skew_ns": None if row.end_skew_ns is None else ns(row.end_skew_ns),
    }


def _part(row: PathRow) -> Json:
    return {
        "rank": row.rank,
        "stage": row.stage,
        "state": row.state,
        "what": row.what,
        "ns": ns(row.ns),
        "cycle_share": share(row.share),
    }
