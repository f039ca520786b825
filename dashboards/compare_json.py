"""A comparison as JSON (docs/compare.md, compare.schema.json): the same bytes from run to run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specscope import __version__
from specscope.analyzers.compare_report import (
    SCHEMA_VERSION,
    Against,
    Change,
    Comparison,
    KernelChange,
    Side,
)
from specscope.analyzers.throughput import Throughput
from specscope.dashboards.checked import Checked
from specscope.dashboards.compare_sections import sentence
from specscope.dashboards.json_values import figure, ns, share, text

Json = dict[str, Any]


def json_text(comparison: Comparison, checked: Sequence[Checked] = ()) -> str:
    """The comparison as text that ends with a line break; ASCII only."""
    return json.dumps(as_json(comparison, checked), indent=2, allow_nan=False) + "\n"


def as_json(comparison: Comparison, checked: Sequence[Checked] = ()) -> Json:
    """The comparison as a tree of plain values, as the schema has it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "specscope_version": __version__,
        "sentence": text(sentence(comparison)),
        "differs": None if comparison.refused else comparison.differs,
        "refused": [text(reason) for reason in comparison.refused],
        "openings": [text(line) for line in comparison.openings],
        "same_files": comparison.same_files,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "test": None
        if comparison.blocks is None
        else {
            "level": 0.05,
            "rows": len(comparison.rows),
            "blocks": list(comparison.blocks),
            "dealings": comparison.ways,
            "exact": comparison.exact,
        },
        "rows": [_row(row) for row in comparison.rows],
        "small_figures": comparison.small,
        "kernels": [_kernel(one) for one in comparison.kernels],
        "against": _against(comparison.against),
        "notes": [text(line) for line in comparison.notes],
        "checks": [_check(one) for one in checked],
    }


def _side(side: Side) -> Json:
    return {
        "path": text(side.label),
        "kind": side.kind,
        "batch": side.batch,
        "ranks": list(side.ranks),
        "cycles": side.cycles,
        "left_out": side.left_out,
        "cycle_ns": ns(side.cycle_ns),
    }


def _row(row: Change) -> Json:
    """Times are whole nanoseconds; `unit` says what the others are."""
    value = ns if row.unit == "ns" else figure
    interval = row.interval
    return {
        "name": text(row.name),
        "kind": row.kind,
        "unit": row.unit,
        "stage": row.stage,
        "what": row.what,
        "family": None if row.family is None else text(row.family),
        "a": value(row.a),
        "b": value(row.b),
        "change": value(row.change),
        "change_interval": None if interval is None else [value(end) for end in interval],
        "relative": share(row.relative),
        "shows_from": value(row.least),
        "noise": value(row.noise),
        "p": share(row.p),
        "differs": row.differs,
    }


def _kernel(one: KernelChange) -> Json:
    return {
        "side": one.side,
        "stage": one.stage,
        "activity": one.activity,
        "family": text(one.family),
        "name": text(one.name),
        "calls": figure(one.calls),
        "ns": ns(one.ns),
        "replaces": one.replaces,
    }


def _against(found: Against | None) -> Json | None:
    if found is None:
        return None
    return {
        "plain": found.plain,
        "step_ns": ns(found.step_ns),
        "cycle_ns": ns(found.cycle_ns),
        "verify_ns": ns(found.verify_ns),
        "verify_over_step": figure(found.verify_ns / found.step_ns),
        "traced": _throughput(found.traced),
        "unprofiled": None if found.unprofiled is None else _throughput(found.unprofiled),
        "parts": [
            {
                "stage": part.stage,
                "state": part.state,
                "what": part.what,
                "step_ns": part.a_ns,
                "cycle_ns": part.b_ns,
                "change_ns": part.change_ns,
            }
            for part in found.parts
        ],
    }


def _throughput(words: Throughput) -> Json:
    acceptance = words.acceptance
    return {
        "cycle_ns": ns(words.cycle_ns),
        "step_ns": None if words.baseline is None else ns(words.baseline.step_ns),
        "break_even": figure(words.break_even),
        "accept_length": None if acceptance is None else figure(acceptance.accept_length),
        "simulated_acceptance": None if acceptance is None else acceptance.simulated,
        "speed_up": figure(words.speed_up),
    }


def _check(one: Checked) -> Json:
    return {
        "check": text(one.check.text),
        "value": figure(one.value),
        "passed": one.passed,
        "reason": text(one.reason) or None,
    }
