"""Rows as CSV, JSON and on a terminal: exact where programs read, safe where people look."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json

import pyarrow as pa

from specscope.dashboards.rows_out import write_csv, write_json
from specscope.dashboards.rows_table import columns, print_rows
from specscope.dashboards.terminal import console_for
from specscope.traces import schema
from tests.dashboards import reports

NAMES = pa.table({"name": list(reports.HOSTILE_NAMES), "n": range(len(reports.HOSTILE_NAMES))})
VALUES = pa.table(
    {
        "big": [2**62 + 1, None],
        "real": [float("nan"), 0.5],
        "yes": [True, False],
        "list": [[1, None], []],
        "raw": [b"\x00\xff", None],
        "wide": pa.array([decimal.Decimal(2**70), None], pa.decimal128(38, 0)),
        "part": pa.array([decimal.Decimal("0.25"), None], pa.decimal128(9, 2)),
        "day": [datetime.date(2026, 1, 2), None],
        "row": [{"a": 1}, None],
    }
)


def csv_of(table: pa.Table) -> str:
    file = io.StringIO()
    write_csv(table, file)
    return file.getvalue()


def json_of(table: pa.Table) -> str:
    file = io.StringIO()
    write_json(table, file)
    return file.getvalue()


def printed(table: pa.Table, most: int | None = None) -> str:
    file = io.StringIO()
    print_rows(table, console_for(file), most)
    return file.getvalue()


def test_json_holds_every_name_exactly_and_no_control_byte() -> None:
    text = json_of(NAMES)
    assert [row["name"] for row in json.loads(text)] == list(reports.HOSTILE_NAMES)
    assert text.isascii() and all(c == "\n" or c.isprintable() for c in text)


def test_csv_and_terminal_show_hostile_names_as_harmless_text() -> None:
    for text in (csv_of(NAMES), printed(NAMES)):
        assert all(c == "\n" or c.isprintable() for c in text)
        assert len(text.splitlines()) in (len(NAMES) + 1, len(NAMES) + 2)  # a rule below the head
        assert "\\x1b[31mred" in text
        assert "[bold red]markup[/]" in text


def test_csv_holds_no_formula() -> None:
    table = pa.table({"=x": ["=1+1", "+1", "-1", "@a", "a=1"]})
    rows = list(csv.reader(io.StringIO(csv_of(table))))
    assert [row[0] for row in rows] == ["'=x", "'=1+1", "'+1", "'-1", "'@a", "a=1"]
    assert csv_of(pa.table({"n": [-1]})) == "n\n-1\n"


def test_values_of_every_type_have_a_text() -> None:
    first, second = json.loads(json_of(VALUES))
    assert first == {
        "big": 2**62 + 1,
        "real": None,
        "yes": True,
        "list": [1, None],
        "raw": "00ff",
        "wide": 2**70,
        "part": 0.25,
        "day": "2026-01-02",
        "row": {"a": 1},
    }
    assert second["real"] == 0.5 and second["list"] == []
    assert csv_of(VALUES).splitlines()[1].startswith(f'{2**62 + 1},,true,"[1, null]",00ff,{2**70},')
    assert "nan" in printed(VALUES) and "null" in printed(VALUES)


def test_no_rows_are_an_empty_array_and_a_header() -> None:
    assert json_of(NAMES.slice(0, 0)) == "[]\n"
    assert csv_of(NAMES.slice(0, 0)) == "name,n\n"


def test_in_a_pipe_every_row_is_one_line() -> None:
    table = pa.table({"a": ["x" * 100], "b": ["y" * 100], "c": [1]})
    lines = printed(table).splitlines()
    assert len(lines) == 3
    assert lines[2].split() == ["x" * 100, "y" * 100, "1"]


def test_only_the_first_rows_are_shown() -> None:
    assert len(printed(NAMES, 2).splitlines()) == 4


def test_every_documented_column_is_listed_with_its_meaning() -> None:
    rows = columns().to_pylist()
    assert {row["table"] for row in rows} == set(schema.documented())
    assert all(row["meaning"] for row in rows)


def test_the_listed_columns_are_those_that_the_tables_have() -> None:
    report = reports.bundled()
    listed: dict[str, list[str]] = {}
    for row in columns(report).to_pylist():
        assert row["rows"] == report.tables[row["table"]].num_rows
        listed.setdefault(row["table"], []).append(row["column"])
    assert listed == {name: table.schema.names for name, table in report.tables.items()}


def test_every_column_of_a_report_carries_its_meaning() -> None:
    for name, table in reports.bundled().tables.items():
        for field in table.schema:
            assert (field.metadata or {}).get(b"doc"), f"{name}.{field.name}"
