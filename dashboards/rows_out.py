"""Rows of an Arrow table as text for other programs: CSV and JSON, row by row.

CSV is opened by people in spreadsheets and shown on terminals, so names are made safe in it:
what cannot be printed is its escape, and a text that a spreadsheet would take for a formula has
an apostrophe before it. JSON and Parquet hold every name exactly.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import math
from collections.abc import Iterator
from typing import IO, Any, Final

import pyarrow as pa

from specscope.dashboards.safe_text import clean

_FORMULA: Final = ("=", "+", "-", "@")


def write_csv(table: pa.Table, file: IO[str]) -> None:
    """A header and a line for each row; null is empty."""
    out = csv.writer(file, lineterminator="\n")
    out.writerow([_safe(name) for name in table.column_names])
    for row in _rows(table):
        out.writerow([_cell(value) for value in row])


def write_json(table: pa.Table, file: IO[str]) -> None:
    """An array with an object for each row, one a line."""
    names = table.column_names
    file.write("[")
    for number, row in enumerate(_rows(table)):
        value = dict(zip(names, map(plain, row), strict=True))
        file.write(",\n " if number else "\n ")
        file.write(json.dumps(value, allow_nan=False))
    file.write("\n]\n" if table.num_rows else "]\n")


def cell_text(value: Any) -> str:
    """One value for the eye: numbers as they are, null by name."""
    if isinstance(value, float):
        return format(value, ".10g")
    value = plain(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return clean(value if isinstance(value, str | int) else json.dumps(value))


def plain(value: Any) -> Any:
    """A value as JSON has it; what is no number (NaN, infinity) is null, bytes are hex."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=8192):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value)
    return _safe(value) if isinstance(value, str) else value


def _safe(text: str) -> str:
    line = clean(text)
    return "'" + line if line.startswith(_FORMULA) else line
