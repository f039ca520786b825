"""Rows of an Arrow table on a terminal, and the list of tables with what their columns mean."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specscope.analyzers.report import Report
from specscope.dashboards.rows_out import cell_text
from specscope.dashboards.safe_text import NAME_LIMIT, clean
from specscope.traces import schema

_PIPE_COLUMNS: Final = 100_000  # a table takes what it needs of it


def print_rows(table: pa.Table, console: Console, most: int | None = None) -> None:
    """The first `most` rows under their column names, numbers right.

    On a terminal columns fit its width; in a pipe every row is one line, as long as it is.
    """
    shown = table if most is None else table.slice(0, most)
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    rows = [_texts(column) for column in shown.columns]
    for field in table.schema:
        right = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        grid.add_column(
            Text(clean(field.name, NAME_LIMIT)),
            justify="right" if right else "left",
            no_wrap=not console.is_terminal,
            overflow="fold",
        )
    for row in zip(*rows, strict=True):
        grid.add_row(*map(Text, row))
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    console.print(grid)


def columns(report: Report | None = None) -> pa.Table:
    """A row for each column of each table; with a report, of its tables and with their rows."""
    listed: list[dict[str, Any]] = []
    for name, table in schema.documented().items():
        if report is not None and name not in report.tables:
            continue
        count = {} if report is None else {"rows": report.tables[name].num_rows}
        listed += [
            {"table": name, **count, "column": field.name, "type": _kind(field)}
            | {"null": field.nullable, "meaning": (field.metadata or {}).get(b"doc", b"").decode()}
            for field in table
        ]
    return pa.Table.from_pylist(listed)


def _kind(field: pa.Field) -> str:
    """The type as SQL sees it."""
    if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
        return "text"
    if pa.types.is_list(field.type):
        return f"list of {field.type.value_type}"
    return str(field.type)


def _texts(column: pa.ChunkedArray) -> list[str]:
    return [clean(cell_text(value), NAME_LIMIT) for value in column.to_pylist()]
