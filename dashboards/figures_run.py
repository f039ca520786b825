"""Views of a whole run: its cycles one after the other, and what the stages are made of."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from specscope.analyzers.columns import Int
from specscope.analyzers.report import Report
from specscope.dashboards.figures import RULES, layout
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.panel import MOST_POINTS, Panel
from specscope.dashboards.sections import stage_names
from specscope.dashboards.units import count_text, share_text, time_text

_CYCLES: Final = "Cycles over time"
_ACTIVITIES: Final = "What the stages are made of"
# Marks are told apart by their shape; ranks by the dash of their line.
_SHAPES: Final = {"": "circle", "warmup": "triangle-up-open", "outlier": "x"}
_MARKS: Final = {"": "", "warmup": ", warm-up", "outlier": ", outlier"}
_DASHES: Final = ("solid", "dot", "dash", "dashdot")
_GREYS: Final = ("#5F6B7A", "#8F7F66", "#6E8A6E", "#8A6E88")
_SHOWN: Final = ("rank", "cycle", "kind", "batch", "start_ns", "end_ns", "mark")
_CYCLES_HEIGHT: Final = 320
_TREE_HEIGHT: Final = 420


def cycles_panel(report: Report, most: int = MOST_POINTS) -> Panel:
    """The length of every whole cycle of every rank, in their order.

    A point holds [rank, cycle] as its `customdata`. Beyond `most` points those of the middle are
    left out: the shortest and the longest of each stretch and all that are marked stay.
    """
    table = report.tables["cycles"]
    if not table.num_rows:
        return Panel("cycles", _CYCLES, empty=_no_cycles(report))
    rows = table.select(
        ["rank", "cycle", "kind", "batch", "start_ns", "end_ns", "mark"]
    ).to_pylist()
    ranks = sorted({row["rank"] for row in rows})
    figure = go.Figure()
    left_out = 0
    for number, rank in enumerate(ranks):
        own = [row for row in rows if row["rank"] == rank]
        kept = _thinned(own, max(most // len(ranks), 2))
        left_out += len(own) - len(kept)
        figure.add_traces(_cycles_traces(rank, kept, number))
    figure.update_layout(**layout(_CYCLES_HEIGHT))
    figure.update_xaxes(title="number of the cycle on its rank", **RULES)
    figure.update_yaxes(title="ms", rangemode="tozero", **RULES)
    note = "A cross is an outlier, an open triangle warm-up: both are left out of means."
    if left_out:
        note += (
            f" {count_text(left_out)} cycles are not drawn: of each stretch the shortest and the "
            "longest are, and all that are marked."
        )
    return Panel("cycles", _CYCLES, figure, note)


def _cycles_traces(rank: int, rows: Sequence[dict[str, Any]], number: int) -> list[go.Scatter]:
    """A line that names the rank, and on it the points, which have a shape each."""
    colour = _GREYS[number % len(_GREYS)]
    x = [row["cycle"] for row in rows]
    y = [(row["end_ns"] - row["start_ns"]) / 1e6 for row in rows]
    line = {"color": colour, "width": 1, "dash": _DASHES[number % len(_DASHES)]}
    name = f"rank {rank}"
    drawn = go.Scatter(
        x=x, y=y, mode="lines", name=name, legendgroup=name, line=line, hoverinfo="skip"
    )
    points = go.Scatter(
        x=x,
        y=y,
        mode="markers",
        name=name,
        legendgroup=name,
        showlegend=False,
        marker={
            "color": colour,
            "size": [10 if row["mark"] else 6 for row in rows],
            "symbol": [_SHAPES.get(row["mark"], "circle") for row in rows],
        },
        customdata=[[rank, row["cycle"]] for row in rows],
        hoverinfo="text",
        hovertext=[_cycle_text(row) for row in rows],
    )
    return [drawn, points]


def _cycle_text(row: dict[str, Any]) -> str:
    batch = "" if row["batch"] is None else f", batch {row['batch']}"
    return (
        f"rank {row['rank']}, cycle {row['cycle']}<br>{row['kind']}{batch}"
        f"{_MARKS.get(row['mark'], '')}<br>{time_text(row['end_ns'] - row['start_ns'])}"
    )


def _thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most about `most` rows, besides those that are marked."""
    if len(rows) <= most:
        return rows
    ns: Int = np.array([row["end_ns"] - row["start_ns"] for row in rows], np.int64)
    kept = {place for place, row in enumerate(rows) if row["mark"]}
    for stretch in np.array_split(np.arange(len(rows)), max(most // 2, 1)):
        kept.update((int(stretch[ns[stretch].argmin()]), int(stretch[ns[stretch].argmax()])))
    return [rows[place] for place in sorted(kept)]


def activity_panel(report: Report) -> Panel:
    """The work of each stage by activity, as areas: the medians a cycle of the report."""
    if not report.activities:
        return Panel("activities", _ACTIVITIES, empty=_no_activities(report))
    names = stage_names(report)
    stages = list(dict.fromkeys(row.stage for row in report.activities))
    figure = go.Figure(
        go.Treemap(
            ids=[*stages, *(f"{row.stage}/{row.activity}" for row in report.activities)],
            labels=[
                *(html.escape(names[stage], quote=False) for stage in stages),
                *(row.activity.replace("_", " ") for row in report.activities),
            ],
            parents=[*("" for _ in stages), *(row.stage for row in report.activities)],
            values=[*(0.0 for _ in stages), *(row.ns / 1e6 for row in report.activities)],
            branchvalues="remainder",
            marker={
                "colors": [
                    *(stage_colour(stage) for stage in stages),
                    *(stage_colour(row.stage) for row in report.activities),
                ],
                "line": {"color": "#FFFFFF", "width": 1},
            },
            text=[
                *("" for _ in stages),
                *(
                    f"{time_text(row.ns)}<br>{share_text(row.cycle_share)} of the cycle"
                    for row in report.activities
                ),
            ],
            textinfo="label+text",
            hoverinfo="label+text",
            textfont={"color": "#FFFFFF"},
            pathbar={"visible": True},
        )
    )
    figure.update_layout(**{**layout(_TREE_HEIGHT), "margin": {"l": 0, "r": 0, "t": 24, "b": 0}})
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 10})
    note = "Medians a cycle, work only; click a stage to open it, the bar above to go back."
    return Panel("activities", _ACTIVITIES, figure, note)


def _no_cycles(report: Report) -> str:
    if not report.tables["ops"].num_rows and not report.tables["calls"].num_rows:
        return "No whole cycle: there are neither ops nor calls in this input."
    return (
        "No whole cycle was found in this trace; capture longer, or with specscope's ranges "
        "(docs/attach.md)."
    )


def _no_activities(report: Report) -> str:
    if report.on_host:
        return "Nothing ran on a GPU: what the host did is in the table of stages."
    if report.blind:
        return "GPU work is missing in the trace, so that no activity has a length."
    return _no_cycles(report)
