"""Key `corrected` of the JSON report: the cycle without the profiler that predictions are of."""

from __future__ import annotations

from typing import Any

from specscope.analyzers.report import Report
from specscope.dashboards.json_values import ns, share, text

Json = dict[str, Any]


def corrected_json(report: Report) -> Json | None:
    """Its stages and what was taken out; null where no length without the profiler is known."""
    found = report.corrected
    if found is None:
        return None
    one = found.replayed
    return {
        "method": found.method,
        "why": text(found.why) or None,
        "cycle_ns": ns(found.cycle_ns),
        "taken": [{"what": part.what, "ns": ns(part.ns)} for part in one.taken] if one else [],
        "waiting_ns": [ns(end) for end in one.waiting_ns] if one else None,
        "stages": [
            {
                "stage": part.stage,
                "work_ns": ns(part.work_ns),
                "idle_ns": ns(part.idle_ns),
                "ns": ns(part.ns),
                "cycle_share": share(part.ns / found.cycle_ns),
            }
            for part in found.stages
        ],
    }
