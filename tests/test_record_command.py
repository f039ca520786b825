"""`specscope record` from the outside: what goes where, exit codes, and the analysis behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import analyze_command, exits
from specscope.cli import _group
from specscope.record_command import _show
from tests.nsys_programs import SAMPLE, Program
from tests.test_cli import Done

Run = Callable[..., Done]
HELLO = (sys.executable, "-S", "-c", "print('hello')")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "installed")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], program: Program) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        words = ["record", "--nsys", str(program.path), "--no-hooks", *map(str, args)]
        code = exits.call(_group, words)
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[analyze_command.Request]:
    """The requests that the analysis got, in place of an analysis."""
    requests: list[analyze_command.Request] = []

    def note(request: analyze_command.Request) -> int:
        requests.append(request)
        return exits.UNSUPPORTED

    monkeypatch.setattr(analyze_command, "run", note)
    return requests


def test_the_folder_goes_to_stdout_and_the_rest_to_stderr(run: Run, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "out", "--no-analyze", "--", *HELLO)
    assert (done.code, done.out) == (0, f"{tmp_path}/out\n")
    assert "hello\n" in done.err
    assert f"again: analyze {tmp_path}/out/report.nsys-rep" in done.err


def test_the_report_of_the_analysis_goes_to_stdout(
    run: Run, tmp_path: Path, program: Program
) -> None:
    program.tell(copy=str(SAMPLE))
    done = run("--out", tmp_path / "out", "--", *HELLO)
    assert done.code == 0
    assert done.out.startswith("Verify (accept included) takes ")
    assert "report.nsys-rep [process " in done.out
    assert "export.sqlite" not in done.out


def test_the_reports_are_analysed_with_the_same_nsys(
    run: Run, tmp_path: Path, program: Program, asked: list[analyze_command.Request]
) -> None:
    out = tmp_path / "out"
    done = run("--out", out, "--export-timeout", "77", "--", *HELLO)
    (request,) = asked
    assert request.paths == (f"{out}/report.nsys-rep",)
    assert (request.nsys, request.export_timeout) == (str(program.path), 77)
    assert done.code == exits.UNSUPPORTED


def test_of_several_windows_the_folder_is_analysed_for_they_are_no_ranks(
    run: Run, tmp_path: Path, asked: list[analyze_command.Request]
) -> None:
    out = tmp_path / "out"
    done = run("--out", out, "--windows", "2", "--", *HELLO)
    assert [request.paths for request in asked] == [(str(out),)]
    assert f"again: analyze {out}\n" in done.err


def test_a_command_that_failed_is_analysed_and_gives_its_exit_code(
    run: Run, tmp_path: Path, asked: list[analyze_command.Request]
) -> None:
    fails = (sys.executable, "-S", "-c", "import sys; sys.exit(9)")
    done = run("--out", tmp_path / "out", "--", *fails)
    assert (done.code, len(asked)) == (9, 1)
    assert "the command ended with exit code 9" in done.err


def test_without_a_report_there_is_one_line_and_the_code_for_no_input(
    run: Run, tmp_path: Path
) -> None:
    done = run("--out", tmp_path / "out", "--delay", "300", "--quiet", "--", *HELLO)
    assert (done.code, done.out) == (exits.UNREADABLE, "")
    assert done.err == (
        "specscope: no report was written: the command ended with exit code 0; its log: hello; "
        f"let it run until the collection has begun, see {tmp_path}/out/server.log\n"
    )


def test_a_raw_recording_is_named_with_the_rule(run: Run, tmp_path: Path, program: Program) -> None:
    program.tell(report="lost")
    done = run("--out", tmp_path / "out", "--", *HELLO)
    assert done.code == exits.UNREADABLE
    assert "only the nsys of exactly the version that recorded it can import it" in done.err
    assert f"a raw recording was left: {tmp_path}/out/report.qdstrm" in done.err


def test_a_command_that_is_not_there_gives_127(run: Run, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "out", "--", "/nonexistent/serve")
    assert (done.code, done.err) == (127, "specscope: /nonexistent/serve: command not found\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--windows", "2", "--delay", "1"),
        ("--by-signal", "--duration", "1"),
        ("--windows", "2", "--by-signal"),
        ("--delay", "nan"),
        ("--url", "ftp://127.0.0.1"),
        (),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command = HELLO if words else ()
    done = run("--out", tmp_path / "out", *words, "--", *command)
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert len(done.err.splitlines()) == 1


def test_without_nsys_it_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["record", "--nsys", "/nonexistent/nsys", "--out", str(tmp_path / "out"), "--", *HELLO]
    assert exits.call(_group, words) == exits.WRONG_USAGE
    said = capsys.readouterr().err
    assert said == "specscope: /nonexistent/nsys does not exist; give the path of nsys\n"


def test_two_interrupts_end_it_at_once(tmp_path: Path, program: Program) -> None:
    program.tell(stop="hang")
    forever = "import time; print('ready', flush=True); time.sleep(600)"
    words = [
        *(sys.executable, "-m", "specscope", "record", "--no-hooks"),
        *("--nsys", str(program.path), "--out", str(tmp_path / "out")),
        *("--", sys.executable, "-S", "-c", forever),
    ]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert child.stderr is not None
    for line in child.stderr:
        if "ready" in line and "runs" not in line:
            child.send_signal(signal.SIGINT)
        if "ending the collection" in line:
            child.send_signal(signal.SIGINT)
            break
    _, said = child.communicate(timeout=120)
    assert child.returncode == exits.INTERRUPTED
    assert said.splitlines()[-1] == "specscope: interrupted"
    assert "Traceback" not in said


def test_moving_lines_of_nsys_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("\r[1/1] [==50%   ] r.nsys-rep\r[1/1] [100%] r.nsys-rep", "\rready\x1b[31m"):
        _show(line)
    found = capsys.readouterr().err
    assert found.count("\n") == 1
    assert found.startswith("ready")
    assert "\x1b" not in found
