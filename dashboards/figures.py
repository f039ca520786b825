"""Plotly figures of one cycle: its parts as a stacked bar, and its ops on a timeline.

Names are escaped here, because Plotly reads some tags in its labels.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from specscope.analyzers.words import STAGES
from specscope.dashboards.cycle_slice import Call, CycleSlice, Op
from specscope.dashboards.palette import stage_colour, tint
from specscope.dashboards.safe_text import NAME_LIMIT, clean
from specscope.dashboards.sections import CAUSE_MEANINGS
from specscope.dashboards.units import time_text

# Stage, state, what.
Part = tuple[str, str, str]

# More rectangles than this make a page slow; the shortest are left out then, and it is said.
MOST_BARS: Final = 8000
_FONT: Final = "#7A7A7A"
_IDLE_TINT: Final = 0.22
_HATCH_TINT: Final = 0.6
_HATCH: Final = {"collective": "/", "fused_collective": "/", "copy": ".", "set": "."}
_IDLE_HATCH: Final = {
    "sync": "+",
    "host": "",
    "launch_call": "-",
    "queue": "|",
    "graph": "x",
    "unknown": ".",
}
RULES: Final = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.6)"}
_LANE: Final = 34
_BAR: Final = 0.8
_BLOCKING: Final = "#BBBBBB"
_LINE: Final = 72


def label(text: object, limit: int = NAME_LIMIT) -> str:
    """A name as Plotly shows it: no tags, no control characters, cut into lines."""
    lines = textwrap.wrap(clean(text, limit), _LINE, break_long_words=True) or [""]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def parts_figure(
    pieces: Sequence[tuple[CycleSlice, list[dict[str, Any]]]],
    names: Mapping[str, str],
    also: Sequence[Part] = (),
) -> go.Figure:
    """The parts of one cycle on each rank, from left to right by stage: they sum to its length.

    `names` are the stages as they are called; `also` are the parts that have a trace, in their
    order, also where this cycle has none of them. Full colour is compute, hatched a collective,
    dotted a copy, light is idle.
    """
    ranks = [f"rank {piece.rank}" for piece, _ in pieces]
    figure = go.Figure()
    named: set[str] = set()
    for stage, state, what in also or part_order(row for _, rows in pieces for row in rows):
        ns = [part_ns(rows, stage, state, what) for _, rows in pieces]
        first = stage not in named
        figure.add_trace(_part_trace(ranks, ns, stage, names[stage], state, what, first=first))
        named.add(stage)
    figure.update_layout(
        **layout(height=150 + _LANE * len(ranks)),
        barmode="stack",
        bargap=0.25,
        uniformtext={"mode": "hide", "minsize": 10},
    )
    figure.update_xaxes(title="ms", fixedrange=True, **RULES)
    figure.update_yaxes(autorange="reversed", fixedrange=True)
    return figure


def part_order(rows: Iterable[dict[str, Any]]) -> list[Part]:
    """(stage, state, what): stages in the order of the cycle, work before idle, large first."""
    ns: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["stage"], row["state"], row["what"])
        ns[key] = max(ns.get(key, 0), row["ns"])
    return sorted(
        ns,
        key=lambda key: (STAGES.index(key[0]), key[1] == "idle", key[2] in _HATCH, -ns[key]),
    )


def part_ns(rows: list[dict[str, Any]], stage: str, state: str, what: str) -> int:
    """The length of that part, 0 where it is not among the rows."""
    wanted = (stage, state, what)
    return next((r["ns"] for r in rows if (r["stage"], r["state"], r["what"]) == wanted), 0)


def _part_trace(
    ranks: list[str], ns: list[int], stage: str, name: str, state: str, what: str, *, first: bool
) -> go.Bar:
    colour = stage_colour(stage)
    idle = state == "idle"
    doing = f"idle: {what}" if idle else what
    meaning = f"<br>{CAUSE_MEANINGS.get(what, '')}" if idle else ""
    return go.Bar(
        x=[value / 1e6 for value in ns],
        y=ranks,
        orientation="h",
        name=name,
        legendgroup=stage,
        showlegend=first and not idle,
        marker={
            "color": tint(colour, _IDLE_TINT) if idle else colour,
            "pattern": {
                "shape": (_IDLE_HATCH if idle else _HATCH).get(what, ""),
                "bgcolor": tint(colour, _IDLE_TINT) if idle else colour,
                "fgcolor": tint(colour, _HATCH_TINT),
                "size": 6,
                "solidity": 0.3,
            },
            "line": {"color": "#FFFFFF", "width": 0.5},
        },
        text=[what.replace("_", " ")] * len(ns),
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": "#333333" if idle else "#FFFFFF"},
        customdata=[time_text(value) for value in ns],
        hovertemplate=(
            f"<b>{name}</b>, {doing.replace('_', ' ')}<br>%{{customdata}}{meaning}<extra></extra>"
        ),
    )


def timeline_figure(
    pieces: Sequence[CycleSlice], names: Mapping[str, str], most: int = MOST_BARS
) -> tuple[go.Figure, int]:
    """Host calls and GPU streams of each rank in one cycle; and how many bars were left out.

    Each rank starts at its own begin of the cycle. At most `most` bars are drawn, the longest.
    """
    kept, left_out = _longest(pieces, most)
    lanes = _lanes(pieces)
    figure = go.Figure()
    for stage in [*STAGES, None]:
        rows = [
            (lanes[_lane(piece.rank, row)], row)
            for piece, bars in kept
            for row in bars
            if row.stage == stage
        ]
        if rows:
            name = "blocking call" if stage is None else names[stage]
            figure.add_trace(
                _bars(rows, names, name, _BLOCKING if stage is None else stage_colour(stage))
            )
    figure.update_layout(
        **layout(height=130 + _LANE * len(lanes)),
        barmode="overlay",
        dragmode="zoom",
    )
    figure.update_xaxes(title="ms since the cycle began on its rank", zeroline=True, **RULES)
    figure.update_yaxes(
        tickvals=list(lanes.values()),
        ticktext=[html.escape(lane, quote=False) for lane in lanes],
        range=[len(lanes) - 0.4, -0.6],
        fixedrange=True,
    )
    return figure, left_out


def _longest(
    pieces: Sequence[CycleSlice], most: int
) -> tuple[list[tuple[CycleSlice, list[Op | Call]]], int]:
    """The bars to draw: all of them, or the longest when there are too many for a page."""
    every: list[tuple[CycleSlice, list[Op | Call]]] = [
        (piece, [*piece.ops, *piece.calls]) for piece in pieces
    ]
    lengths = sorted((bar.ns for _, bars in every for bar in bars), reverse=True)
    left_out = max(len(lengths) - most, 0)
    least = lengths[most - 1] if left_out else 0
    room = most
    kept = []
    for piece, bars in every:
        chosen = [bar for bar in bars if bar.ns >= least][:room]
        room -= len(chosen)
        kept.append((piece, chosen))
    return kept, left_out


def _lanes(pieces: Sequence[CycleSlice]) -> dict[str, int]:
    """Lanes from top to bottom: of each rank its host threads, then its streams."""
    names: dict[str, None] = {}
    for piece in pieces:
        ops = sorted(piece.ops, key=lambda op: (op.device, op.stream))
        rows: list[Op | Call] = [*piece.calls, *ops]
        names.update(dict.fromkeys(_lane(piece.rank, row) for row in rows))
    return {name: position for position, name in enumerate(names)}


def _lane(rank: int, row: Op | Call) -> str:
    if isinstance(row, Call):
        return f"rank {rank}, thread {row.thread}"
    return f"rank {rank}, stream {row.stream}"


def _bars(
    rows: Sequence[tuple[int, Op | Call]], names: Mapping[str, str], name: str, colour: str
) -> go.Bar:
    return go.Bar(
        x=[row.ns / 1e6 for _, row in rows],
        base=[row.start_ns / 1e6 for _, row in rows],
        y=[lane for lane, _ in rows],
        orientation="h",
        width=_BAR,
        name=name,
        marker={"color": colour, "line": {"width": 0}},
        hoverinfo="text",
        hovertext=[_text(row, names) for _, row in rows],
    )


def _text(row: Op | Call, names: Mapping[str, str]) -> str:
    """What a bar says when the pointer is on it."""
    if isinstance(row, Call):
        launched = "blocks its thread" if row.stage is None else f"launches {names[row.stage]}"
        return f"{label(row.name)}<br>{launched}<br>{time_text(row.ns)}"
    delay = "launch not on record"
    if row.delay_ns is not None:
        delay = f"{time_text(row.delay_ns)} after its launch began"
    activity = row.activity.replace("_", " ")
    return f"{label(row.name)}<br>{names[row.stage]}, {activity}<br>{time_text(row.ns)}, {delay}"


def layout(height: int) -> dict[str, Any]:
    """What all figures have in common: no ground of their own, so that light and dark fit."""
    return {
        "template": "none",
        "height": height,
        "margin": {"l": 150, "r": 20, "t": 40, "b": 50},
        "font": {"color": _FONT, "size": 12, "family": "system-ui, sans-serif"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": _FONT},
        "hoverlabel": {"align": "left", "namelength": -1},
        "hovermode": "closest",
    }
