"""The timeline of a whole run as a figure, drawn anew for every stretch that is looked at.

From afar a lane is a row of columns: the colour is the stage that has most of a column, its
depth the share of the column in which anything ran. From near every op and call is a bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa

from specscope.analyzers.timeline import BLOCKING, CLASSES, Bar, Lane, Shares, Timeline
from specscope.analyzers.words import STAGES
from specscope.dashboards import figures
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import count_text, time_text

# More bars than this make a page slow.
MOST_BARS: Final = 5_000
COLUMNS: Final = 600
_FONT: Final = "#7A7A7A"
_BLOCKING_COLOUR: Final = "#BBBBBB"
_LANE: Final = 30
_FAINT: Final = 0.25


# Kernels come again and again.
_label = lru_cache(maxsize=8192)(figures.label)


@dataclass(frozen=True)
class Drawn:
    """The figure of one stretch, what it says of itself, and the rows behind it."""

    figure: go.Figure
    says: str
    rows: pa.Table


def timeline_view(found: Timeline, rank: int | None, low: int, high: int) -> Drawn:
    """The stretch [low, high) of those lanes, in nanoseconds of the run's axis."""
    lanes = found.of(rank)
    count = found.count(lanes, low, high)
    if count <= MOST_BARS:
        bars = list(found.bars(lanes, low, high))
        says = f"{count_text(len(bars))} ops and calls, each one drawn"
        return Drawn(_bars_figure(lanes, bars, low, high), says, _bar_rows(lanes, bars))
    edges = np.linspace(low, high, COLUMNS + 1).astype(np.int64)
    shares = np.stack([lane.shares(edges) for lane in lanes])
    says = (
        f"{count_text(count)} ops and calls: a column is {time_text((high - low) / COLUMNS)}, "
        "coloured by the stage that has most of it, paler where less of it is busy; zoom in for "
        "the ops"
    )
    return Drawn(
        _raster_figure(lanes, shares, edges, low, high), says, _raster_rows(lanes, shares, edges)
    )


def _name(code: int) -> str:
    return "blocking call" if code == BLOCKING else stage_name(CLASSES[code])


def _colour(code: int) -> str:
    return _BLOCKING_COLOUR if code == BLOCKING else stage_colour(CLASSES[code])


def _raster_figure(
    lanes: Sequence[Lane], shares: Shares, edges: Any, low: int, high: int
) -> go.Figure:
    busy = shares.sum(axis=1)
    most = shares.argmax(axis=1)
    width = (high - low) / COLUMNS / 1e6
    figure = go.Figure()
    for code in range(len(CLASSES)):
        here = (most == code) & (busy > 0)
        if not here.any():
            continue
        figure.add_trace(
            go.Heatmap(
                z=np.where(here, busy, np.nan),
                x0=low / 1e6 + width / 2,
                dx=width,
                y0=0,
                dy=1,
                name=_name(code),
                colorscale=[[0, _rgba(_colour(code), _FAINT)], [1, _rgba(_colour(code), 1)]],
                zmin=0,
                zmax=1,
                showscale=False,
                showlegend=False,
                hoverongaps=False,
                hovertemplate=f"most of it {_name(code)}<br>%{{z:.1%}} busy<extra></extra>",
            )
        )
        figure.add_trace(_legend(code))
    _finish(figure, lanes, low, high)
    return figure


def _legend(code: int) -> go.Scatter:
    """An entry of the legend; a heat map has none."""
    return go.Scatter(
        x=[None],
        y=[None],
        name=_name(code),
        mode="markers",
        marker={"symbol": "square", "size": 10, "color": _colour(code)},
        showlegend=True,
    )


def _bars_figure(lanes: Sequence[Lane], bars: Sequence[Bar], low: int, high: int) -> go.Figure:
    figure = go.Figure()
    for code in range(len(CLASSES)):
        mine = [bar for bar in bars if bar.code == code]
        if not mine:
            continue
        figure.add_trace(
            go.Bar(
                x=[bar.ns / 1e6 for bar in mine],
                base=[bar.start_ns / 1e6 for bar in mine],
                y=[bar.lane for bar in mine],
                orientation="h",
                width=0.8,
                name=_name(code),
                marker={"color": _colour(code), "line": {"width": 0}},
                hoverinfo="text",
                hovertext=[_text(bar, lanes[bar.lane]) for bar in mine],
                showlegend=True,
            )
        )
    _finish(figure, lanes, low, high)
    figure.update_layout(barmode="overlay")
    return figure


def _text(bar: Bar, lane: Lane) -> str:
    """What a bar says when the pointer is on it."""
    name = _label(bar.name)
    if lane.on_host:
        doing = "blocks its thread" if bar.code == BLOCKING else f"launches {_name(bar.code)}"
        return f"{name}<br>{doing}<br>{time_text(bar.ns)}"
    delay = "launch not on record"
    if bar.delay_ns is not None:
        delay = f"{time_text(bar.delay_ns)} after its launch began"
    activity = bar.activity.replace("_", " ")
    return f"{name}<br>{_name(bar.code)}, {activity}<br>{time_text(bar.ns)}, {delay}"


def _finish(figure: go.Figure, lanes: Sequence[Lane], low: int, high: int) -> None:
    rules = {"gridcolor": "rgba(128,128,128,0.25)"}
    figure.update_layout(
        template="none",
        height=110 + _LANE * max(len(lanes), 2),
        margin={"l": 150, "r": 20, "t": 40, "b": 50},
        font={"color": _FONT, "size": 12, "family": "system-ui, sans-serif"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": _FONT},
        hoverlabel={"align": "left", "namelength": -1},
        hovermode="closest",
        dragmode="zoom",
    )
    figure.update_xaxes(
        title="ms since the run began",
        range=[low / 1e6, high / 1e6],
        zeroline=False,
        tickformat=",",
        **rules,
    )
    figure.update_yaxes(
        tickvals=list(range(len(lanes))),
        ticktext=[_label(lane.name) for lane in lanes],
        range=[len(lanes) - 0.4, -0.6],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
    )


def _bar_rows(lanes: Sequence[Lane], bars: Sequence[Bar]) -> pa.Table:
    return pa.table(
        {
            "lane": [lanes[bar.lane].name for bar in bars],
            "stage": [CLASSES[bar.code] for bar in bars],
            "activity": [bar.activity for bar in bars],
            "name": [bar.name for bar in bars],
            "start_ns": pa.array([bar.start_ns for bar in bars], pa.int64()),
            "ns": pa.array([bar.ns for bar in bars], pa.int64()),
            "delay_ns": pa.array([bar.delay_ns for bar in bars], pa.int64()),
        }
    )


def _raster_rows(lanes: Sequence[Lane], shares: Shares, edges: Any) -> pa.Table:
    """A row for each lane, stage and column in which it has any time."""
    lane, code, column = np.nonzero(shares)
    names = np.array([one.name for one in lanes], dtype=object)
    return pa.table(
        {
            "lane": pa.array(names[lane].tolist(), pa.string()),
            "stage": pa.array(np.array(CLASSES, dtype=object)[code].tolist(), pa.string()),
            "start_ns": pa.array(edges[:-1][column]),
            "end_ns": pa.array(edges[1:][column]),
            "busy_share": pa.array(shares[lane, code, column]),
        }
    )


def _rgba(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


assert CLASSES[:BLOCKING] == STAGES
