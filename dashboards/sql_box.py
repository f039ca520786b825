"""The SQL box of the application: one question over the tables of a run, read-only, with limits."""

from __future__ import annotations

import io
import threading
from typing import Any, Final

import pyarrow as pa

from specscope.dashboards.app_runs import Shown
from specscope.dashboards.rows_out import cell_text, write_csv
from specscope.dashboards.sql import Limits, ask
from specscope.dashboards.units import count_text
from specscope.traces.errors import UsageError

MOST_LETTERS: Final = 20_000
SHOWN_ROWS: Final = 200
SAVED_ROWS: Final = 200_000
_SECONDS: Final = 10.0
_MEMORY: Final = 1 << 30
_LONGEST_CELL: Final = 200
EXAMPLE: Final = "SELECT stage, what, sum(ns) / 1e6 AS ms\nFROM parts GROUP BY ALL ORDER BY ms DESC"

# One question at a time: the limit of memory is one for all.
_ONE = threading.Lock()


def answer(run: Shown, sql: str | None, rows: int) -> pa.Table:
    """At most so many rows, and one more where there are more. Raises UsageError, in one line."""
    text = (sql or "").strip()
    if not text:
        raise UsageError("no question; write a SELECT over the tables of the run")
    if len(text) > MOST_LETTERS:
        raise UsageError(f"the question has more than {MOST_LETTERS:,} letters; shorten it")
    if not _ONE.acquire(timeout=2 * _SECONDS):
        raise UsageError("another question is still at work; try again")
    try:
        found = ask(run.report.tables, text, Limits(_SECONDS, _MEMORY, rows))
    finally:
        _ONE.release()
    return found.table


def answer_parts(run: Shown, sql: str | None) -> list[Any]:
    """The answer, or why there is none, as components."""
    from dash import html

    try:
        table = answer(run, sql, SHOWN_ROWS)
    except UsageError as error:
        return [html.P(str(error), className="warning", role="alert")]
    numbers = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in table.schema]
    kinds = [None if number else "words" for number in numbers]
    head = html.Tr(
        [
            html.Th(cell_text(name)[:_LONGEST_CELL], className=kind, scope="col")
            for name, kind in zip(table.column_names, kinds, strict=True)
        ]
    )
    body = [
        html.Tr(
            [
                html.Td(cell_text(value)[:_LONGEST_CELL], className=kind)
                for value, kind in zip(row, kinds, strict=True)
            ]
        )
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
    count = count_text(table.num_rows)
    says = f"{count} rows" if table.num_rows < SHOWN_ROWS else f"the first {count} rows"
    shown = html.Table([html.Thead(head), html.Tbody(body)])
    return [html.P(says, className="soft", role="status"), html.Div(shown, className="scroll")]


def csv_text(table: pa.Table) -> str:
    """The rows as CSV: names made safe for spreadsheets."""
    out = io.StringIO()
    write_csv(table, out)
    return out.getvalue()
