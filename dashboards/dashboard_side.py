"""One run as the application shows it: its controls and figures, and the rows behind a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from specscope.dashboards import sections
from specscope.dashboards.app_parts import choice, graph, labelled
from specscope.dashboards.app_runs import Shown
from specscope.dashboards.app_state import Side
from specscope.dashboards.cycles_figure import cycles_figure
from specscope.dashboards.figures import parts_figure
from specscope.dashboards.safe_text import clean
from specscope.dashboards.timeline_figures import Drawn, timeline_view
from specscope.dashboards.units import time_text

ALL_RANKS: Final = "all"
NO_RUN: Final = "none"
EMPTY: Final = {"data": [], "layout": {"height": 120}}
FIGURES: Final = (
    ("cycles", "Cycles", "Click one to choose it."),
    ("parts", "The parts of the cycle", ""),
    ("timeline", "Timeline", "Drag to zoom; a double click shows all of it."),
)


def side_layout(name: str) -> Any:
    """Controls, figures and tables of side `name`; callbacks fill them."""
    from dash import dcc, html

    controls = html.Div(
        [
            choice(f"{name}-rank", "Rank", []),
            labelled(
                f"{name}-cycle",
                "Cycle",
                dcc.Input(id=f"{name}-cycle", type="number", min=0, step=1, debounce=True),
            ),
            html.Button("Earlier", id=f"{name}-back"),
            html.Button("Later", id=f"{name}-on"),
            html.Button("This cycle", id=f"{name}-here"),
            html.Button("Whole run", id=f"{name}-whole"),
        ],
        className="controls",
    )
    return html.Section(
        [
            html.Div(id=f"{name}-head"),
            controls,
            *(_figure(name, *figure) for figure in FIGURES),
            html.Div(id=f"{name}-rest"),
            *(dcc.Store(id=f"{name}-{what}") for what in ("pick", "window")),
            dcc.Download(id=f"{name}-file"),
        ],
        id=f"{name}-side",
        hidden=name == "b",
    )


def choice_layout(name: str, runs: Sequence[Shown]) -> Any:
    """The list of runs for side `name`."""
    titles = [{"label": clean(run.name, 80), "value": str(i)} for i, run in enumerate(runs)]
    if name == "b":
        titles.insert(0, {"label": "none", "value": NO_RUN})
    return choice(f"{name}-run", "Run" if name == "a" else "Beside it", titles)


def _figure(side: str, name: str, title: str, hint: str) -> Any:
    from dash import html

    return html.Section(
        [
            html.H2(title),
            html.P(hint, className="soft") if hint else "",
            html.P(id=f"{side}-{name}-says", className="soft"),
            graph(f"{side}-{name}", title, EMPTY),
            html.Div(
                [
                    html.Button("CSV", id=f"{side}-{name}-csv", title=f"Save the rows of: {title}"),
                    html.Button("SVG", id=f"{side}-{name}-svg", title=f"Save as SVG: {title}"),
                ],
                className="controls",
            ),
        ]
    )


def cycles_of(run: Shown, side: Side) -> tuple[Any, str]:
    """The figure of the cycles, and what it says."""
    shown = [points for rank, points in run.points.items() if side.rank in (None, rank)]
    if not shown:
        return cycles_figure([], (None, None), "cycle")[0], "There is no whole cycle in this run."
    of = run.of_cycles(side.rank)
    rank = None if of is None else of.rank
    return cycles_figure(shown, (rank, side.cycle), sections.lap(run.report))


def parts_view(run: Shown, side: Side) -> tuple[Any, str]:
    """The parts of the cycle on each rank, and which one it is."""
    pieces = run.parts(side.rank, side.cycle)
    if not pieces:
        return parts_figure([], run.names), "There is no whole cycle to take apart."
    if run.report.blind:
        return parts_figure([], run.names), "GPU work is missing in this trace: no parts are shown."
    first = pieces[0][0]
    mark = f", marked as {first.row['mark']}" if first.row["mark"] else ""
    says = (
        f"{sections.lap(run.report).capitalize()} {first.number} of rank {first.rank}: "
        f"{time_text(first.ns)}{mark}. Full colour is compute, hatched a collective, dotted a "
        "copy, light is idle; the parts sum to its length."
    )
    return parts_figure(pieces, run.names), says


def timeline_of(run: Shown, side: Side) -> Drawn | None:
    """The stretch of the timeline; None where the run has no ops."""
    if run.timeline is None:
        return None
    return timeline_view(run.timeline, side.rank, side.low, side.high)


def rows_of(run: Shown, side: Side, figure: str) -> pa.Table:
    """The rows that a figure shows."""
    if figure == "timeline":
        drawn = timeline_of(run, side)
        return pa.table({}) if drawn is None else drawn.rows
    if figure == "parts":
        rows = [row for _, parts in run.parts(side.rank, side.cycle) for row in parts]
        return pa.Table.from_pylist(rows) if rows else pa.table({})
    tables = [of.table for rank, of in run.cycles.items() if side.rank in (None, rank)]
    return pa.concat_tables(tables) if tables else pa.table({})
