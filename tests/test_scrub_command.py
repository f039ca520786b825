"""`specscope scrub` from the outside: folders and logs, what it says, and where it writes."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope import exits
from specscope.cli import _group
from specscope.dashboards.json_report import json_text
from tests.analyzers.cases_ranges import transformers_assisted_generation_by_its_frames
from tests.shared import shared_path
from tests.traces import planted
from tests.traces.planted import ENVIRONMENT, HOME, HOST, SECRET, TEXT, TOKEN, USER
from tests.traces.test_cycle_log_reader import write as write_log
from tests.traces.test_scrub_nsight import folder as nsight_folder
from tests.traces.test_scrub_nsight import sqlite as nsight_database

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `specscope scrub` in this process: exit code and stderr."""

    def call(*args: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = exits.call(_group, ["scrub", *map(str, args)])
        found = capsys.readouterr()
        assert found.out == ""
        return code, found.err

    return call


def attach_report(**more: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "host": HOST,
        "pid": 100,
        "process": f"python {HOME}/serve.py --api-key {SECRET}",
        "active": True,
        "engines": {"sglang": "0.5.12"},
        "left_over": [],
        "hooks": [],
        "emitters": {"cycle_log": {"active": True, "rows": 9, "reason": TEXT}},
        **more,
    }


def server(place: Path) -> Path:
    """A folder as people have them: logs, documents, and files that are nobody's business."""
    write_log(place / "log", pid=100)
    log = place / "log"
    (log / "attach-100.json").write_text(json.dumps(attach_report(environ=ENVIRONMENT)))
    (log / "server-args-100.json").write_text(
        json.dumps(
            {
                "schema_version": 1,
                "pid": 100,
                "engine": "sglang",
                "summary": {"model": f"{HOME}/models/llama-8b", "k": 3, "tp": 1},
                "server_args": {"api_key": SECRET, "host": HOST, "dist_init_addr": f"{HOST}:5000"},
            }
        )
    )
    (log / "run.json").write_text(
        json.dumps({"engine": "sglang", "model": f"{HOME}/m", "cycle_ms": 0.95, "note": TEXT})
    )
    (log / "sweep.json").write_text(json.dumps({"schema_version": 1, "command": TEXT}))
    (log / "server.log").write_text(TEXT)
    (log / ".hidden").write_text(TEXT)
    (log / "notes.json").write_text(json.dumps([TEXT]))
    (log / "elsewhere").symlink_to("/")
    return log


def test_a_log_folder_is_copied_without_what_is_planted(run: Run, tmp_path: Path) -> None:
    place, out = server(tmp_path), tmp_path / "copy"
    code, err = run(place, out)
    assert code == 0
    assert planted.found_in(out) == set()
    assert sorted(path.name for path in out.iterdir()) == [
        "attach-100.json",
        "run.json",
        "server-args-100.json",
        "specscope-cycles-rank0-pid100-1000000000000000000.0000.arrows",
        "sweep.json",
    ]
    for name in (".hidden", "elsewhere", "notes.json", "server.log"):
        assert f"not copied: {name}" in err
    assert json.loads((out / "attach-100.json").read_text())["host"] == "host1"
    args = json.loads((out / "server-args-100.json").read_text())
    assert args["server_args"] == {
        "api_key": "***",
        "host": "host1",
        "dist_init_addr": "host1:5000",
    }
    assert args["summary"] == {"model": "/p/llama-8b", "k": 3, "tp": 1}


def test_a_log_folder_gives_the_same_figures(run: Run, tmp_path: Path) -> None:
    place, out = server(tmp_path), tmp_path / "copy"
    run(place, out)
    one, other = (specscope.load(folder) for folder in (place, out))
    assert one.ranks[0].cycle_log.to_pylist() == other.ranks[0].cycle_log.to_pylist()
    assert one.ranks[0].losses.num_rows == other.ranks[0].losses.num_rows
    assert other.context["cycle_ms"] == 0.95
    assert_same_figures(place, out)


def test_a_log_that_was_cut_is_copied_to_its_last_batch(run: Run, tmp_path: Path) -> None:
    (path,) = write_log(tmp_path / "log")
    path.write_bytes(path.read_bytes()[:-300])
    out = tmp_path / "copy.arrows"
    code, err = run(path, out)
    assert code == 0
    assert "left out: 1 stretch that cannot be read" in err
    (one,), (other,) = (specscope.load(log).ranks for log in (path, out))
    assert one.cycle_log.to_pylist() == other.cycle_log.to_pylist()


def assert_same_figures(one: Path, other: Path) -> None:
    """All of the report but where it was read from, and the paths of its models."""
    figures = []
    for folder in (one, other):
        report = json.loads(json_text(specscope.analyze(specscope.load(folder)), []))
        for key in ("sources", "listed", "warnings"):
            report.pop(key)
        for key in ("model", "draft_model"):
            report["facts"].pop(key)
        figures.append(json.dumps(report).replace(str(folder), ""))
    assert figures[0] == figures[1]


OWN = ["examples/tp2-70b-eagle3", "tests/data/own-kimi-shape-tp2", "tests/data/own-hooks-8b-tp2/v1"]
SHARED = ["own/tp2-8b-eagle3-k3-nvlink-bs1", "own/tp2-8b-eagle3-k3-nvlink-bs1-stack"]


@pytest.mark.parametrize("name", OWN)
def test_a_recording_of_ours_gives_the_same_figures(name: str, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    assert run(ROOT / name, out)[0] == 0
    assert_same_figures(ROOT / name, out)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_recording_gives_the_same_figures(name: str, run: Run, tmp_path: Path) -> None:
    source, out = shared_path("traces", *name.split("/")), tmp_path / "copy"
    assert run(source, out)[0] == 0
    assert_same_figures(source, out)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A folder with two captures, named by a host, the newer one of two ranks."""
    place = tmp_path / "in"
    place.mkdir()
    drawn = transformers_assisted_generation_by_its_frames().trace
    for stamp in (1762000000000000000, 1762000900000000000):
        (place / f"{HOST}_123.{stamp}.pt.trace.json").write_bytes(drawn.to_json())
    return place


def test_hosts_in_the_names_of_files_are_masked(run: Run, capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    assert run(capture, out)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "host1_123.1762000000000000000.pt.trace.json",
        "host1_123.1762000900000000000.pt.trace.json",
    ]
    assert_same_figures(capture, out)


def test_names_that_become_alike_stay_apart(run: Run, capture: Path, tmp_path: Path) -> None:
    first = next(capture.iterdir())
    for token in (TOKEN, f"{TOKEN}x"):
        shutil.copy(first, capture / f"{token}.trace.json")
    out = tmp_path / "copy"
    assert run(capture, out)[0] == 0
    assert planted.found_in(out) == set()
    assert len(list(out.iterdir())) == 4


def test_a_folder_of_everything_is_copied(run: Run, capture: Path, tmp_path: Path) -> None:
    nsight_database(capture / "report.sqlite")
    nsight_folder(capture / f"report-{HOST}_pqtdir", "parquet")
    (capture / USER).mkdir()
    server(capture / USER)
    out = tmp_path / "copy"
    assert run(capture, out)[0] == 0
    assert planted.found_in(out) == set()
    assert (out / "user1" / "log" / "run.json").is_file()
    assert (out / "report-host1_pqtdir" / "StringIds.parquet").is_file()


def test_a_damaged_trace_in_a_folder_is_named_and_not_copied(
    run: Run, capture: Path, tmp_path: Path
) -> None:
    (capture / "damaged.trace.json").write_text(f"log of {TOKEN}")
    out = tmp_path / "copy"
    code, err = run(capture, out)
    assert code == 0
    assert "not copied: damaged.trace.json is not JSON" in err
    assert len(list(out.iterdir())) == 2


# Where it writes.


def test_what_is_there_is_not_replaced_unless_asked(
    run: Run, capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    assert run(capture, out)[0] == 0
    code, err = run(capture, out)
    assert code == 2
    assert err == f"specscope: {out} is there already; name another place, or --force\n"
    assert run(capture, out, "--force")[0] == 0
    assert len(list(out.iterdir())) == 2


def test_a_folder_with_other_files_is_never_replaced(
    run: Run, capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    code, err = run(capture, out, "--force")
    assert code == 2
    assert "holds thesis.tex, which is not of this copy" in err
    assert (out / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("kind", ["tables", "empty folder", "link"])
def test_force_takes_nothing_foreign_away(kind: str, run: Run, tmp_path: Path) -> None:
    source = nsight_folder(tmp_path / "report_pqtdir", "parquet")
    out = tmp_path / "copy"
    assert run(source, out)[0] == 0
    assert run(source, out, "--force")[0] == 0
    foreign = out / "mine"
    if kind == "tables":
        foreign.write_text("x")
    elif kind == "link":
        foreign.symlink_to(source)
    else:
        foreign.mkdir()
    code, err = run(source, out, "--force")
    assert code == 2
    assert "holds mine, which is not of this copy" in err
    assert foreign.exists()
    assert (source / "StringIds.parquet").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"report_pqtdir", "copy"}


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("in", "is the input"),
        ("in/copy", "lies in the input"),
        (".", "holds the input"),
        ("no/such/copy", "there is no folder"),
    ],
)
def test_a_place_that_cannot_be_is_one_line(
    out: str, words: str, run: Run, capture: Path, tmp_path: Path
) -> None:
    before = sorted(capture.rglob("*"))
    code, err = run(capture, tmp_path / out, "--force")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert sorted(capture.rglob("*")) == before


def test_the_input_is_never_written_by_a_link_to_it(
    run: Run, capture: Path, tmp_path: Path
) -> None:
    source = sorted(capture.iterdir())[0]
    before = source.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(source)
    assert run(source, link, "--force")[0] == 2
    hard = tmp_path / "hard.json"
    os.link(source, hard)
    assert run(source, hard, "--force")[0] == 2
    assert source.read_bytes() == before


def test_the_ending_says_whether_it_is_packed(run: Run, capture: Path, tmp_path: Path) -> None:
    source = sorted(capture.iterdir())[0]
    code, err = run(source, tmp_path / "copy.json.gz")
    assert code == 2
    assert "not packed with gzip; name it so" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        ('{"a": 1}', "JSON without traceEvents"),
    ],
)
def test_what_is_no_input_is_one_line(content: str, words: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    code, err = run(path, tmp_path / "copy.json")
    assert code == 3
    assert words in err
    assert err.count("\n") == 1
    assert {child.name for child in tmp_path.iterdir()} == {"x.json"}


def test_a_report_of_nsight_is_to_be_exported_first(
    run: Run, capture: Path, tmp_path: Path
) -> None:
    report = capture / "r.nsys-rep"
    report.write_text(TOKEN)
    code, err = run(report, tmp_path / "copy")
    assert code == 3
    assert "nsys export --type=sqlite" in err
    code, err = run(capture, tmp_path / "copy")
    assert code == 0
    assert "not copied: r.nsys-rep: a report, which holds the program's environment" in err
    assert planted.found_in(tmp_path / "copy") == set()


def test_standard_input_and_what_is_not_there_are_one_line(run: Run, tmp_path: Path) -> None:
    assert run("-", tmp_path / "copy")[1].count("\n") == 1
    assert run(tmp_path / "no", tmp_path / "copy")[0] == 2


def test_a_full_disk_is_one_line_and_leaves_nothing(capture: Path, tmp_path: Path) -> None:
    nsight_database(capture / "report.sqlite")
    for source, out in ((capture, "copy"), (capture / "report.sqlite", "copy.sqlite")):
        done = subprocess.run(
            [sys.executable, "-m", "specscope", "scrub", str(source), str(tmp_path / out)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
        )
        assert done.returncode == 2
        assert done.stderr.startswith("specscope: cannot write")
        assert done.stderr.count("\n") == 1
        assert {child.name for child in tmp_path.iterdir()} == {"in"}


# What it says.


def test_what_it_says_is_the_golden_text(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = server(tmp_path)
    nsight_database(place / "report.sqlite")
    code, err = run(place, tmp_path / "copy")
    assert code == 0
    golden = GOLDEN / "scrub.txt"
    text = re.sub(r"[\d.]+ [kM]B\)", "SIZE)", err.replace(str(tmp_path), "DIR"))
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_quiet_says_nothing(run: Run, capture: Path, tmp_path: Path) -> None:
    assert run(capture, tmp_path / "copy", "--quiet") == (0, "")


def test_a_copy_of_a_copy_is_the_same(run: Run, tmp_path: Path) -> None:
    place = server(tmp_path)
    nsight_database(place / "report.sqlite")
    run(place, tmp_path / "one")
    run(tmp_path / "one", tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
