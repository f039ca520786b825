"""Plotly figures of the live view: the cycle by stage, by rank, and what it gives, over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Final

import plotly.graph_objects as go

from specscope.analyzers.live_view import LiveView
from specscope.analyzers.words import STAGES
from specscope.dashboards.live_sections import lap
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import time_text

_FONT: Final = "#7A7A7A"
_RULES: Final = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.6)"}
_TIME: Final = {**_RULES, "type": "date", "tickformat": "%H:%M:%S", "tickangle": 0, "nticks": 7}
# Ranks have no colour of their own: stages do. Their lines differ by dash and mark.
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MARKS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon")


def stages_figure(view: LiveView) -> go.Figure:
    """Mean milliseconds of each stage, stacked: the top is the mean cycle."""
    figure = go.Figure()
    times = _times(view)
    found = {name for point in view.points for name in point.stage_ns}
    for name in (stage for stage in STAGES if stage in found):
        ns = [point.stage_ns.get(name) for point in view.points]
        figure.add_trace(
            go.Bar(
                x=times,
                y=[None if value is None else value / 1e6 for value in ns],
                name=stage_name(name),
                marker={"color": stage_colour(name), "line": {"width": 0}},
                hoverinfo="text",
                hovertext=[f"{stage_name(name)}<br>{time_text(value)}" for value in ns],
            )
        )
    figure.update_layout(**_layout(), barmode="stack", bargap=0.08, showlegend=True)
    figure.update_xaxes(**_TIME)
    figure.update_yaxes(title=f"mean ms a {lap(view)}", rangemode="tozero", **_RULES)
    return figure


def ranks_figure(view: LiveView) -> go.Figure:
    """Mean cycle of each rank."""
    figure = go.Figure()
    for index, rank in enumerate(view.ranks):
        ns = [point.cycle_ns.get(rank.rank) for point in view.points]
        name = "this process" if rank.rank is None else f"rank {rank.rank}"
        figure.add_trace(
            _line(
                _times(view),
                [None if value is None else value / 1e6 for value in ns],
                name,
                [f"{name}<br>{time_text(value)}" for value in ns],
                index,
            )
        )
    figure.update_layout(**_layout(), showlegend=True)
    figure.update_xaxes(**_TIME)
    figure.update_yaxes(title=f"mean ms a {lap(view)}", **_RULES)
    return figure


def accept_figure(view: LiveView) -> go.Figure:
    """Accept length, the bonus token included."""
    values = [point.accept_length for point in view.points]
    words = ["" if value is None else f"accept length {value:.2f}" for value in values]
    return _one_line(view, values, "accept length", words)


def batch_figure(view: LiveView) -> go.Figure:
    """Sequences in a cycle."""
    values = [point.batch for point in view.points]
    words = ["" if value is None else f"mean batch {value:.1f}" for value in values]
    return _one_line(view, values, "mean batch", words)


def _one_line(view: LiveView, values: list[float | None], name: str, words: list[str]) -> go.Figure:
    figure = go.Figure()
    if any(value is not None for value in values):
        figure.add_trace(_line(_times(view), values, name, words, 0))
    figure.update_layout(**_layout(), showlegend=False)
    figure.update_xaxes(**_TIME)
    figure.update_yaxes(title=name, rangemode="tozero", **_RULES)
    return figure


def _line(
    x: Sequence[datetime], y: Sequence[float | None], name: str, words: list[str], index: int
) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers",
        line={"color": _FONT, "width": 1.5, "dash": _DASHES[index % len(_DASHES)]},
        marker={"symbol": _MARKS[index % len(_MARKS)], "size": 6},
        connectgaps=False,
        hoverinfo="text",
        hovertext=words,
    )


def _times(view: LiveView) -> list[datetime]:
    """As times of day: Plotly shows a date as it is written, so it is written in local time."""
    here = datetime.now(timezone.utc).astimezone().tzinfo
    return [
        datetime.fromtimestamp(point.time_ns / 1e9, here).replace(tzinfo=None)
        for point in view.points
    ]


def _layout() -> dict[str, Any]:
    return {
        "template": "none",
        "height": 280,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "font": {"color": _FONT, "size": 12, "family": "system-ui, sans-serif"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": _FONT},
        "hoverlabel": {"align": "left", "namelength": -1},
        "hovermode": "closest",
        # Zoom and hidden stages stay when the figure is drawn anew.
        "uirevision": "live",
    }
