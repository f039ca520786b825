"""Key `throughput` of the JSON report."""

from __future__ import annotations

from typing import Any

from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.device_check import DeviceCheck
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Throughput
from specscope.analyzers.verify_cost import Line
from specscope.dashboards.json_values import figure, ns, share, shares, text

Json = dict[str, Any]


def throughput_json(report: Report) -> Json | None:
    """What the cycle gives; null without speculation or without a cycle."""
    found = report.throughput
    if found is None:
        return None
    return {
        "cycle_ns": ns(found.cycle_ns),
        "cycle_source": text(found.cycle_source),
        "profiled": found.profiled,
        "batch": found.batch,
        "k": found.k,
        "acceptance": _acceptance(found.acceptance),
        "positions": _acceptance(found.positions),
        "other_acceptances": [_acceptance(one) for one in found.others],
        "sign": (
            {"wiring": found.sign.wiring, "sentence": text(found.sign.sentence)}
            if found.sign
            else None
        ),
        "baseline": (
            {
                "step_ns": ns(found.baseline.step_ns),
                "source": text(found.baseline.source),
                "profiled": found.baseline.profiled,
            }
            if found.baseline
            else None
        ),
        "tokens_per_second": figure(found.tokens_per_second),
        "plain_tokens_per_second": figure(found.plain_tokens_per_second),
        "break_even": figure(found.break_even),
        "break_even_cycle_ns": ns(found.break_even_cycle_ns),
        "speed_up": figure(found.speed_up),
        "perfect_tokens_per_second": figure(found.perfect_tokens_per_second),
        "perfect_speed_up": figure(found.perfect_speed_up),
        "free_draft_gain": figure(found.free_draft_gain),
        "free_draft_gain_range": _figures(found.free_draft_gains),
        "stages": _stages(found),
        "draft_tokens": _draft_tokens(found),
        "draft_step": _step(found),
        "verify_cost": _line(found.verify_line),
        "growth": [
            {
                "batch": one.batch,
                "tokens": one.tokens,
                "verify_ns": ns(one.verify_ns),
                "cycle_ns": ns(one.cycle_ns),
                "tokens_per_second": figure(one.tokens_per_second),
                "break_even": figure(one.break_even),
                "speed_up": figure(one.speed_up),
            }
            for one in found.growth
        ],
        "device_timers": _device(found.device),
        "log_rate": (
            {
                "batch": found.log_rate.batch,
                "lines": found.log_rate.lines,
                "tokens_per_second": figure(found.log_rate.tokens_per_second),
                "cycle_ns": ns(found.log_cycle_ns),
            }
            if found.log_rate
            else None
        ),
        "missing": [text(one) for one in found.missing],
    }


def _acceptance(known: Acceptance | None) -> Json | None:
    if known is None:
        return None
    return {
        "accept_length": figure(known.accept_length),
        "source": text(known.source),
        "simulated": known.simulated,
        "by_position": [share(one) for one in known.by_position],
        "conditional": [share(one) for one in known.conditional],
        "cycles": figure(known.cycles),
        "rate": share(known.rate),
        "convention": text(known.convention),
    }


def _stages(found: Throughput) -> list[Json]:
    return [
        {
            "stage": one.stage,
            "ns": ns(one.ns),
            "range": [ns(end) for end in one.range_ns],
            "per_token_ns": ns(found.per_token_ns(one)),
            "of_plain_step": figure(found.stage_ratio(one.stage)),
        }
        for one in found.stages
    ]


def _draft_tokens(found: Throughput) -> list[Json]:
    return [
        {
            "position": one.i,
            "accepted": share(one.accepted),
            "accept_length": figure(one.accept_length),
            "tokens_per_second_of_a_sequence": _figures(one.per_second),
            "gain": shares(one.gain) if one.gain else None,
        }
        for one in found.token_values
    ]


def _step(found: Throughput) -> Json | None:
    step = found.step
    if step is None:
        return None
    return {
        "draft_ns": ns(step.draft_ns),
        "verify_range": [ns(end) for end in step.verify_ns],
        "basis": text(step.basis),
    }


def _line(line: Line | None) -> Json | None:
    if line is None:
        return None
    return {
        "fixed_ns": ns(line.fixed_ns),
        "per_token_ns": ns(line.per_token_ns),
        "error_ns": ns(line.error_ns),
        "per_token_error_ns": ns(line.per_token_error_ns),
        "with_plain_step": line.with_plain,
        "points": [
            {"tokens": figure(point.tokens), "ns": ns(point.ns), "source": text(point.source)}
            for point in line.points
        ],
    }


def _device(device: DeviceCheck | None) -> Json | None:
    if device is None:
        return None
    return {
        "source": text(device.source),
        "between_two_texts": device.between,
        "stages": [
            {
                "stage": row.stage,
                "seconds": figure(row.seconds),
                "share": share(row.share),
                "trace_share": share(row.trace_share),
            }
            for row in device.rows
        ],
        "left_out": [text(one) for one in device.left_out],
    }


def _figures(pair: tuple[float, float] | None) -> list[float | None] | None:
    return None if pair is None else [figure(end) for end in pair]
