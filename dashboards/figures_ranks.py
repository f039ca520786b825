"""Views of all ranks together: who waits for whom in one cycle, and what a message costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc
from plotly.subplots import make_subplots

from specscope.analyzers.report import Report
from specscope.dashboards.figures import RULES, label, layout
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.panel import MOST_POINTS, Panel
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import stage_names
from specscope.dashboards.units import count_text, time_text

Row = dict[str, Any]
Names = Mapping[str, str]

_SKEW: Final = "Who waits for whom"
_SIZES: Final = "What a message costs"
_TABLE: Final = "matched_collectives"
_ROW: Final = 34
_MOST_OF_THEM: Final = 0.98
_SIZES_HEIGHT: Final = 380
_SYMBOLS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "star")
# From light to dark, told apart in grey too; no colour of a stage.
_WAIT_COLOURS: Final = "Cividis"


def skew_panel(report: Report, cycle: int | None) -> Panel:
    """The wait of each rank in every collective of one cycle, and the late rank of each.

    `cycle` is that of the first rank of the run.
    """
    if (reason := _no_group(report)) or cycle is None:
        return Panel("skew", _SKEW, empty=reason or "No whole cycle that all ranks have.")
    found = _of_cycle(report.tables[_TABLE], cycle)
    if not found:
        return Panel("skew", _SKEW, empty=f"No matched collective in cycle {cycle}.")
    ranks = sorted({row["rank"] for row in found})
    order = {one: place for place, one in enumerate(dict.fromkeys(r["collective"] for r in found))}
    names = stage_names(report)
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.12,
        subplot_titles=("wait of each rank", "the rank that arrived last"),
    )
    figure.add_trace(_wait_map(found, ranks, order, names), row=1, col=1)
    for stage in dict.fromkeys(row["stage"] for row in found):
        rows = [row for row in found if row["stage"] == stage and row["rank"] == row["late_rank"]]
        figure.add_trace(_late_trace(rows, ranks, order, names, stage), row=2, col=1)
    figure.update_layout(**layout(210 + 2 * _ROW * len(ranks)))
    figure.update_layout(legend={"y": 1.14}, margin={"t": 70})
    ticks = {"tickvals": list(range(len(ranks))), "ticktext": [f"rank {rank}" for rank in ranks]}
    figure.update_yaxes(**ticks, range=[len(ranks) - 0.5, -0.5], fixedrange=True, **RULES)
    figure.update_xaxes(showgrid=False, ticks="", row=1, col=1)
    figure.update_xaxes(title="collectives of the cycle, in their order", row=2, col=1, **RULES)
    note = (
        f"Cycle {cycle} of rank {ranks[0]}: {count_text(len(order))} collectives. Dark is no wait, "
        f"{time_text(_brightest(found))} and more are the brightest. "
        "A point is a collective for which that rank was late; none where all came together."
    )
    return Panel("skew", _SKEW, figure, note)


def _of_cycle(table: pa.Table, cycle: int) -> list[Row]:
    """The rows of the collectives that lie in that cycle of the first rank, in their order."""
    first = table["rank"][0].as_py() if table.num_rows else None
    own = table.filter(pc.and_(pc.equal(table["rank"], first), pc.equal(table["cycle"], cycle)))
    every = table.filter(
        pc.is_in(table["collective"], value_set=own["collective"].combine_chunks())
    )
    rows: list[Row] = every.sort_by(
        [("collective", "ascending"), ("rank", "ascending")]
    ).to_pylist()
    return rows


def _wait_map(
    found: Sequence[Row],
    ranks: list[int],
    order: dict[int, int],
    names: Names,
) -> go.Heatmap:
    waits: list[list[float | None]] = [[None] * len(order) for _ in ranks]
    texts = [[""] * len(order) for _ in ranks]
    for row in found:
        line, place = ranks.index(row["rank"]), order[row["collective"]]
        waits[line][place] = row["wait_ns"] / 1e3
        texts[line][place] = _collective_text(row, names)
    return go.Heatmap(
        z=waits,
        hovertext=texts,
        hoverinfo="text",
        colorscale=_WAIT_COLOURS,
        colorbar={"title": "us", "thickness": 12},
        zmin=0,
        zmax=_brightest(found) / 1e3,
    )


def _brightest(found: Sequence[Row]) -> float:
    """The wait, in ns, from which on all are of one colour: few long ones would hide the others."""
    waits = np.array([row["wait_ns"] for row in found], np.float64)
    return max(float(np.quantile(waits, _MOST_OF_THEM)), 1.0)


def _late_trace(
    rows: Sequence[Row],
    ranks: list[int],
    order: dict[int, int],
    names: Names,
    stage: str,
) -> go.Scatter:
    return go.Scatter(
        x=[order[row["collective"]] for row in rows],
        y=[ranks.index(row["rank"]) for row in rows],
        mode="markers",
        name=names[stage],
        marker={"symbol": "line-ns-open", "size": 14, "color": stage_colour(stage)},
        hoverinfo="text",
        hovertext=[_late_text(row, names) for row in rows],
    )


def _collective_text(row: Row, names: Names) -> str:
    return (
        f"rank {row['rank']}, collective {row['collective']}<br>{names[row['stage']]}, "
        f"{label(row['kind'])}<br>waits {time_text(row['wait_ns'])}, "
        f"transfers {time_text(row['transfer_ns'])}"
    )


def _late_text(row: Row, names: Names) -> str:
    cause = row["cause"] or "unknown"
    return (
        f"rank {row['rank']} is late by {time_text(row['late_ns'])}<br>{names[row['stage']]}, "
        f"{label(row['kind'])}<br>cause: {cause}"
    )


def sizes_panel(report: Report, most: int = MOST_POINTS) -> Panel:
    """The transfer of every collective against its size, both on logarithmic scales."""
    if reason := _no_group(report):
        return Panel("sizes", _SIZES, empty=reason)
    table = report.tables[_TABLE]
    known = table.filter(pc.and_(pc.is_valid(table["bytes"]), pc.greater(table["transfer_ns"], 0)))
    if not known.num_rows:
        return Panel(
            "sizes",
            _SIZES,
            empty="No message size is on record; specscope ranks --model-config config.json gives "
            "those of all-reduces (docs/ranks.md).",
        )
    step = -(-known.num_rows // most)
    rows = known.take(pa.array(range(0, known.num_rows, step))).to_pylist()
    names = stage_names(report)
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure = go.Figure()
    for stage, kind in dict.fromkeys((row["stage"], row["kind"]) for row in rows):
        own = [row for row in rows if (row["stage"], row["kind"]) == (stage, kind)]
        figure.add_trace(
            go.Scatter(
                x=[row["bytes"] for row in own],
                y=[row["transfer_ns"] / 1e3 for row in own],
                mode="markers",
                name=f"{names[stage]}, {label(kind)}",
                marker={
                    "color": stage_colour(stage),
                    "symbol": _SYMBOLS[kinds.index(kind) % len(_SYMBOLS)],
                    "size": 6,
                    "opacity": 0.5,
                },
                hoverinfo="text",
                hovertext=[_size_text(row, names) for row in own],
            )
        )
    figure.update_layout(**layout(_SIZES_HEIGHT))
    figure.update_xaxes(title="bytes", type="log", **RULES)
    figure.update_yaxes(title="transfer, us", type="log", **RULES)
    note = "Transfer is what is left after the last rank arrived."
    if step > 1:
        note += f" One in {count_text(step)} of {count_text(known.num_rows)} is drawn."
    return Panel("sizes", _SIZES, figure, note)


def _size_text(row: Row, names: Names) -> str:
    rate = "" if row["busbw"] is None else f", bus bandwidth {row['busbw']:.2f} GB/s"
    return (
        f"rank {row['rank']}, collective {row['collective']}<br>{names[row['stage']]}, "
        f"{label(row['kind'])}<br>{count_text(row['bytes'])} bytes: "
        f"{time_text(row['transfer_ns'])}{rate}"
    )


def _no_group(report: Report) -> str:
    """Why nothing can be said of the ranks together; empty where something can."""
    if _TABLE in report.tables and report.tables[_TABLE].num_rows:
        return ""
    if len(report.run.ranks) < 2:
        return "One rank was read: there is no other to wait for. Give the traces of all ranks."
    if report.group is not None and report.group.refused:
        return f"Waiting cannot be told from transferring: {clean(report.group.refused)}"
    return "No collectives are on record, so nothing shows what the ranks wait for."
