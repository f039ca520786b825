"""The report as JSON (docs/report.md, report.schema.json): the same bytes from run to run.

Keys stand in a fixed order. Times are whole nanoseconds, shares are rounded to 6 decimals,
other figures to 9 significant digits; what is not known is null, never NaN.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from specscope import __version__
from specscope.analyzers.report import SCHEMA_VERSION, Report
from specscope.analyzers.shares import StageShare
from specscope.dashboards.checked import Checked
from specscope.dashboards.json_causes import causes_json
from specscope.dashboards.json_corrected import corrected_json
from specscope.dashboards.json_graphs import graphs_json
from specscope.dashboards.json_group import group_json
from specscope.dashboards.json_throughput import throughput_json
from specscope.dashboards.json_values import figure as _figure
from specscope.dashboards.json_values import interval_ns as _interval_ns
from specscope.dashboards.json_values import ns as _ns
from specscope.dashboards.json_values import share as _share
from specscope.dashboards.json_values import shares as _shares
from specscope.dashboards.json_values import text as _text

Json = dict[str, Any]

# More losses than this are counted only; losses.parquet has them all.
MOST_LOSSES: Final = 1000


def json_text(report: Report, checked: Sequence[Checked] = ()) -> str:
    """The report as text that ends with a line break; ASCII only."""
    return json.dumps(as_json(report, checked), indent=2, allow_nan=False) + "\n"


def as_json(report: Report, checked: Sequence[Checked] = ()) -> Json:
    """The report as a tree of plain values, as the schema has it."""
    losses = report.tables["losses"]
    return {
        "schema_version": SCHEMA_VERSION,
        "specscope_version": __version__,
        "verdict": _verdict(report),
        "facts": {key: _plain(value) for key, value in report.facts.items()},
        "speculates": report.speculates,
        "on_host": report.on_host,
        "clock": report.clock,
        "ranks": [rank.rank for rank in report.run.ranks],
        "cycles": _cycles(report),
        "stages": [_stage(share) for share in report.shares],
        "idle": _idle(report),
        "idle_share": _share(report.idle_share.value if report.idle_share else None),
        "idle_share_interval": (
            _shares((report.idle_share.low, report.idle_share.high)) if report.idle_share else None
        ),
        "activities": _activities(report),
        "other_activity_share": _share(report.other_share),
        "unprofiled": _unprofiled(report),
        "corrected": corrected_json(report),
        "throughput": throughput_json(report),
        "graphs": graphs_json(report),
        "group": group_json(report),
        "causes": causes_json(report),
        "coverage": _coverage(report),
        "losses": [_loss(row) for row in losses.slice(0, MOST_LOSSES).to_pylist()],
        "losses_in_all": losses.num_rows,
        "warnings": [
            {"code": note.code, "text": _text(note.text), "mend": _text(note.mend)}
            for note in report.warnings
        ],
        "checks": [_check(one) for one in checked],
        "sources": _sources(report),
        "listed": [_text(line) for line in report.run.listed],
    }


def _verdict(report: Report) -> Json:
    verdict = report.verdict
    return {
        "sentence": _text(verdict.sentence),
        "stage": verdict.stage,
        "share": _share(verdict.share),
        "share_kind": verdict.share_kind,
        "interval": _shares(verdict.interval),
        "evidence": list(verdict.evidence),
        "confidence": verdict.confidence,
        "confidence_reason": _text(verdict.confidence_reason),
        "refused": [_text(reason) for reason in verdict.refused],
        "recapture": verdict.recapture,
    }


def _cycles(report: Report) -> list[Json]:
    return [
        {
            "rank": row.rank,
            "kind": row.kind,
            "batch": row.batch,
            "count": row.count,
            "warmup": row.warmup,
            "outliers": row.outliers,
            "median_ns": _ns(row.median_ns),
            "interval": _interval_ns(row.interval_ns),
            "leads": row.leads,
        }
        for row in report.cycles
    ]


def _stage(share: StageShare) -> Json:
    cycle, busy, known = share.cycle_share, share.busy_share, share.unprofiled
    return {
        "rank": share.rank,
        "stage": share.stage,
        "part_of": share.part_of,
        "cycles": cycle.n,
        "work_ns": _ns(share.work_ns),
        "idle_ns": _ns(share.idle_ns),
        "total_ns": _ns(share.total_ns),
        # Inside a graph span collectives cannot be told from compute.
        "collective_ns": _ns(share.collective_ns) if share.collectives_known else None,
        "hidden_collective_ns": _ns(share.hidden_collective_ns),
        "work_share": _share(share.work_share),
        "idle_share": _share(share.idle_share),
        "collective_share": _share(share.collective_share) if share.collectives_known else None,
        "cycle_share": _share(cycle.value),
        "cycle_share_interval": _shares((cycle.low, cycle.high)),
        "busy_share": _share(busy.value) if busy else None,
        "busy_share_interval": _shares((busy.low, busy.high)) if busy else None,
        # The estimate is the cycle share as recorded; the range says how far it can be trusted.
        "unprofiled_share": _share(cycle.value) if known else None,
        "unprofiled_share_interval": _shares(known),
    }


def _idle(report: Report) -> list[Json]:
    return [
        {
            "rank": row.rank,
            "cause": row.cause,
            "ns": _ns(row.ns),
            "cycle_share": _share(row.cycle_share),
        }
        for row in report.idle
    ]


def _activities(report: Report) -> list[Json]:
    return [
        {
            "stage": row.stage,
            "activity": row.activity,
            "ns": _ns(row.ns),
            "cycle_share": _share(row.cycle_share),
        }
        for row in report.activities
    ]


def _unprofiled(report: Report) -> Json | None:
    known = report.unprofiled
    if known is None:
        return None
    return {
        "cycle_ns": _ns(known.cycle_ns),
        "source": _text(known.source),
        "stretch": _figure(known.stretch),
    }


def _coverage(report: Report) -> list[Json]:
    return [
        {
            "rank": row.rank,
            "cycles": row.cycles,
            "ops": row.ops,
            "linked_ops": row.linked_ops,
            "launches": row.launches,
            "graph_launches": row.graph_launches,
            "linked_share": _share(row.linked_share),
            "placed_share": _share(row.placed_share),
            "placed_cycle_share": _share(row.placed_cycle_share),
            "launches_without_op": row.launches_without_op,
            "launches_without_op_counted": row.launches_without_op_counted,
            "graphs_without_op": row.graphs_without_op,
        }
        for row in report.coverage
    ]


def _loss(row: Json) -> Json:
    keys = ("rank", "source", "offset", "length", "count", "reason", "action")
    return {key: _plain(row.get(key)) for key in keys}


def _check(one: Checked) -> Json:
    return {
        "check": _text(one.check.text),
        "name": one.check.name,
        "value": _figure(one.value),
        "passed": one.passed,
        "dissenting_ranks": list(one.dissent),
        "reason": _text(one.reason),
    }


def _sources(report: Report) -> list[Json]:
    table = report.tables["sources"]
    rows = table.to_pylist() if "path" in table.column_names else []
    return [
        {
            "path": _text(row["path"]),
            "format": _text(row["format"]),
            "producer": _plain(row["producer"]),
            "bytes": row["bytes"],
            "text_bytes": row["text_bytes"],
            "sha256_of_samples": row["fingerprint"],
            "rank": row["rank"],
            "world_size": row["world_size"],
            "devices": _unpacked(row["devices"]),
            "groups": _unpacked(row["groups"]),
            "clock_base_ns": row["clock_base_ns"],
            "resolution_ns": row["resolution_ns"],
            "events": row["events"],
            "left_out": _unpacked(row["dropped"]),
        }
        for row in rows
    ]


def _unpacked(text: str | None) -> Any:
    """What a column of JSON text holds; null when it is none."""
    try:
        value = json.loads(text) if text else None
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


def _plain(value: Any) -> Any:
    """A value of the run's own files as one that JSON has."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _figure(value)
    return _text(value)
