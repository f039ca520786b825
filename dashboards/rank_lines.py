"""What the figures of all ranks rest on, in lines: clocks, matching, bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import stage_name, stage_names
from specscope.dashboards.units import count_text, spread, time_text

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group


def fused_lines(group: Group) -> list[str]:
    """What of all-reduces fused with norm is the wire's, as far as a bound exists."""
    lines = []
    for one in group.fused:
        of = f" in {clean(one.group)}" if one.group else ""
        least = "an unknown part" if one.wire_ns is None else time_text(one.wire_ns)
        lines.append(
            f"{stage_name(one.stage)}{of}: of {time_text(one.transfer_ns)} of "
            f"{count_text(one.calls)} all-reduces fused with norm the wire takes {least} to all: "
            f"{one.reason}"
        )
    return lines


def clock_lines(report: Report) -> list[str]:
    """How the ranks were brought onto one clock, and what that rests on."""
    if report.group is None:
        return []
    lines = []
    for part in report.group.measured_parts:
        lines += _clock_lines(report, part)
    return lines


def _clock_lines(report: Report, group: Group) -> list[str]:
    """Those of one process group."""
    assert group.measured is not None
    clocks, matched = group.measured.clocks, group.measured.matched
    named = stage_names(report)[STAGES[clocks.stage]]
    stage = "" if STAGES[clocks.stage] == "unplaced" else f" of {named}"
    offsets = spread((clock.offset_ns for clock in clocks.clocks[1:]), time_text)
    drifts = [abs(clock.drift_ppm) for clock in clocks.clocks]
    drift = f", drift up to {max(drifts):.1f} ppm" if max(drifts) else ""
    lines = [
        f"{clean(group.assumption)}; {count_text(len(matched))} of {spread(matched.total)} "
        "collectives a rank",
        f"clocks aligned by the ends of {count_text(clocks.used)} collectives{stage}: offsets "
        f"against rank {matched.ranks[0]} {offsets}{drift}, residual "
        f"{time_text(clocks.residual_ns)} (95 % under {time_text(clocks.spread_ns)})",
    ]
    return lines + [_skew_line(*found) for found in _skews(group, clocks.spread_ns)]


def _skews(group: Group, spread_ns: float) -> list[tuple[str, float, float]]:
    """Stages in which the ranks' ends differ by more than clocks are known: least and most."""
    found = []
    for stage in dict.fromkeys(row.stage for row in group.rows):
        ends = [
            row.end_skew_ns
            for row in group.rows
            if row.stage == stage and row.end_skew_ns is not None
        ]
        if ends and max(ends) - min(ends) > spread_ns:
            found.append((stage, min(ends), max(ends)))
    return found


def _skew_line(stage: str, least: float, most: float) -> str:
    return (
        f"collectives of {stage_name(stage)} end on each rank between {time_text(least)} and "
        f"{time_text(most)} from the ranks' mean: end skew of the ring, not taken for a clock"
    )
