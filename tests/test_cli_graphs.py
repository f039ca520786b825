"""`analyze --capture-trace` as a user calls it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import analyze_command as command
from tests.dashboards.reports import CAPTURED, ROOT
from tests.traces.small import write_trace

FOLDER = ROOT / CAPTURED
TRACE, CAPTURE = FOLDER / "rank0.trace.json.gz", FOLDER / "graph_capture.json.gz"


class Called:
    """What a call of `analyze` left behind."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *args: object) -> None:
        self.code = exits.call(command, [str(arg) for arg in args])
        self.out, self.err = capsys.readouterr()


def test_the_inside_of_graphs_is_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    done = Called(capsys, TRACE, "--capture-trace", CAPTURE)
    assert (done.code, done.err) == (0, "")
    assert "Inside the draft graph (capture_4_draft)" in done.out


def test_trace_and_capture_trace_may_lie_in_one_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = Called(capsys, FOLDER, "--capture-trace", FOLDER, "--json")
    tree = json.loads(done.out)
    assert [Path(row["path"]).name for row in tree["sources"]] == [TRACE.name]
    assert tree["graphs"]["mapped_launches"] == 17


def test_without_the_option_the_folder_is_read_without_its_capture_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = json.loads(Called(capsys, FOLDER, "--json").out)
    assert tree["graphs"] is None
    assert tree["listed"][1:] == [
        "graph_capture.json.gz: recorded while graphs were built; --capture-trace reads it"
    ]


def test_the_figures_beside_it_are_the_same_with_and_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = json.loads(Called(capsys, TRACE, "--json").out)
    more = json.loads(Called(capsys, TRACE, "--json", "--capture-trace", CAPTURE).out)
    for tree in (plain, more):
        del tree["graphs"]
        tree["warnings"] = [one for one in tree["warnings"] if "graph" not in one["code"]]
    assert plain == more


def test_a_capture_trace_given_as_a_rank_is_one_line_that_names_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = Called(capsys, TRACE, CAPTURE)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "give it with --capture-trace" in done.err


def test_a_capture_trace_alone_is_named_and_answers_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = Called(capsys, CAPTURE, "--check", "verify.share>=0")
    assert done.code == 4
    assert "a trace of graph capture, not of serving" in done.out


def test_a_trace_of_serving_given_as_a_capture_trace_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = Called(capsys, TRACE, "--capture-trace", write_trace(tmp_path, "other.json"))
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "other.json holds no graph capture" in done.err


def test_a_missing_capture_trace_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    done = Called(capsys, TRACE, "--capture-trace", "none.json")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_a_capture_trace_that_was_read_is_never_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = Path(shutil.copy(CAPTURE, tmp_path))
    done = Called(capsys, TRACE, "--capture-trace", path, "--html", path)
    assert done.code == 2
    assert path.read_bytes() == CAPTURE.read_bytes()
