"""`specscope compare` from the outside: exit codes, what goes where, what is never overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from specscope import exits
from specscope.cli import _group
from tests.shared import shared_path
from tests.test_cli import Done

Run = Callable[..., Done]
CASES = shared_path("cases")
BASE, SLOWER, NOISE = (CASES / f"c01_{name}.json" for name in ("base", "slower", "noise"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["compare", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_a_difference_is_said_first_and_is_no_failure(run: Run) -> None:
    done = run(BASE, SLOWER)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("A difference: the cycle of B is 7.2 % longer")


def test_noise_is_no_difference_and_exit_code_0(run: Run) -> None:
    done = run(BASE, NOISE, "--check", "verify.delta<=2%")
    assert done.code == 0
    assert done.out.startswith("No difference beyond noise")
    assert done.out.endswith("--check verify.delta<=2%: passed, it is 0.1 %\n")


def test_a_failed_check_is_exit_code_1(run: Run) -> None:
    done = run(BASE, SLOWER, "-q", "--check", "verify.delta<=2%", "--check", "draft.delta<=1%")
    assert done.code == exits.CHECK_FAILED
    assert "--check verify.delta<=2%: FAILED, it is 7.5 %" in done.out
    assert "--check draft.delta<=1%: passed, it is 0.0 %" in done.out


def test_a_check_inside_the_noise_is_exit_code_4(run: Run) -> None:
    done = run(BASE, NOISE, "-q", "--check", "verify.delta<=0.1%")
    assert done.code == exits.UNSUPPORTED
    assert "of noise" in done.out


def test_too_few_cycles_are_no_verdict_and_4_only_when_one_was_demanded(run: Run) -> None:
    few = CASES / "a07_item_sync.json"
    done = run(few, BASE, "-q")
    assert done.code == 0
    assert done.out == "No verdict: A has 1 steady whole cycle, 3 are needed.\n"
    assert run(few, BASE, "-q", "--check", "verify.delta<=2%").code == exits.UNSUPPORTED


def test_an_unknown_name_is_wrong_usage_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path / "none", BASE, "--check", "verify.share>=0.9")
    assert done.code == exits.WRONG_USAGE
    assert "unknown name 'verify.share'" in done.line


def test_what_is_no_trace_is_exit_code_3_and_one_line(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    done = run(BASE, other)
    assert (done.code, done.out) == (exits.UNREADABLE, "")
    assert done.line


def test_json_goes_to_stdout_and_the_checks_to_stderr(run: Run) -> None:
    done = run(BASE, SLOWER, "--check", "verify.delta<=2%", "--json")
    tree = json.loads(done.out)
    assert done.code == exits.CHECK_FAILED
    assert tree["checks"][0]["passed"] is False
    row = next(row for row in tree["rows"] if row["name"] == "verify")
    assert (row["change"], row["differs"]) == (1_500_000, True)
    assert "FAILED" in done.line


def test_files_are_written_beside_the_answer(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("compare.json", "summary.md", "junit.xml")]
    done = run(
        *(BASE, SLOWER, "--json", files[0], "--markdown", files[1], "--junit", files[2]),
        *("--check", "verify.delta<=2%"),
    )
    assert done.code == exits.CHECK_FAILED
    assert done.out.startswith("A difference")
    assert json.loads(files[0].read_text())["differs"] is True
    assert "**A difference" in files[1].read_text()
    assert Xml.parse(files[2]).getroot().get("failures") == "1"
    # What was written may be written anew.
    assert run(BASE, NOISE, "--json", files[0], "--junit", files[2], "-q").code == 0
    assert json.loads(files[0].read_text())["differs"] is False


@pytest.mark.parametrize("option", ["--json", "--markdown", "--junit"])
def test_a_trace_is_never_overwritten(run: Run, tmp_path: Path, option: str) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(BASE.read_bytes())
    done = run(trace, SLOWER, option, trace)
    assert done.code == exits.WRONG_USAGE
    assert "not overwritten" in done.line
    assert trace.read_bytes() == BASE.read_bytes()


def test_two_documents_do_not_share_stdout(run: Run) -> None:
    done = run(BASE, SLOWER, "--markdown", "--json")
    assert done.code == exits.WRONG_USAGE
    assert "both go to stdout" in done.line


def test_one_run_alone_is_wrong_usage(run: Run) -> None:
    assert run(BASE).code == exits.WRONG_USAGE


def test_the_bytes_are_the_same_from_run_to_run(run: Run) -> None:
    assert run(BASE, SLOWER, "--json").out == run(BASE, SLOWER, "--json").out
