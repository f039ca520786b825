"""`specscope query` from the outside: what goes where, exit codes."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from specscope import exits
from specscope.cli import _group
from tests.dashboards import reports
from tests.test_cli import Done

RECORDING = reports.ROOT / reports.BUNDLED
CYCLES = "SELECT rank, cycle, end_ns - start_ns AS ns FROM cycles ORDER BY ALL"
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["query", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_rows_are_shown_and_what_is_not_shown_is_said(run: Run) -> None:
    done = run(RECORDING, CYCLES, "--rows", "3")
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["rank", "cycle", "ns"]
    assert len(done.out.splitlines()) == 5
    assert "3 of 16 rows" in done.err


def test_csv_and_json_hold_all_rows(run: Run) -> None:
    expected = reports.bundled().tables["cycles"].num_rows
    as_json = run(RECORDING, CYCLES, "--json", "--rows", "3")
    as_csv = run(RECORDING, CYCLES, "--csv")
    assert (as_json.err, as_csv.err) == ("", "")
    rows = json.loads(as_json.out)
    assert len(rows) == expected
    read = list(csv.DictReader(io.StringIO(as_csv.out)))
    assert [{name: int(value) for name, value in row.items()} for row in read] == rows


def test_parquet_is_written_and_only_an_older_answer_is_overwritten(
    run: Run, tmp_path: Path
) -> None:
    target = tmp_path / "cycles.parquet"
    for _ in range(2):
        done = run(RECORDING, CYCLES, "--parquet", target)
        assert (done.code, done.out) == (0, "")
        assert "16 rows" in done.err
    assert pq.read_table(target).column_names == ["rank", "cycle", "ns"]
    target.write_bytes(b"mine")
    done = run(RECORDING, CYCLES, "--parquet", target)
    assert done.code == exits.WRONG_USAGE
    assert target.read_bytes() == b"mine"


def test_tables_are_listed_without_a_trace_and_with_one(run: Run) -> None:
    every = {row["table"] for row in json.loads(run("--tables", "--json").out)}
    here = {row["table"] for row in json.loads(run("--tables", "--json", RECORDING).out)}
    assert here == set(reports.bundled().tables)
    assert every - here == {"captured_graphs", "graph_nodes", "cycle_log"}


def test_the_inside_of_graphs_can_be_asked(run: Run) -> None:
    captured = reports.ROOT / reports.CAPTURED
    sql = "SELECT count(*) AS n FROM graph_nodes"
    done = run(captured, sql, "--capture-trace", captured, "--json")
    assert json.loads(done.out)[0]["n"] == reports.with_captures().tables["graph_nodes"].num_rows


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no query given"),
        ((RECORDING,), "no query given"),
        (("SELECT 1 AS a",), "no trace given"),
        ((RECORDING, "SELECT strt_ns FROM ops"), "the nearest is start_ns"),
        ((RECORDING, "DELETE FROM ops"), "DELETE is not a SELECT"),
        (("/nowhere/at/all", CYCLES), "does not exist"),
        ((RECORDING, CYCLES, "--rank", "9"), "no rank 9"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    run: Run, arguments: tuple[str | Path, ...], said: str
) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_without_duckdb_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = run(RECORDING, CYCLES)
    assert done.code == exits.WRONG_USAGE
    assert "specscope[dashboard]" in done.err


def test_hostile_names_come_out_as_text(run: Run, tmp_path: Path) -> None:
    reports.write(tmp_path, reports.hostile_trace())
    for option in ((), ("--csv",), ("--json",)):
        done = run(tmp_path, "SELECT DISTINCT name FROM ops", *option)
        assert done.code == 0
        assert all(c == "\n" or c.isprintable() for c in done.out)
        assert "alert(1)" in done.out
