"""The application over recorded runs: every look is a stateless answer to what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Template
from typing import Any

from specscope.dashboards import dashboard_side as side_of
from specscope.dashboards import report_parts, sql_box
from specscope.dashboards.app_guard import Access
from specscope.dashboards.app_page import guarded, new_page
from specscope.dashboards.app_runs import Shown
from specscope.dashboards.app_server import Application
from specscope.dashboards.app_state import SIDES, Side, fragment, kept, whole
from specscope.dashboards.dashboard_moves import moved
from specscope.traces.errors import UsageError

# What moves the view: the end of an id on each side, and the property that says so.
_MOVES = (
    ("run", "value"),
    ("rank", "value"),
    ("cycle", "value"),
    ("back", "n_clicks"),
    ("on", "n_clicks"),
    ("here", "n_clicks"),
    ("whole", "n_clicks"),
    ("cycles", "clickData"),
    ("timeline", "relayoutData"),
)
_SAVE_SVG = Template("""function (clicks) {
  const one = document.querySelector("#$graph .js-plotly-plot");
  Plotly.downloadImage(one, {format: "svg", filename: "$file", width: one.offsetWidth,
    height: one.offsetHeight});
}""")


def dashboard_app(runs: Sequence[Shown], access: Access | None = None) -> Application:
    """The application over these runs."""
    from dash import Input, Output, State, dcc, html

    access = access or Access()
    page = new_page("specscope", access)
    for number in range(len(runs)):
        _texts(runs, number)  # the tables behind them are made here, before the first look
    page.layout = html.Main(
        [
            html.H1("specscope"),
            dcc.Location(id="url", refresh=False),
            html.Div([side_of.choice_layout(name, runs) for name in SIDES], className="controls"),
            html.Div([side_of.side_layout(name) for name in SIDES], className="side"),
            *_sql_layout(),
        ]
    )
    inputs = [Input("url", "hash")]
    outputs = [Output("url", "hash")]
    for name in SIDES:
        inputs += [Input(f"{name}-{end}", prop) for end, prop in _MOVES]
        outputs += [
            Output(f"{name}-run", "value"),
            Output(f"{name}-rank", "options"),
            Output(f"{name}-rank", "value"),
            Output(f"{name}-cycle", "value"),
            Output(f"{name}-pick", "data"),
            Output(f"{name}-window", "data"),
            Output(f"{name}-side", "hidden"),
        ]
    known = [State(f"{name}-{what}", "data") for name in SIDES for what in ("pick", "window")]
    page.callback(outputs, inputs, known)(_mover(runs))
    for name in SIDES:
        _register(page, name, runs)
    page.callback(
        Output("sql-answer", "children"),
        Input("sql-ask", "n_clicks"),
        State("sql", "value"),
        State("a-pick", "data"),
        prevent_initial_call=True,
    )(lambda _, sql, pick: sql_box.answer_parts(_run(runs, pick), sql))
    page.callback(
        Output("sql-file", "data"),
        Output("sql-said", "children"),
        Input("sql-csv", "n_clicks"),
        State("sql", "value"),
        State("a-pick", "data"),
        prevent_initial_call=True,
    )(lambda _, sql, pick: _saved_answer(_run(runs, pick), sql))
    return guarded(page, access)


def _sql_layout() -> list[Any]:
    from dash import dcc, html

    return [
        html.H2("SQL over the tables of the first run"),
        html.Label(
            "One SELECT; it only reads (docs/query.md names tables and columns)", htmlFor="sql"
        ),
        dcc.Textarea(id="sql", value=sql_box.EXAMPLE, rows=4, spellCheck=False),
        html.Div(
            [html.Button("Ask", id="sql-ask"), html.Button("CSV", id="sql-csv")],
            className="controls",
        ),
        html.Div(id="sql-said", role="alert"),
        html.Div(id="sql-answer"),
        dcc.Download(id="sql-file"),
    ]


def _mover(runs: Sequence[Shown]) -> Callable[..., list[Any]]:
    """The callback through which every change of the view goes."""
    from dash import ctx, no_update

    def move(*values: Any) -> list[Any]:
        count = 1 + len(SIDES) * len(_MOVES)
        names = ["url", *(f"{name}-{end}" for name in SIDES for end, _ in _MOVES)]
        given = dict(zip(names, values[:count], strict=True))
        before = dict(
            zip(
                [f"{name}-{what}" for name in SIDES for what in ("pick", "window")],
                values[count:],
                strict=True,
            )
        )
        now = moved(runs, ctx.triggered_id, given, before)
        link = fragment(now)
        out: list[Any] = [no_update if link == given["url"] else link]
        for name in SIDES:
            side = now.side(name)
            pick, window = stores_of(side)
            out += [
                side_of.NO_RUN if side is None else str(side.run),
                [] if side is None else _rank_options(runs[side.run]),
                None if side is None else rank_value(side.rank),
                None if side is None else side.cycle,
                no_update if pick == before[f"{name}-pick"] else pick,
                no_update if window == before[f"{name}-window"] else window,
                side is None,
            ]
        return out

    return move


def stores_of(side: Side | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What the figures of a side are drawn by: which cycle, and which stretch."""
    if side is None:
        return None, None
    pick = {"run": side.run, "rank": side.rank, "cycle": side.cycle}
    return pick, {"run": side.run, "rank": side.rank, "low": side.low, "high": side.high}


def rank_value(rank: int | None) -> str:
    """A rank as its list has it."""
    return side_of.ALL_RANKS if rank is None else str(rank)


def _rank_options(run: Shown) -> list[dict[str, str]]:
    every = {"label": "all", "value": side_of.ALL_RANKS}
    return [every, *({"label": str(rank), "value": str(rank)} for rank in run.ranks)]


def _register(page: Any, name: str, runs: Sequence[Shown]) -> None:
    """The callbacks of one side."""
    from dash import Input, Output, State

    pick, window = Input(f"{name}-pick", "data"), Input(f"{name}-window", "data")
    page.callback(
        Output(f"{name}-head", "children"),
        Output(f"{name}-rest", "children"),
        Input(f"{name}-run", "value"),
    )(lambda value: _texts(runs, value))
    for figure, draw in (("cycles", side_of.cycles_of), ("parts", side_of.parts_view)):
        page.callback(
            Output(f"{name}-{figure}", "figure"), Output(f"{name}-{figure}-says", "children"), pick
        )(_drawer(runs, draw))
    page.callback(
        Output(f"{name}-timeline", "figure"), Output(f"{name}-timeline-says", "children"), window
    )(lambda data: _stretch(runs, data))
    for figure, _, _ in side_of.FIGURES:
        page.callback(
            Output(f"{name}-file", "data", allow_duplicate=True),
            Input(f"{name}-{figure}-csv", "n_clicks"),
            State(f"{name}-pick", "data"),
            State(f"{name}-window", "data"),
            prevent_initial_call=True,
        )(_saver(runs, figure))
        # Plotly's camera saves a PNG; the same in the browser as SVG.
        page.clientside_callback(
            _SAVE_SVG.substitute(graph=f"{name}-{figure}", file=figure),
            Input(f"{name}-{figure}-svg", "n_clicks"),
            prevent_initial_call=True,
        )


def _texts(runs: Sequence[Shown], value: Any) -> tuple[list[Any], list[Any]]:
    number = whole(value)
    if number is None or number >= len(runs):
        return [], []
    report = runs[number].report
    return report_parts.head_parts(report), report_parts.rest_parts(report)


def _drawer(
    runs: Sequence[Shown], draw: Callable[[Shown, Side], tuple[Any, str]]
) -> Callable[[Any], tuple[Any, Any]]:
    from dash import no_update

    def drawn(data: Any) -> tuple[Any, Any]:
        side = kept(runs, data, {})
        return (no_update, no_update) if side is None else draw(runs[side.run], side)

    return drawn


def _stretch(runs: Sequence[Shown], data: Any) -> tuple[Any, Any]:
    from dash import no_update

    side = kept(runs, {}, data)
    if side is None:
        return no_update, no_update
    drawn = side_of.timeline_of(runs[side.run], side)
    if drawn is None:
        return no_update, "There is no op in this run to be drawn."
    return drawn.figure, drawn.says


def _saver(runs: Sequence[Shown], figure: str) -> Callable[..., Any]:
    def save(_: Any, pick: Any, window: Any) -> Any:
        side = kept(runs, pick, window)
        if side is None:
            return None
        text = sql_box.csv_text(side_of.rows_of(runs[side.run], side, figure))
        return {"content": text, "filename": f"{figure}.csv", "type": "text/csv"}

    return save


def _saved_answer(run: Shown, sql: str | None) -> tuple[Any, str]:
    try:
        text = sql_box.csv_text(sql_box.answer(run, sql, sql_box.SAVED_ROWS))
    except UsageError as error:
        return None, str(error)
    return {"content": text, "filename": "answer.csv", "type": "text/csv"}, ""


def _run(runs: Sequence[Shown], pick: Any) -> Shown:
    side = kept(runs, pick, {})
    return runs[0 if side is None else side.run]
