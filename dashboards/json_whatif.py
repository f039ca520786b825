"""A `WhatIf` as a JSON document (docs/whatif.md)."""

from __future__ import annotations

from typing import Any, Final

from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.perturbation import Corrected
from specscope.analyzers.whatif import WhatIf
from specscope.dashboards.json_values import figure, interval_ns, ns, share, text

SCHEMA_VERSION: Final = 1


def whatif_json(found: WhatIf) -> dict[str, Any]:
    """The document."""
    unchanged, curve = found.unchanged, found.curve
    return {
        "schema_version": SCHEMA_VERSION,
        "refused": [text(why) for why in found.refused],
        "unchanged": None
        if unchanged is None
        else {
            "measured_ns": ns(unchanged.measured_ns),
            "replayed_ns": ns(unchanged.replayed_ns),
            "error": share(unchanged.error),
            "unexplained_ns": ns(unchanged.unexplained_ns),
        },
        "perturbation": None if found.corrected is None else _corrected(found.corrected),
        "cycle_ns": None if found.corrected is None else ns(found.corrected.cycle_ns),
        "tokens_per_second": figure(found.rate),
        "acceptance": text(found.acceptance) or None,
        "asked": [_row(row) for row in found.asked],
        "ranked": [_row(row) for row in found.ranked],
        "steps": None
        if curve is None
        else {
            "best": None if curve.best is None else list(curve.best),
            "basis": text(curve.basis),
            "rows": [
                {**_row(row), "accept_length": figure(length)}
                for row, length in zip(curve.rows, curve.lengths, strict=True)
            ],
        },
        "grid": {name: [_point(row) for row in rows] for name, rows in found.grid.items()},
        "unanswered": {name: text(why) for name, why in found.unanswered.items()},
        "notes": [text(note) for note in found.notes],
    }


def _corrected(one: Corrected) -> dict[str, Any]:
    return {
        "state": one.state,
        "text": text(one.text),
        "profiled_ns": ns(one.profiled_ns),
        "cycle_ns": ns(one.cycle_ns),
        "reference_ns": ns(one.reference_ns),
        "source": text(one.source) or None,
        "stretch": figure(one.stretch),
        "taken": [{"what": part.what, "ns": ns(part.ns)} for part in one.taken],
        "waiting_ns": [ns(value) for value in one.waiting_ns],
        "stages": [
            {
                "stage": stage.stage,
                "profiled_ns": ns(stage.ns),
                "ns": ns(one.stage_ns(stage.stage)),
            }
            for stage in one.profiled
        ],
    }


def _row(row: Prediction) -> dict[str, Any]:
    return {
        "lever": row.lever,
        "value": text(row.value),
        "title": text(row.title),
        "refused": text(row.refused) or None,
        "cycle_ns": None if row.cycle_ns is None else interval_ns(row.cycle_ns),
        "tokens_per_second": None if row.rate is None else [figure(rate) for rate in row.rate],
        "bound_ns": ns(row.bound_ns),
        "assumption": text(row.assumption),
        "formula": text(row.formula),
    }


def _point(row: Prediction) -> dict[str, Any]:
    assert row.cycle_ns is not None
    low, high = row.cycle_ns
    return {
        "value": figure(float(row.value)),
        "cycle_ns": ns(row.middle_ns),
        "low": ns(low),
        "high": ns(high),
        "tokens_per_second": None if row.rate is None else [figure(rate) for rate in row.rate],
    }
