"""`specscope convert` from the outside: what is written reads back as what was read."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import specscope
from specscope import exits
from specscope.cli import _group
from specscope.traces import schema, table_files
from specscope.traces.run import RankTables
from specscope.traces.run import Run as Ranks
from tests.analyzers.cases_ranges import transformers_assisted_generation_by_its_frames
from tests.dashboards import reports
from tests.shared import shared_path
from tests.traces.test_cycle_log_reader import write as write_log

ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / reports.BUNDLED
GOLDEN = ROOT / "tests" / "golden"
Run = Callable[..., tuple[int, str]]
READ = tuple(schema.TABLES)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `specscope convert` in this process: exit code and stderr."""

    def call(*args: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = exits.call(_group, ["convert", *map(str, args)])
        found = capsys.readouterr()
        assert found.out == ""
        return code, found.err

    return call


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    with pa.ipc.open_file(path.read_bytes()) as file:
        return file.read_all()


def assert_is(table: pa.Table, ranks: Any, name: str) -> None:
    """The table holds that of every rank, in order, with the meaning of each column."""
    wanted = schema.CYCLE_LOG if name == "cycle_log" else schema.TABLES[name]
    version = str(schema.SCHEMA_VERSION).encode()
    assert table.schema.metadata == {b"specscope_schema_version": version}
    for field in wanted:
        assert table.schema.field(field.name).equals(field, check_metadata=True)
    rows = [row for rank in ranks for row in getattr(rank, name).to_pylist()]
    found = table.select(wanted.names).to_pylist()
    if name == "ops":  # linked on the way
        for row in (*rows, *found):
            del row["call_id"]
    assert found == rows
    if "rank" not in wanted.names:
        numbers = [rank.rank for rank in ranks for _ in range(getattr(rank, name).num_rows)]
        assert table["rank"].to_pylist() == numbers


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_every_table_reads_back_as_it_was_read(ending: str, run: Run, tmp_path: Path) -> None:
    out = tmp_path / f"tables.{ending}"
    assert run(BUNDLED, out)[0] == 0
    assert {path.name for path in out.iterdir()} == {f"{name}.{ending}" for name in READ}
    ranks = specscope.load(BUNDLED).ranks
    assert len(ranks) == 2
    for name in READ:
        assert_is(read(out / f"{name}.{ending}"), ranks, name)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "name",
    [
        "public/2024-05-resnet-ddp-nccl-a100-rank0of2.json.gz",
        "public/2022-08-no-distributedinfo-cpu-only.json.gz",
        "public/torch2.13.0-cpu-INVALID-quote-in-name.json",
        "cpu/gloo_rank0.json.gz",
        "nsight/synthetic_graph_node.sqlite",
        "own/nsys-tp2-8b-eagle3-k3-nvlink-bs1/node.sqlite",
    ],
)
def test_shared_recordings_read_back(name: str, ending: str, run: Run, tmp_path: Path) -> None:
    source, out = shared_path("traces", *name.split("/")), tmp_path / f"t.{ending}"
    assert run(source, out)[0] == 0
    for table in READ:
        assert_is(read(out / f"{table}.{ending}"), specscope.load(source).ranks, table)


def test_ops_know_their_calls_as_the_report_does(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "ops.parquet"
    assert run(BUNDLED, out, "--tables", "ops")[0] == 0
    ops = read(out)
    report = specscope.analyze(specscope.load(BUNDLED))
    assert ops["call_id"].to_pylist() == report.tables["ops"]["call_id"].to_pylist()
    assert ops["call_id"].null_count < ops.num_rows / 100


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_cycle_log_reads_back(ending: str, run: Run, tmp_path: Path) -> None:
    for rank in (0, 1):
        write_log(tmp_path / "log", rank=rank, pid=100 + rank, size=2)
    out = tmp_path / f"t.{ending}"
    assert run(tmp_path / "log", out)[0] == 0
    ranks = specscope.load(tmp_path / "log").ranks
    assert [rank.rank for rank in ranks] == [0, 1]
    assert_is(read(out / f"cycle_log.{ending}"), ranks, "cycle_log")
    assert read(out / f"ops.{ending}").num_rows == 0


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 100])
def test_any_number_of_rows_in_batches_of_eight_reads_back(
    rows: int, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks have dictionaries of their own: each name must come out as it went in."""
    monkeypatch.setattr(table_files, "BATCH_ROWS", 8)
    ranks = tuple(drawn_rank(rank, rows + 3 * rank) for rank in range(3))
    out = tmp_path / f"ops.{ending}"
    table_files.write_tables(Ranks(ranks), out, ["ops"])
    found = read(out)
    wanted = [row for rank in ranks for row in rank.ops.to_pylist()]
    assert found.select(schema.OPS.names).to_pylist() == wanted
    if ending == "parquet" and rows > 8:
        assert pq.ParquetFile(out).num_row_groups > 3


def drawn_rank(rank: int, rows: int) -> Any:
    """Ops with names, gaps and times drawn by the rank's number."""
    random = np.random.default_rng(rank)
    table = pa.Table.from_pylist(
        [
            {
                "op_id": row,
                "kind": ("kernel", "copy", "set")[int(random.integers(3))],
                "name": f"kernel {rank if row % 2 else ''} {int(random.integers(5))} ü\u2028",
                "device": int(random.integers(-(1 << 31), 1 << 31)),
                "stream": int(random.integers(1 << 40)),
                "start_ns": int(random.integers(-(1 << 62), 1 << 62)),
                "end_ns": int(random.integers(-(1 << 62), 1 << 62)),
                "correlation": None if random.random() < 0.5 else int(random.integers(1 << 62)),
                "bytes": None if random.random() < 0.5 else int(random.integers(1 << 62)),
            }
            for row in range(rows)
        ],
        schema=schema.OPS,
    )
    empty = {name: schema.empty(name) for name in READ if name != "ops"}
    return RankTables(rank=rank, ops=table, **empty)


def test_one_rank_alone_is_written(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    assert run(BUNDLED, out, "--rank", "1", "--tables", "ops,calls")[0] == 0
    assert {path.name for path in out.iterdir()} == {"ops.parquet", "calls.parquet"}
    assert set(read(out / "ops.parquet")["rank"].to_pylist()) == {1}


def test_files_of_ranks_can_be_named_one_by_one(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "t.arrow"
    files = sorted(BUNDLED.glob("*.gz"))
    assert run(*files, out, "--tables", "sources")[0] == 0
    assert read(out)["rank"].to_pylist() == [0, 1]


def test_standard_input_is_converted(tmp_path: Path) -> None:
    drawn = transformers_assisted_generation_by_its_frames().trace.to_json()
    out = tmp_path / "t.parquet"
    program = [sys.executable, "-m", "specscope", "convert", "-", str(out)]
    done = subprocess.run(program, input=drawn, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert read(out / "ops.parquet").num_rows > 10


@pytest.mark.parametrize("option", [(), ("--frames",)])
def test_frames_are_kept_when_asked(option: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    timeline = transformers_assisted_generation_by_its_frames().trace
    timeline.frame("mine.py(3): f", 1, 2)
    (path,) = reports.write(tmp_path, timeline)
    out = tmp_path / "ranges.parquet"
    assert run(path, out, "--tables", "ranges", *option)[0] == 0
    assert ("mine.py(3): f" in read(out)["name"].to_pylist()) is bool(option)


# Where it writes.


def test_an_earlier_conversion_is_replaced_without_leftovers(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    assert run(BUNDLED, out)[0] == 0
    assert run(BUNDLED, out, "--tables", "ops,calls", "--rank", "0")[0] == 0
    assert {path.name for path in out.iterdir()} == {"ops.parquet", "calls.parquet"}
    one = tmp_path / "ops.arrow"
    assert run(BUNDLED, one, "--tables", "ops")[0] == 0
    assert run(BUNDLED, one, "--tables", "calls")[0] == 0
    assert "call_id" in read(one).column_names
    assert {path.name for path in tmp_path.iterdir()} == {"t.parquet", "ops.arrow"}


def test_what_is_not_ours_is_not_replaced_unless_asked(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    out.mkdir()
    pq.write_table(pa.table({"mine": [1]}), out / "ops.parquet")
    (out / "thesis.tex").write_text("x")
    code, err = run(BUNDLED, out)
    assert code == 2
    assert err == f"specscope: {out} is there and holds something else; --force replaces it\n"
    assert read(out / "ops.parquet").column_names == ["mine"]
    assert run(BUNDLED, out, "--force")[0] == 0
    assert read(out / "ops.parquet").num_rows == 27062
    assert (out / "thesis.tex").read_text() == "x"


def test_another_table_is_not_replaced_by_one_unless_asked(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "ops.parquet"
    pq.write_table(pa.table({"mine": [1]}), out)
    assert run(BUNDLED, out, "--tables", "ops")[0] == 2
    assert read(out).column_names == ["mine"]
    assert run(BUNDLED, out, "--tables", "ops", "--force")[0] == 0


def test_an_input_is_never_replaced(run: Run, tmp_path: Path) -> None:
    (trace,) = reports.write(tmp_path, transformers_assisted_generation_by_its_frames().trace)
    source = trace.rename(tmp_path / "trace.parquet")
    before = source.read_bytes()
    for out in (source, tmp_path / "x" / ".." / "trace.parquet"):
        code, err = run(source, out, "--tables", "ops", "--force")
        assert code == 2
        assert "is what is read, or lies in it" in err
    assert source.read_bytes() == before
    assert run(tmp_path, tmp_path / "in.parquet")[0] == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["t.csv"], "its ending says what is written, .parquet or .arrow"),
        (["t.parquet", "--tables", "ops,kernels"], "no table 'kernels' in this run; ops, calls"),
        (["t.parquet", "--tables", ","], "--tables names no table"),
        (["no/such/t.parquet"], "cannot write"),
        (["t.parquet", "--rank", "7"], "no rank 7 in this run"),
    ],
)
def test_wrong_usage_is_one_line(
    options: list[str], words: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, err = run(BUNDLED, *options)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_one_line_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text("no trace")
    assert run(source, tmp_path / "t.parquet")[0] == 3
    assert {path.name for path in tmp_path.iterdir()} == {"x.json"}


@pytest.mark.parametrize("out", ["t.parquet", "t.arrow"])
def test_a_full_disk_is_one_line_and_leaves_nothing(out: str, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "specscope", "convert", "--no-cache"]
    done = subprocess.run(
        [*program, str(BUNDLED), str(tmp_path / out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("specscope: cannot write")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


# What it says.


def test_what_it_says_is_the_golden_text(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, err = run(reports.BUNDLED, tmp_path / "tables.arrow", "--rank", "0")
    assert code == 0
    text = re.sub(r"[\d.]+ [kM]B\)", "SIZE)", err.replace(str(tmp_path), "DIR"))
    golden = GOLDEN / "convert.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_quiet_says_nothing(run: Run, tmp_path: Path) -> None:
    assert run(BUNDLED, tmp_path / "t.parquet", "--quiet") == (0, "")


def test_a_name_that_is_not_utf8_can_be_written(run: Run, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    assert run(BUNDLED, folder / "t.parquet", "--tables", "ops")[0] == 0
