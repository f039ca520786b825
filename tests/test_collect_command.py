"""`specscope collect` from the outside: what is written, what replaces what, and what never can."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import specscope
from specscope import exits
from specscope.analyzers import many_runs
from specscope.cli import _group
from specscope.dashboards import dataset
from specscope.traces import cache
from specscope.traces.errors import UsageError
from specscope.traces.schema_findings import FINDINGS, PARTITIONS
from tests.shared import needed
from tests.test_cli import Done

RECORDING = Path(__file__).resolve().parents[1] / "examples" / "tp2-70b-eagle3"
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(*paths: str | Path, more: tuple[str, ...] = ()) -> Done:
        capsys.readouterr()
        out = str(tmp_path / "findings")
        code = exits.call(_group, ["collect", *map(str, paths), "--dataset", out, *more])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A run of its own, which tests may change."""
    shutil.copytree(RECORDING, tmp_path / "one")
    return tmp_path / "one"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.trace.json.gz").write_bytes(gzip.compress(b'{"a": 1}'))
    return tmp_path / "broken"


def rows(tmp_path: Path, table: str = "runs") -> pd.DataFrame:
    return pd.read_parquet(tmp_path / "findings" / table)


def test_every_run_is_a_row_of_runs_whatever_became_of_it(
    run: Run, tmp_path: Path, one: Path, broken: Path
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    text = gzip.decompress((RECORDING / "rank0.trace.json.gz").read_bytes())
    (half / "rank0.trace.json").write_bytes(text[: len(text) // 4])
    done = run(one, broken, half, tmp_path / "gone")
    assert done.code == exits.UNREADABLE
    assert done.out.splitlines()[-1].endswith("1 with a verdict, 1 without a verdict, 2 unreadable")
    found = rows(tmp_path).set_index("path")
    assert found["outcome"].to_dict() == {
        str(one): "answered",
        str(half): "refused",
        str(broken): "unreadable",
        str(tmp_path / "gone"): "unreadable",
    }
    assert "no trace events" in found.loc[str(broken), "reason"]
    assert "does not exist" in found.loc[str(tmp_path / "gone"), "reason"]
    assert found.loc[str(half), "reason"]
    assert found["reason"].isna().to_dict()[str(one)]


def test_the_figures_are_those_of_the_report(run: Run, tmp_path: Path, one: Path) -> None:
    assert run(one).code == 0
    report = specscope.analyze(specscope.load(RECORDING))
    found = rows(tmp_path).iloc[0]
    assert found["sentence"] == report.verdict.sentence
    assert found["share"] == report.verdict.share
    assert (found["model"], found["engine_version"]) == ("llama70b", "0.5.12.post1")
    assert found["date"] == "2026-11-29"
    assert str(found["recorded_at"].date()) == "2026-11-29"
    stages = rows(tmp_path, "stages")
    assert len(stages) == len(report.shares)
    verify = stages[(stages["stage"] == "verify") & stages["rank"].isna()].iloc[0]
    assert verify["cycle_share"] == report.share("verify").cycle_share.value  # type: ignore[union-attr]
    assert report.group is not None
    assert list(rows(tmp_path, "rank_stages")["wait_ns"]) == [
        row.wait_ns for row in report.group.rows
    ]
    assert len(rows(tmp_path, "notes")) == len(report.warnings) == found["notes"]
    assert rows(tmp_path, "losses")["count"].sum() == found["losses"]


def test_duckdb_reads_every_table_as_it_stands(
    run: Run, tmp_path: Path, one: Path, broken: Path
) -> None:
    duckdb = needed("duckdb")
    run(one, broken)
    for table, schema in FINDINGS.items():
        place = tmp_path / "findings" / table
        found = duckdb.sql(
            f"SELECT * FROM read_parquet('{place}/**/*.parquet', hive_partitioning = true)"
        )
        assert sorted(found.columns) == sorted([*schema.names, *PARTITIONS])
    question = f"SELECT outcome, count(*) FROM '{tmp_path}/findings/runs/**/*.parquet' GROUP BY 1"
    assert dict(duckdb.sql(question).fetchall()) == {"answered": 1, "unreadable": 1}


def test_every_table_has_the_columns_of_its_schema(run: Run, tmp_path: Path, one: Path) -> None:
    run(one)
    for table, schema in FINDINGS.items():
        (file,) = (tmp_path / "findings" / table).rglob("*.parquet")
        with pa.OSFile(os.fspath(file)) as source:
            assert pq.read_schema(source).equals(schema, check_metadata=True)


def test_a_run_that_comes_again_replaces_itself(run: Run, tmp_path: Path, one: Path) -> None:
    run(one)
    before = files(tmp_path)
    assert run(one).code == 0
    assert files(tmp_path) == before


def test_a_run_of_another_model_leaves_nothing_of_the_old_one(
    run: Run, tmp_path: Path, one: Path
) -> None:
    run(one)
    before = files(tmp_path)
    meta = json.loads((one / "meta.json").read_text()) | {"model": "kimi-k2.5"}
    (one / "meta.json").write_text(json.dumps(meta))
    run(one)
    assert list(rows(tmp_path)["model"]) == ["kimi-k2.5"]
    assert len(files(tmp_path)) == len(before)
    assert not list((tmp_path / "findings").rglob("model=llama70b"))


def test_a_run_that_is_mended_replaces_the_row_that_said_it_was_broken(
    run: Run, tmp_path: Path, broken: Path
) -> None:
    run(broken)
    shutil.rmtree(broken)
    shutil.copytree(RECORDING, broken)
    run(broken)
    assert list(rows(tmp_path)["outcome"]) == ["answered"]


def test_the_second_path_of_one_recording_is_a_duplicate_in_any_order_of_work(
    run: Run, tmp_path: Path, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "a-copy"
    shutil.copytree(one, other)

    def backwards(self: object, work: Callable[[Any], Any], items: list[Any]) -> Any:
        return [(place, work(items[place])) for place in reversed(range(len(items)))]

    run(one, other)
    forth = files(tmp_path)
    monkeypatch.setattr("specscope.traces.engines.InProcess.each", backwards)
    run(one, other)
    assert files(tmp_path) == forth
    found = rows(tmp_path).set_index("path")
    assert found["outcome"].to_dict() == {str(one): "answered", str(other): "duplicate"}
    assert found.loc[str(other), "reason"] == f"the same recording as {one}"
    assert set(rows(tmp_path, "stages")["run"]) == {dataset.run_name(str(one))}


def test_the_same_path_twice_is_one_run(run: Run, tmp_path: Path, one: Path) -> None:
    assert run(one, f"{one}/.").code == 0
    assert len(rows(tmp_path)) == 1


def test_a_killed_writer_leaves_what_was_there_and_is_swept_away(
    run: Run, tmp_path: Path, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(one)
    before = files(tmp_path)

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        assert run(one).code == exits.INTERRUPTED
    assert files(tmp_path) == before
    left = tmp_path / "findings" / ".writing-left"
    left.mkdir()
    os.utime(left, (0, 0))
    run(one)
    assert not left.exists()
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "hostile",
    ["../../../etc/passwd", "..", "a/b=c", "x\0y\n", "model=1/run=2", "\ud800", "é" * 300, "", " "],
)
def test_no_value_leads_out_of_the_dataset(hostile: str) -> None:
    value = dataset.value(hostile)
    assert value
    assert value.strip(".")
    assert set(value) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert len(value) <= 80


def test_a_hostile_model_stays_a_name_and_is_kept_as_recorded(
    run: Run, tmp_path: Path, one: Path
) -> None:
    hostile = "../../../../escaped/\u202e=x"
    meta = json.loads((one / "meta.json").read_text()) | {"model": hostile}
    (one / "meta.json").write_text(json.dumps(meta))
    assert run(one).code == 0
    found = rows(tmp_path).iloc[0]
    assert (found["model"], found["model_name"]) == ("escaped_x", hostile)
    assert not (tmp_path / "escaped").exists()
    assert sorted(path.name for path in (tmp_path / "findings").iterdir()) == sorted(
        [dataset.MARK, *FINDINGS]
    )


def test_a_fault_of_our_own_costs_one_run_and_no_other(
    run: Run, tmp_path: Path, one: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(many_runs, "analyze", faulty)
    assert run(one, broken).code == exits.UNREADABLE
    found = rows(tmp_path).set_index("path")["reason"].to_dict()
    assert "internal error (ZeroDivisionError: boom)" in found[str(one)]


@pytest.mark.parametrize("what", ["file", "folder", "schema"])
def test_what_is_no_dataset_of_this_schema_is_not_written_into(
    run: Run, tmp_path: Path, one: Path, what: str
) -> None:
    out = tmp_path / "findings"
    if what == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        name, text = (
            ("mine.txt", "mine") if what == "folder" else (dataset.MARK, '{"schema_version": 99}')
        )
        (out / name).write_text(text)
    done = run(one)
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert len(done.err.splitlines()) == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == 0


def test_standard_input_has_no_place(run: Run) -> None:
    done = run("-")
    assert done.code == exits.WRONG_USAGE
    assert "standard input" in done.err


def test_a_dataset_that_cannot_be_written_is_one_line(
    run: Run, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset.pq, "write_table", full)
    monkeypatch.setattr(cache, "put", lambda *_: False)
    done = run(one)
    assert done.code == UsageError.exit_code
    assert "No space left on device" in done.err
    assert len(done.err.splitlines()) == 1


def files(tmp_path: Path) -> dict[str, bytes]:
    root = tmp_path / "findings"
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
