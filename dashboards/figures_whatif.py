"""What would help: the ranked list with its ranges, and tokens/s by draft steps and accept length.

Every figure drawn is one of `specscope whatif --json` or of the report.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.throughput import Throughput
from specscope.analyzers.whatif import WhatIf
from specscope.dashboards.figures import RULES, layout
from specscope.dashboards.json_values import figure as nine_digits
from specscope.dashboards.json_values import ns as whole_ns
from specscope.dashboards.panel import Panel
from specscope.dashboards.safe_text import clean
from specscope.dashboards.whatif_sections import between_times, bound_text, change_text, rate_text

_RANKED: Final = "What would help most"
_STEPS: Final = "Draft steps"
_ACCEPT: Final = "Accept length"
_INK: Final = "#5F6B7A"
_MARK: Final = "#7A7A7A"
_BAND: Final = "rgba(95,107,122,0.22)"
_ROW: Final = 34
_CURVE_HEIGHT: Final = 300
_NAME_WIDTH: Final = 28
_RATE: Final = "tokens/s of the batch"


def ranked_panel(found: WhatIf) -> Panel:
    """Each lever of the list as a line over its range, the most helpful on top.

    In tokens/s where the rate is known, else by the cycle: then the left is better.
    """
    rows = [row for row in found.ranked if not row.refused]
    if not rows or found.corrected is None:
        return Panel("ranked", _RANKED, empty=_nothing(found))
    by_rate = found.rate is not None and all(row.rate is not None for row in rows)
    now = nine_digits(found.rate) if by_rate else _ms(found.corrected.cycle_ns)
    figure = go.Figure()
    for row in rows:
        ends = _ends(row, by_rate)
        figure.add_trace(
            go.Scatter(
                x=ends,
                y=[_name(row)] * len(ends),
                mode="lines+markers",
                line={"color": _INK, "width": 5},
                marker={"color": _INK, "size": 11, "symbol": "line-ns", "line": _edge(_INK)},
                showlegend=False,
                hoverinfo="text",
                hovertext=[_words(found, row)] * len(ends),
            )
        )
    figure.update_layout(**layout(110 + _ROW * len(rows)))
    figure.update_layout(margin={"l": 210})
    figure.update_xaxes(title=_RATE if by_rate else "ms a cycle", **RULES)
    figure.update_yaxes(autorange="reversed", fixedrange=True, tickmode="linear", **RULES)
    if now is not None:
        _upright(figure, now, f"now {now:,.0f}" if by_rate else f"now {now:,.2f} ms")
    note = (
        "Each lever alone, at the value that is named; what two of them give together is not the "
        f"sum. A line spans the range, {'right' if by_rate else 'left'} of the upright one is a "
        "gain."
    )
    return Panel("ranked", _RANKED, figure, note)


def steps_panel(found: WhatIf, known: Throughput | None) -> Panel:
    """Tokens/s by the number of draft steps, as a band; with what runs now, and break-even."""
    curve = found.curve
    if curve is None:
        why = "; ".join(found.refused) or found.unanswered.get("steps", "")
        return Panel("steps", _STEPS, empty=_sentence(why or "the run has no draft steps"))
    rows = [row for row in curve.rows if row.rate is not None]
    if len(rows) < len(curve.rows):
        return Panel("steps", _STEPS, empty=_no_rate(known))
    figure = _band([float(row.value) for row in rows], rows)
    figure.update_xaxes(title="draft steps", dtick=1, fixedrange=True, **RULES)
    if known is not None and known.k:
        _upright(figure, known.k, f"now {known.k}")
    note = f"Between the least and the most that a token costs to verify. {_upper(curve.basis)}."
    if curve.best is not None:
        low, high = curve.best
        best = f"{low}" if low == high else f"{low} to {high}"
        note = f"The rate is highest with {best}. {note}"
    return Panel("steps", _STEPS, figure, f"{note} {_plain(figure, known)}")


def accept_panel(found: WhatIf, known: Throughput | None) -> Panel:
    """Tokens/s by the accept length, with the one measured, and the one that breaks even."""
    rows = [row for row in found.grid.get("accept-length", ()) if row.rate is not None]
    if not rows:
        why = "; ".join(found.refused) or found.unanswered.get("accept-length", "")
        return Panel("accept", _ACCEPT, empty=_sentence(why) if why else _no_rate(known))
    figure = _band([float(row.value) for row in rows], rows)
    figure.update_xaxes(title="accept length (tokens a cycle and sequence)", **RULES)
    note = "The cycle stays as it is; only what it gives changes."
    if known is not None and known.acceptance is not None:
        length = nine_digits(known.acceptance.accept_length)
        if length is not None:
            _upright(figure, length, f"now {length:.2f}")
    even = nine_digits(known.break_even) if known is not None else None
    if even is not None:
        _upright(figure, even, f"break-even {even:.2f}", dash="dash", low=True)
    return Panel("accept", _ACCEPT, figure, f"{note} {_plain(figure, known)}")


def _band(x: Sequence[float], rows: Sequence[Prediction]) -> go.Figure:
    """Low and high end as lines with the ground between them; one line where they agree."""
    low = [nine_digits(row.rate[0]) for row in rows if row.rate is not None]
    high = [nine_digits(row.rate[1]) for row in rows if row.rate is not None]
    figure = go.Figure()
    ends = [("low end", low, None), ("high end", high, "tonexty")]
    for name, y, fill in ends if low != high else [("", low, None)]:
        figure.add_trace(
            go.Scatter(
                x=list(x),
                y=y,
                name=name,
                mode="lines+markers",
                line={"color": _INK, "width": 2},
                marker={"size": 6},
                fill=fill,
                fillcolor=_BAND,
                showlegend=False,
                hoverinfo="text",
                hovertext=[f"{html.escape(clean(row.title))}<br>{rate_text(row)} tokens/s, "
                           f"{between_times(row)} a cycle" for row in rows],
            )
        )  # fmt: skip
    figure.update_layout(**layout(_CURVE_HEIGHT))
    figure.update_layout(margin={"l": 70})
    figure.update_yaxes(title=_RATE, rangemode="tozero", fixedrange=True, **RULES)
    return figure


def _plain(figure: go.Figure, known: Throughput | None) -> str:
    """Draw the rate without speculation; or say why it is not there."""
    rate = nine_digits(known.plain_tokens_per_second) if known is not None else None
    if rate is None:
        return (
            "Break-even is not known: --baseline or --baseline-tokens-per-second gives the server "
            "without speculation."
        )
    figure.add_hline(
        y=rate,
        line={"color": _MARK, "width": 1.5, "dash": "dash"},
        annotation={
            "text": f"without speculation {rate:,.0f}",
            "xanchor": "right",
            "yanchor": "top",
            "font": {"size": 12},
        },
    )
    return "Under the dashed line speculation loses."


def _upright(figure: go.Figure, x: float, words: str, dash: str = "dot", low: bool = False) -> None:
    """A line upright at `x` with its words over it; `low` writes them inside, at the foot."""
    figure.add_vline(
        x=x,
        line={"color": _MARK, "width": 1.5, "dash": dash},
        annotation={
            "text": words,
            "yref": "paper",
            "y": 0.02 if low else 1.0,
            "yanchor": "bottom",
            "xanchor": "left" if low else "center",
            "font": {"size": 12},
        },
    )


def _ends(row: Prediction, by_rate: bool) -> list[float | None]:
    if by_rate:
        return [nine_digits(end) for end in row.rate or ()]
    return [_ms(end) for end in row.cycle_ns or ()]


def _ms(ns: float) -> float | None:
    whole = whole_ns(ns)
    return None if whole is None else whole / 1e6


def _words(found: WhatIf, row: Prediction) -> str:
    why = "<br>".join(html.escape(line) for line in textwrap.wrap(clean(row.assumption), 72))
    return (
        f"<b>{html.escape(clean(row.title))}</b><br>{between_times(row)} a cycle, "
        f"{change_text(found, row)}<br>{rate_text(row)} tokens/s<br>at most "
        f"{bound_text(found, row)} of the cycle<br>{why}"
    )


def _name(row: Prediction) -> str:
    lines = textwrap.wrap(clean(row.title, 80), _NAME_WIDTH) or [""]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def _edge(colour: str) -> dict[str, Any]:
    return {"color": colour, "width": 3}


def _nothing(found: WhatIf) -> str:
    if found.refused:
        return f"Nothing can be predicted: {clean('; '.join(found.refused))}."
    return "No lever can be tried on this run."


def _no_rate(known: Throughput | None) -> str:
    missing = [] if known is None else [clean(one) for one in known.missing]
    return f"Tokens/s is not known: {'; '.join(missing) or 'no batch or accept length'}."


def _sentence(text: str) -> str:
    return f"{_upper(clean(text))}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
