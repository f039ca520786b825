"""SQL over the tables: what a query can reach, where it ends, and what it says when it cannot."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from specscope.dashboards.sql import Limits, ask
from specscope.traces.errors import UsageError
from tests.dashboards import reports

LONG = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c"


def answer(sql: str, **limits: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(
        reports.bundled().tables, sql, Limits(**limits)
    ).table.to_pylist()
    return found


def refusal(sql: str, **limits: Any) -> str:
    with pytest.raises(UsageError) as error:
        answer(sql, **limits)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", sorted(reports.bundled().tables))
def test_every_table_of_the_report_can_be_asked(name: str) -> None:
    rows = reports.bundled().tables[name].num_rows
    assert answer(f"SELECT count(*) AS n FROM {name}") == [{"n": rows}]


def test_the_sums_are_those_of_the_tables_to_the_nanosecond() -> None:
    parts = reports.bundled().tables["parts"]
    found = ask(reports.bundled().tables, "SELECT sum(ns) AS ns FROM parts").table
    assert found.schema.field("ns").type == pa.int64()
    assert found.to_pylist() == [{"ns": sum(parts["ns"].to_pylist())}]


def test_only_the_tables_that_are_named_are_made() -> None:
    class Watched(dict[str, pa.Table]):
        asked: list[str]

        def __getitem__(self, name: str) -> pa.Table:
            self.asked.append(name)
            return super().__getitem__(name)

    tables = Watched({name: pa.table({"x": [1]}) for name in ("ops", "cycles", "parts")})
    tables.asked = []
    ask(tables, "SELECT * FROM OPS")
    assert tables.asked == ["ops"]
    tables.asked = []
    assert ask(tables, "SHOW TABLES").table.num_rows == 3
    assert tables.asked == ["ops", "cycles", "parts"]


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{file}')",
        "read_csv('{file}')",
        "'{file}'",
        "read_parquet('{file}')",
        "read_json('{file}')",
        "sniff_csv('{file}')",
        "glob('{folder}/*')",
        "query('FROM read_text(''{file}'')')",
    ],
)
def test_no_file_can_be_read(source: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,hidden\n")
    said = refusal("SELECT * FROM " + source.format(file=file, folder=tmp_path))
    assert "hidden" not in said


@pytest.mark.parametrize(
    "statement",
    [
        "COPY ops TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{folder}/out.parquet'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "PRAGMA enable_profiling",
        "CALL enable_logging(storage = 'file', storage_path = '{folder}/out')",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW ops",
        "DELETE FROM ops",
        "WITH x AS (SELECT 1) INSERT INTO ops SELECT * FROM x",
        "SELECT 1; COPY (SELECT 1) TO '{folder}/out.csv'",
        "",
        "-- nothing",
    ],
)
def test_nothing_but_one_select_is_run(statement: str, tmp_path: Path) -> None:
    refusal(statement.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_configuration_is_locked_and_says_so() -> None:
    sql = "SELECT name, value FROM duckdb_settings()"
    found = {row["name"]: row["value"] for row in answer(sql)}
    assert found["enable_external_access"] == "false"
    assert found["lock_configuration"] == "true"
    assert found["autoload_known_extensions"] == "false"
    assert found["allow_community_extensions"] == "false"
    assert found["python_enable_replacements"] == "false"
    assert not found["temp_directory"]
    with pytest.raises(UsageError):
        answer("SELECT * FROM enable_logging(storage = 'file', storage_path = '/nowhere')")


def test_variables_of_this_program_are_no_tables() -> None:
    mine = pa.table({"secret": [1]})  # DuckDB would find it by its name
    assert mine.num_rows == 1
    assert refusal("SELECT * FROM mine").startswith("no table mine")


def test_a_query_that_takes_too_long_is_ended() -> None:
    start = time.monotonic()
    assert "took longer than 0.2 s" in refusal(LONG, seconds=0.2)
    assert time.monotonic() - start < 60


def test_a_query_that_needs_too_much_memory_is_ended() -> None:
    said = refusal("SELECT list(a.name) FROM ops a, ops b", memory_bytes=64 << 20)
    assert "more than 67,108,864 bytes" in said


def test_rows_beyond_the_limit_are_left_out_and_it_is_said() -> None:
    found = ask(reports.bundled().tables, "SELECT * FROM ops", Limits(rows=5))
    assert (found.table.num_rows, found.cut) == (5, True)
    found = ask(reports.bundled().tables, "SELECT * FROM cycles", Limits(rows=16))
    assert (found.table.num_rows, found.cut) == (16, False)


def test_equal_column_names_are_told_apart() -> None:
    assert answer("SELECT 1 AS a, 2 AS a, 3 AS a_1") == [{"a": 1, "a_1": 2, "a_1_1": 3}]


@pytest.mark.parametrize(
    ("sql", "nearest"),
    [
        ("SELECT strt_ns FROM ops", "no column strt_ns; the nearest is start_ns of ops"),
        ("SELECT o.strt_ns FROM ops o", "the nearest is start_ns of ops"),
        ("SELECT * FROM ops WHERE activty = 'gemm'", "the nearest is activity of ops"),
        ("SELECT stag FROM parts JOIN cycles USING (rank)", "the nearest is stage of parts"),
        ("SELECT * FROM segment", "no table segment; the nearest is segments"),
        ("SELECT zzz FROM parts", "no column zzz in parts; there is: cycle, ns, rank"),
        ("SELECT zzz", "the query names no table"),
        ("SELECT * FROM zzz", "no table zzz; there is: stages, cycles"),
        ("SELECT * FROM graph_nodes", "it takes --capture-trace"),
        ("SELECT * FROM cycle_log", "it takes a cycle log"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT nosuch(1)", "nosuch"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(sql: str, nearest: str) -> None:
    assert nearest in refusal(sql)


def test_tables_of_one_rank_say_what_the_ranks_together_take() -> None:
    with pytest.raises(UsageError, match="it takes several ranks"):
        ask(
            reports.drawn("sglang_0_5_10_v2_without_any_mark").tables,
            "SELECT * FROM matched_collectives",
        )
