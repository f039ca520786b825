"""The figures of one report by name, for a notebook: those of the page."""

from __future__ import annotations

from typing import Final

from specscope.analyzers.report import Report
from specscope.dashboards import sections
from specscope.dashboards.cycle_slice import CycleSlice, chosen_cycles, parts_of
from specscope.dashboards.figures import MOST_BARS, parts_figure, timeline_figure
from specscope.dashboards.figures_ranks import sizes_panel, skew_panel
from specscope.dashboards.figures_run import activity_panel, cycles_panel
from specscope.dashboards.panel import Panel
from specscope.dashboards.units import count_text, time_text

_BLIND: Final = "GPU work is missing in the trace: what looks idle may have worked."
_NO_OPS: Final = "There are no ops in this cycle."


def panels(report: Report, cycle: int | None = None) -> dict[str, Panel]:
    """Every view of the report; `cycle` chooses the one that is drawn, else the middle one.

    `parts` is that cycle by stage, `timeline` the same in time, `cycles` all of them,
    `activities` what the stages are made of, `skew` who waits for whom in that cycle, `sizes`
    what a message costs. One without a figure says why.

    Raises:
        UsageError: there is no such cycle.
        EvidenceError: a cycle was asked for and the trace has none.
    """
    every = cycles_panel(report)
    pieces = chosen_cycles(report, cycle)
    found = (
        *_of_cycle(report, pieces, every.empty),
        every,
        activity_panel(report),
        skew_panel(report, pieces[0].number if pieces else None),
        sizes_panel(report),
    )
    return {panel.name: panel for panel in found}


def _of_cycle(report: Report, pieces: list[CycleSlice], no_cycle: str) -> tuple[Panel, Panel]:
    """One cycle, by stage and in time."""
    if not pieces:
        return Panel("parts", "One cycle", empty=no_cycle), Panel(
            "timeline", "One cycle in time", empty=no_cycle
        )
    first, names = pieces[0], sections.stage_names(report)
    title = f"One {sections.lap(report)}: number {first.number} of rank {first.rank}"
    note = f"{time_text(first.ns)}. Hatched is a collective, dotted a copy, light is idle."
    parts = Panel("parts", title, empty=_BLIND)
    if not report.blind:
        rows = [(piece, parts_of(report, piece)) for piece in pieces]
        parts = Panel("parts", title, parts_figure(rows, names), note)
    if not any(piece.ops for piece in pieces):
        return parts, Panel("timeline", f"{title}, in time", empty=_NO_OPS)
    timeline, left_out = timeline_figure(pieces, names, MOST_BARS)
    missing = f"The {count_text(left_out)} shortest ops and calls are not drawn." * bool(left_out)
    return parts, Panel("timeline", f"{title}, in time", timeline, missing)
