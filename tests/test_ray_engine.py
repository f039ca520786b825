"""A real local Ray with two workers gives what this process gives, also when a worker is killed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specscope import exits, ray_engine
from specscope.cli import _group
from specscope.traces.engines import Failed
from tests.shared import needed

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "examples" / "tp2-70b-eagle3"
# Far above the 20 s that it takes, or the 200 s on a machine with ten times too much to do.
DEADLINE_SECONDS = 800.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs to collect: two that are whole, one in a rank's file, one broken, one a copy."""
    folder = tmp_path_factory.mktemp("ray")
    runs = folder / "runs"
    shutil.copytree(RECORDING, runs / "a-whole")
    shutil.copytree(RECORDING, runs / "b-copy")
    (runs / "broken").mkdir()
    (runs / "broken" / "x.trace.json.gz").write_bytes(gzip.compress(b'{"a": 1}'))
    (runs / "one-rank").mkdir()
    shutil.copy(RECORDING / "rank0.trace.json.gz", runs / "one-rank")
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    needed("ray")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray_driver", str(folder)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("command", ["analyze", "ranks"])
def test_a_report_is_the_same_byte_for_byte(found: dict[str, Any], command: str) -> None:
    assert found["here"][command][0] == 0
    assert found["ray"][command] == found["here"][command]


@pytest.mark.parametrize("what", ["tables", "dataset"])
def test_parquet_files_are_the_same_byte_for_byte(
    found: dict[str, Any], folder: Path, what: str
) -> None:
    here, there = (
        {path.relative_to(at): path.read_bytes() for path in at.rglob("*.parquet")}
        for at in (folder / "here" / what, folder / "ray" / what)
    )
    assert len(here) > 8
    assert here == there


def test_a_file_that_cannot_be_read_has_the_same_line(found: dict[str, Any]) -> None:
    code, out, err = found["ray"]["broken"]
    assert (code, out) == (exits.UNREADABLE, "")
    assert len(err.splitlines()) == 1
    assert found["ray"]["broken"] == found["here"]["broken"]


def test_a_killed_workers_file_is_read_again_and_nothing_is_lost_or_doubled(
    found: dict[str, Any], folder: Path
) -> None:
    assert found["killed_once"] is True
    attempts = Counter(attempts_of(folder / "once"))
    assert attempts == {"rank0.trace.json.gz": 1, "rank1.trace.json.gz": 2}


def test_a_killed_workers_run_is_analysed_again(found: dict[str, Any], folder: Path) -> None:
    assert found["many"] == [[place, "analysed"] for place in range(4)]
    assert Counter(attempts_of(folder / "many"))["a-whole"] == 2


def test_a_file_that_kills_every_worker_is_named_in_one_line(
    found: dict[str, Any], folder: Path
) -> None:
    line = found["killed_always"]
    assert "rank1.trace.json.gz" in line
    assert "workers died" in line
    assert "\n" not in line
    assert Counter(attempts_of(folder / "always"))["rank1.trace.json.gz"] == ray_engine.RETRIES + 1


def test_a_local_cluster_is_reached_from_this_machine_only(found: dict[str, Any]) -> None:
    assert found["listening_elsewhere"] == []


def test_nothing_is_told_to_the_makers_of_ray_and_nothing_is_left(found: dict[str, Any]) -> None:
    assert found["usage"] is False
    assert found["left"] is False


def attempts_of(folder: Path) -> list[str]:
    lines = (folder / "attempts").read_text().splitlines()
    return [line.split(" ")[0] for line in lines]


# ---- without a cluster


def call(*arguments: str | Path) -> int:
    return exits.call(_group, ["analyze", str(RECORDING), "--engine", "ray", *map(str, arguments)])


def test_without_ray_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert call("--ray-address", "local") == exits.WRONG_USAGE
    assert capsys.readouterr().err == (
        "specscope: --engine ray needs Ray: pip install 'specscope[cluster]'\n"
    )


def test_without_an_address_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert call() == exits.WRONG_USAGE
    assert "--ray-address local" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    needed("ray")
    assert call("--ray-address", "127.0.0.1:1") == exits.WRONG_USAGE
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "no Ray cluster at 127.0.0.1:1 (Connection refused)" in err


def run_on_worker(folder: str, code: str) -> object:
    return ray_engine._run(str.upper, "x", folder, ray_engine.__version__, code)


def test_a_worker_with_other_code_gives_no_result(tmp_path: Path) -> None:
    failed = run_on_worker(str(tmp_path), "other")
    assert isinstance(failed, Failed)
    assert "another specscope" in str(failed.error)


def test_a_worker_without_the_callers_folder_says_what_is_needed(tmp_path: Path) -> None:
    failed = run_on_worker(str(tmp_path / "gone"), ray_engine.code())
    assert isinstance(failed, Failed)
    assert "file system that all share" in str(failed.error)


def test_a_worker_finds_paths_where_the_caller_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # undone afterwards
    assert run_on_worker(str(tmp_path), ray_engine.code()) == "X"
    assert Path.cwd() == tmp_path.resolve()
