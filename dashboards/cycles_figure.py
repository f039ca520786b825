"""The cycles of a run over their numbers: how long each took, and which stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Points:
    """The cycles of one rank as they are drawn; made once for a run."""

    rank: int
    cycle: list[int]
    ms: list[float]
    marked: list[bool]
    words: list[str]
    left_out: int

    def of(self, cycle: int | None) -> tuple[list[int], list[float]]:
        """The point of that cycle, where it is drawn."""
        at = [i for i, number in enumerate(self.cycle) if number == cycle]
        return [self.cycle[i] for i in at], [self.ms[i] for i in at]


def points_of(rank: int, table: pa.Table, lap: str) -> Points:
    """The points of one rank, by its rows of `cycles`."""
    keep = _kept(table)
    rows = table.take(pa.array(keep)).to_pylist()
    ms = [(row["end_ns"] - row["start_ns"]) / 1e6 for row in rows]
    words = [
        f"rank {rank}, {lap} {row['cycle']}<br>{time_text(one * 1e6)}<br>{row['kind']}"
        + ("" if row["batch"] is None else f", batch {row['batch']}")
        + (f"<br>marked: {row['mark']}" if row["mark"] else "")
        for row, one in zip(rows, ms, strict=True)
    ]
    return Points(
        rank,
        [row["cycle"] for row in rows],
        ms,
        [bool(row["mark"]) for row in rows],
        words,
        table.num_rows - len(rows),
    )


def cycles_figure(
    ranks: Sequence[Points], chosen: tuple[int | None, int | None], lap: str
) -> tuple[go.Figure, str]:
    """Length of each cycle of these ranks, and what is left out. `chosen` is (rank, cycle)."""
    figure = go.Figure()
    for index, one in enumerate(ranks):
        figure.add_trace(
            go.Scatter(
                x=one.cycle,
                y=one.ms,
                name=f"rank {one.rank}",
                mode="markers",
                marker={
                    "symbol": _MARKS[index % len(_MARKS)],
                    "size": 6,
                    # As numbers: a colour for each point would be checked one by one.
                    "color": np.array(one.marked, np.int8),
                    "colorscale": [[0, _FONT], [1, "rgba(0,0,0,0)"]],
                    "cmin": 0,
                    "cmax": 1,
                    "showscale": False,
                    "line": {"color": _FONT, "width": 1.2},
                },
                customdata=one.cycle,
                hoverinfo="text",
                hovertext=one.words,
                showlegend=True,
            )
        )
        if one.rank == chosen[0]:
            x, y = one.of(chosen[1])
            ring = {"symbol": "circle-open", "size": 14, "color": _CHOSEN, "line": {"width": 2.5}}
            figure.add_trace(
                go.Scatter(x=x, y=y, name="chosen", mode="markers", marker=ring, hoverinfo="skip")
            )
    left_out = sum(one.left_out for one in ranks)
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
