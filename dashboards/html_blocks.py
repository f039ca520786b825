"""Pieces of a page: text escaped, data in JSON blocks without markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Final

import plotly.graph_objects as go

from specscope.dashboards.grid import Grid
from specscope.dashboards.palette import stage_colour

# What JSON may not hold inside a page: a closing tag, an entity, and line ends of JavaScript.
_JSON_ESCAPES: Final = str.maketrans(
    {c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")}
)


def figure_block(name: str, figure: go.Figure, title: str) -> Iterator[str]:
    """A figure that the page draws once its text is there; its room is kept until then.

    `title` is what it is called to those who do not see it.
    """
    height = int(figure.layout.height or 0)
    yield (
        f'<div class="scroll"><div id="{name}" role="figure" aria-label="{escape(title)}" '
        f'style="min-height: {height}px"></div></div>'
    )
    yield json_block(str(figure.to_json()), target=name)


def json_block(text: str, **data: str | int) -> str:
    """JSON as a block that no script runs; `data` are its data attributes."""
    named = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    return f'<script type="application/json"{named}>{json_safe(text)}</script>'


def json_safe(text: str) -> str:
    """JSON without letters that mean something in a page."""
    return text.translate(_JSON_ESCAPES)


def table(grid: Grid) -> str:
    """A grid as a table."""
    parts = []
    if grid.title:
        note = f' <span class="soft">{escape(grid.note)}</span>' if grid.note else ""
        parts.append(f"<h2>{escape(grid.title)}{note}</h2>")
    parts.append('<div class="scroll"><table>')
    kinds = [' class="words"' if grid.is_left(i) else "" for i in range(len(grid.columns))]
    if any(grid.columns):
        cells = zip(kinds, grid.columns, strict=True)
        heads = (f"<th{k}>{escape(c)}</th>" if c else f"<td{k}></td>" for k, c in cells)
        parts.append(f"<tr>{''.join(heads)}</tr>")
    for row in grid.rows:
        swatch = ""
        if row.stage and not row.depth:
            swatch = f'<span class="swatch" style="background: {stage_colour(row.stage)}"></span>'
        inset = '<span class="inset"></span>' if row.depth else ""
        texts = [f"{inset}{swatch}{escape(row.cells[0])}", *map(escape, row.cells[1:])]
        cells = zip(kinds, texts, strict=True)
        part = ' class="part"' if row.depth else ""
        parts.append(f"<tr{part}>" + "".join(f"<td{k}>{t}</td>" for k, t in cells) + "</tr>")
    parts.append("</table></div>")
    return "\n".join(parts)


def bullets(lines: Iterable[str]) -> str:
    """A list; nothing where there are no lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def escape(text: str) -> str:
    """Text without markup."""
    return html.escape(text, quote=True)
