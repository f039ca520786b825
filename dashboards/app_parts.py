"""Grids and lines as components of a page. Text is text there: nothing of it is markup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from specscope.dashboards.grid import Grid
from specscope.dashboards.palette import stage_colour

GRAPH_CONFIG: Final = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
    "showEditInChartStudio": False,
    "plotlyServerURL": "",
    "topojsonURL": "",
}


def grid_part(grid: Grid | None) -> list[Any]:
    """The title and the table; nothing of nothing."""
    from dash import html

    if grid is None:
        return []
    kinds = ["words" if grid.is_left(i) else None for i in range(len(grid.columns))]
    head = [
        # A header without a word is none.
        html.Th(column, className=kind, scope="col") if column else html.Td()
        for kind, column in zip(kinds, grid.columns, strict=True)
    ]
    body = []
    for row in grid.rows:
        label: list[Any] = [row.cells[0]]
        if row.stage and not row.depth:
            style = {"background": stage_colour(row.stage)}
            label.insert(0, html.Span(className="swatch", style=style))
        if row.depth:
            label.insert(0, html.Span(className="inset"))
        cells: list[Any] = [label, *row.cells[1:]]
        body.append(
            html.Tr(
                [html.Td(cell, className=kind) for kind, cell in zip(kinds, cells, strict=True)],
                className="part" if row.depth else None,
            )
        )
    title: list[Any] = [html.H2([grid.title, " ", html.Span(grid.note, className="soft")])]
    top = [html.Thead(html.Tr(head))] if any(grid.columns) else []
    table = html.Table([*top, html.Tbody(body)])
    return [*(title if grid.title else []), html.Div(table, className="scroll")]


def paragraphs(lines: Iterable[str], kind: str | None = None) -> list[Any]:
    """A paragraph a line."""
    from dash import html

    return [html.P(line, className=kind) for line in lines if line]


def warnings(lines: Iterable[str]) -> list[Any]:
    """A box a line."""
    from dash import html

    return [html.Div(line, className="warning") for line in lines]


def choice(name: str, title: str, options: list[dict[str, str]], value: str | None = None) -> Any:
    """One of several."""
    from dash import dcc

    return labelled(name, title, dcc.Dropdown(options, id=name, clearable=False, searchable=False))


def labelled(name: str, text: str, control: Any) -> Any:
    """A control under its name."""
    from dash import html

    return html.Div([html.Label(text, htmlFor=name), control], className="control")


def graph(name: str, label: str, figure: Any) -> Any:
    """A figure, with what it is called for who does not see it."""
    from dash import dcc, html

    drawn = dcc.Graph(id=name, figure=figure, config=GRAPH_CONFIG)
    return html.Figure(drawn, **{"aria-label": label})
