"""`specscope capture` from the outside: what goes where, exit codes, and the report behind it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.capture_command import Talk
from specscope.cli import _group
from tests import waiting
from tests.dashboards import reports
from tests.profiler.fake_servers import SECRET, FakeSglang, FakeVllm, Faults
from tests.test_cli import Done

RANKS = tuple(path.read_bytes() for path in sorted((reports.ROOT / reports.BUNDLED).glob("*.gz")))
SMALL = ("--prompt-tokens", "8", "--tokens", "64", "--repetitions", "1", "--timeout", "20")

Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["capture", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_the_report_names_the_cycle_that_was_measured(run: Run, tmp_path: Path) -> None:
    """A recording at batch 8 comes out of the server, which really takes 37 ms a cycle."""
    with FakeSglang(traces=RANKS, cycle_seconds=0.0369) as fake:
        out = tmp_path / "out"
        done = run("--url", fake.url, "--batch", "8", "--cycles", "8", "--out", out, *SMALL)
    measured = json.loads((out / "run.json").read_text("utf-8"))["cycle_ms"]
    assert done.code == 0
    assert done.out.startswith("Verify (accept included) takes ")
    assert f"Without the profiler a cycle takes {measured:.2f} ms (run.json)" in done.out
    assert "of the cycle without a profiler" in done.out
    assert f"wrote {out}/run.json" in done.err
    assert all(line.startswith("specscope: ") for line in done.err.splitlines())


def test_options_of_analyze_override_what_was_measured(run: Run, tmp_path: Path) -> None:
    with FakeSglang(traces=RANKS, cycle_seconds=0.0369) as fake:
        out = tmp_path / "out"
        run("--url", fake.url, "--batch", "8", "--out", out, "--no-analyze", *SMALL)
    program = [sys.executable, "-m", "specscope", "analyze", str(out), "--no-cache"]
    own = subprocess.run(program, capture_output=True, text=True, check=True)
    given = subprocess.run(
        [*program, "--cycle-ms", "36.5"], capture_output=True, text=True, check=True
    )
    assert "(run.json)" in own.stdout
    assert "36.50 ms (--cycle-ms)" in given.stdout


def test_without_the_report_the_folder_is_printed(run: Run, tmp_path: Path) -> None:
    with FakeSglang() as fake:
        done = run("--url", fake.url, "--out", tmp_path / "out", "--no-analyze", *SMALL)
    assert (done.code, done.out) == (0, f"{tmp_path}/out\n")


def test_measuring_only_needs_no_profiler(run: Run, tmp_path: Path) -> None:
    with FakeVllm(faults=Faults(no_profiler=True)) as fake:
        done = run("--url", fake.url, "--out", tmp_path / "out", "--no-profile", "--quiet", *SMALL)
    assert (done.code, done.out, done.err) == (0, f"{tmp_path}/out\n", "")


def test_a_vllm_server_without_a_profiler_is_one_line_and_wrong_usage(
    run: Run, tmp_path: Path
) -> None:
    with FakeVllm(faults=Faults(no_profiler=True)) as fake:
        done = run("--url", fake.url, "--out", tmp_path / "out", *SMALL)
    assert done.code == exits.WRONG_USAGE
    assert "start it so: vllm serve MODEL" in done.line


def test_no_server_is_one_line(run: Run) -> None:
    done = run("--url", "http://127.0.0.1:9")
    assert done.code == exits.UNREADABLE
    assert done.line == (
        "specscope: http://127.0.0.1:9 does not answer GET /version: Connection refused"
    )


def test_a_server_that_dies_under_the_profiler_is_named_last(run: Run, tmp_path: Path) -> None:
    with FakeSglang(faults=Faults(dies=True)) as fake:
        done = run("--url", fake.url, "--out", tmp_path / "out", *SMALL)
    assert done.code == exits.UNREADABLE
    assert "does not answer POST" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert (tmp_path / "out" / "run.json").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--url", "ftp://x"),
        ("--url", "http://h", "--cycles", "0"),
        ("--url",),
        ("--url", "http://exa mple:80/"),
        ("--url", "http://u:p@h:86010"),
        ("--url", "http://h", "--timeout", "nan"),
        ("--url", "http://h", "--timeout", "0.5"),
        ("--url", "http://h", "--timeout", "inf"),
        ("--url", "http://h", "--api-key", "a\n"),
        ("--url", "http://h", "--baseline", "x", "--baseline-url", "http://i"),
        ("--url", "http://h", "--graphs", "--no-profile"),
        ("--url", "http://h", "--stacks", "--no-profile"),
    ],
)
def test_wrong_options_are_one_line(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == exits.WRONG_USAGE
    assert done.line


def test_a_place_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with FakeSglang() as fake:
        done = run("--url", fake.url, "--no-profile", "--quiet", "--out",
                   tmp_path / "file" / "out", *SMALL)  # fmt: skip
    assert done.code == exits.WRONG_USAGE
    assert "cannot write" in done.line


def test_the_key_comes_from_the_environment_and_is_never_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeSglang(api_key=SECRET) as fake:
        refused = run("--url", fake.url, "--out", tmp_path / "out", *SMALL)
        monkeypatch.setenv("SPECSCOPE_API_KEY", SECRET)
        done = run("--url", fake.url, "--out", tmp_path / "out", "--no-analyze", *SMALL)
    assert refused.code == exits.WRONG_USAGE
    assert "SPECSCOPE_API_KEY" in refused.line
    assert done.code == 0
    written = "".join(path.read_bytes().decode("latin-1") for path in (tmp_path / "out").iterdir())
    assert SECRET not in done.out + done.err + written


@pytest.mark.parametrize("name", ["SPECSCOPE_API_KEY", "SPECSCOPE_ADMIN_API_KEY"])
def test_a_key_with_the_end_of_a_line_is_one_line_without_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, f"{SECRET}\n")
    done = run("--url", "http://127.0.0.1:9", *SMALL)
    assert (done.code, SECRET in done.err) == (exits.WRONG_USAGE, False)
    assert name in done.line


def test_sglang_with_two_keys_is_captured(run: Run, tmp_path: Path) -> None:
    """The profiler's pages want the admin key, and take no other."""
    with FakeSglang(api_key="user-key", admin_key="admin-key") as fake:
        arguments = ("--url", fake.url, "--api-key", "user-key", "--no-analyze", *SMALL)
        without = run(*arguments, "--out", tmp_path / "out")
        done = run(*arguments, "--out", tmp_path / "out", "--admin-api-key", "admin-key")
    assert without.code == exits.WRONG_USAGE
    assert "SPECSCOPE_ADMIN_API_KEY" in without.err
    assert done.code == 0
    written = (tmp_path / "out" / "run.json").read_text("utf-8")
    assert "admin-key" not in done.out + done.err + written


def test_sigterm_ends_the_profile_as_ctrl_c_does(tmp_path: Path) -> None:
    with FakeSglang(faults=Faults(writing="cut")) as fake:
        program = [sys.executable, "-m", "specscope", "capture", "--url", fake.url, *SMALL]
        started = subprocess.Popen(
            [*program, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
        )
        waiting.until(lambda: fake.asked("/start_profile"), "the profile starts")
        started.terminate()
        _, said = started.communicate(timeout=waiting.PATIENCE)
        paths = [path for _, path, _ in fake.calls]
    assert "/stop_profile" in paths[paths.index("/start_profile") :]
    assert started.returncode == exits.INTERRUPTED
    assert said.splitlines()[-1] == "specscope: interrupted"


def test_what_moves_is_shown_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        with Talk(terminal, quiet=False) as talk:
            talk.tick("waiting for traces: 1 of 2 whole\x1b[31m")
        shown = ""
        while shown.count("\x1b[K") < 2:  # a terminal hands on what it likes at a time
            shown += os.read(master, 1000).decode()
    os.close(master)
    assert "\r\x1b[Kwaiting for traces: 1 of 2 whole\\x1b[31m" in shown
    assert shown.endswith("\r\x1b[K")
    capsys.readouterr()
    with Talk(sys.stderr, quiet=False) as talk:
        talk.tick("waiting")
    assert capsys.readouterr().err == ""


def test_a_long_wait_without_a_terminal_says_so_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from specscope import capture_command

    clock = iter([0.0, 10.0, 31.0, 31.0, 40.0, 62.0, 62.0])
    monkeypatch.setattr(capture_command.time, "monotonic", lambda: next(clock))
    with Talk(sys.stderr, quiet=False) as talk:
        for number in range(4):
            talk.tick(f"at {number}")
    assert capsys.readouterr().err == "specscope: at 1\nspecscope: at 3\n"


def test_help_has_every_option_and_examples(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    assert "specscope capture --url http://localhost:30000" in done.out


def test_importing_the_commands_loads_no_http(tmp_path: Path) -> None:
    code = "import sys, specscope.cli; print('http.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_group_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.call(_group, ["--help"]) == 0
    assert "capture" in capsys.readouterr().out
