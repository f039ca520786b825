"""The cycles of a run over their numbers: how long each took, and which stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa

from specscope.analyzers.columns import Int
from specscope.dashboards.units import time_text

# Points of one rank; of more the marked ones and every n-th are drawn.
MOST_POINTS: Final = 2_000
_FONT: Final = "#7A7A7A"
_RULES: Final = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.6)"}
_MARKS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon")
_CHOSEN: Final = "#E6695E"


def cycles_figure(
    ranks: Sequence[tuple[int, pa.Table]], chosen: tuple[int | None, int | None], lap: str
) -> tuple[go.Figure, str]:
    """Length of each cycle of these ranks, and what is left out. `chosen` is (rank, cycle)."""
    figure = go.Figure()
    left_out = 0
    for index, (rank, table) in enumerate(ranks):
        keep = _kept(table)
        left_out += table.num_rows - len(keep)
        rows = table.take(pa.array(keep)).to_pylist()
        ms = [(row["end_ns"] - row["start_ns"]) / 1e6 for row in rows]
        marks = [row["mark"] or "" for row in rows]
        picked = [rank == chosen[0] and row["cycle"] == chosen[1] for row in rows]
        figure.add_trace(
            go.Scatter(
                x=[row["cycle"] for row in rows],
                y=ms,
                name=f"rank {rank}",
                mode="markers",
                marker={
                    "symbol": _MARKS[index % len(_MARKS)],
                    "size": [11 if one else 6 for one in picked],
                    "color": [
                        _CHOSEN if one else _FONT if not mark else "rgba(0,0,0,0)"
                        for one, mark in zip(picked, marks, strict=True)
                    ],
                    "line": {"color": _FONT, "width": 1.2},
                },
                customdata=[[rank, row["cycle"]] for row in rows],
                hoverinfo="text",
                hovertext=[
                    f"rank {rank}, {lap} {row['cycle']}<br>{time_text(one * 1e6)}<br>{row['kind']}"
                    + ("" if row["batch"] is None else f", batch {row['batch']}")
                    + (f"<br>marked: {mark}" if mark else "")
                    for row, one, mark in zip(rows, ms, marks, strict=True)
                ],
                showlegend=True,
            )
        )
    figure.update_layout(
        template="none",
        height=260,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        font={"color": _FONT, "size": 12, "family": "system-ui, sans-serif"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": _FONT},
        hovermode="closest",
        clickmode="event",
    )
    figure.update_xaxes(title=lap, **_RULES)
    figure.update_yaxes(title="ms", rangemode="tozero", **_RULES)
    words = f"{left_out:,} unmarked ones are not drawn" if left_out else ""
    return figure, words


def _kept(table: pa.Table) -> Int:
    """Rows to draw: all, or the marked ones and every n-th."""
    count = table.num_rows
    if count <= MOST_POINTS:
        return np.arange(count)
    marked = np.array([bool(mark) for mark in table["mark"].to_pylist()], dtype=bool)
    step = -(-count // MOST_POINTS)
    found: Int = np.flatnonzero(marked | (np.arange(count) % step == 0))
    return found
