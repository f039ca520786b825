"""The live view as a page: drawn anew every few seconds while the log grows."""

from __future__ import annotations

import threading
from typing import Any, Final

from specscope.analyzers.live_log import LiveLog, views
from specscope.analyzers.live_view import LiveView
from specscope.dashboards import live_figures, live_sections
from specscope.dashboards.app_guard import Access
from specscope.dashboards.app_page import guarded, new_page
from specscope.dashboards.app_parts import graph, grid_part, paragraphs, warnings
from specscope.dashboards.app_server import Application
from specscope.dashboards.palette import stage_colour

REDRAW_MS: Final = 2_000
_FIGURES: Final = (
    ("stages", "Stages over time", live_figures.stages_figure),
    ("ranks", "Ranks over time", live_figures.ranks_figure),
    ("accept", "Accept length over time", live_figures.accept_figure),
    ("batch", "Batch over time", live_figures.batch_figure),
)


def live_app(log: LiveLog, name: str, access: Access | None = None) -> Application:
    """The application that shows `log`, which is called `name` on the page."""
    from dash import Input, Output, dcc, html

    access = access or Access()
    page = new_page("specscope live", access)
    latest = _Latest(log)
    ids = [figure_id for figure_id, _, _ in _FIGURES]
    view = latest.view
    page.layout = html.Main(
        [
            html.Div(_head(view, name), id="head", **{"aria-live": "off"}),
            html.Div(_notes(view), id="notes", role="status"),
            html.Div(_tables(view), id="tables", className="side"),
            html.Div(
                [
                    html.Section([html.H2(title), graph(figure_id, title, make(view))])
                    for figure_id, title, make in _FIGURES
                ],
                className="side",
            ),
            dcc.Interval(id="clock", interval=REDRAW_MS),
        ]
    )

    def redraw(_: int | None) -> list[Any]:
        now = latest.view
        figures = [make(now) for _, _, make in _FIGURES]
        return [_head(now, name), _notes(now), _tables(now), *figures]

    page.callback(
        [
            Output("head", "children"),
            Output("notes", "children"),
            Output("tables", "children"),
            *(Output(figure_id, "figure") for figure_id in ids),
        ],
        Input("clock", "n_intervals"),
        prevent_initial_call=True,
    )(redraw)

    return guarded(page, access, latest.follow)


class _Latest:
    """The newest view of the log, which a thread of its own reads."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self.view = log.view()

    def follow(self, stop: threading.Event) -> None:
        """Read on until told to stop."""
        for view in views(self._log, stop):
            self.view = view


def _head(view: LiveView, name: str) -> list[Any]:
    from dash import html

    top = max(
        (share for share in view.shares if share.rank is None and share.part_of is None),
        key=lambda share: share.share,
        default=None,
    )
    title = ", ".join(part for part in (name, live_sections.title_line(view)) if part)
    return [
        html.P(title, className="soft"),
        html.Div(
            [
                html.H1(live_sections.head_line(view)),
                *paragraphs([live_sections.basis_line(view)]),
                *paragraphs([live_sections.clock_line(view)], "soft"),
                *paragraphs([live_sections.accept_line(view)] if view.shares else []),
            ],
            className="verdict",
            style={"borderColor": stage_colour(top.stage if top else None)},
        ),
    ]


def _notes(view: LiveView) -> list[Any]:
    return warnings(live_sections.note_lines(view))


def _tables(view: LiveView) -> list[Any]:
    from dash import html

    grids = (live_sections.stage_grid(view), live_sections.rank_grid(view))
    return [html.Section(grid_part(grid)) for grid in grids if grid is not None]
