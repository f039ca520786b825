"""`specscope sweep` from the outside: what goes where, exit codes, interrupts."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import _group
from specscope.sweep_command import shares
from tests import waiting
from tests.dashboards import reports
from tests.profiler.fake_servers import SECRET
from tests.test_cli import Done

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = shlex.join([sys.executable, str(ROOT / "tests" / "profiler" / "fake_program.py")])
COMMAND = f"{PROGRAM} --port {{port}} --steps {{steps}}"
PLAIN = f"{PROGRAM} --port {{port}}"
SMALL = ("--prompt-tokens", "8", "--tokens", "96", "--timeout", "120", "--ready-timeout", "600")

Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["sweep", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_the_table_has_every_row_and_stands_on_sweep_json(run: Run, tmp_path: Path) -> None:
    """The servers hand out a recording of batch 8: its shares stand in every row."""
    recording = reports.ROOT / reports.BUNDLED
    out = tmp_path / "out"
    done = run(
        "--command", f"{COMMAND} --traces {recording}", "--steps", "0,1..2", "--batch", "8",
        "--repetitions", "4", "--cycles", "3", "--out", out, *SMALL,
    )  # fmt: skip
    assert done.code == 0
    lines = done.out.splitlines()
    head = "steps tokens/s range cycle accept verify draft extend speed even pays"
    assert lines[0] == "Batch 8  cycle in ms"
    assert lines[1].split() == head.split()
    assert [line.split()[0].rstrip("*") for line in lines[2:5]] == ["none", "1", "2"]
    assert "90.2" in lines[3].split()
    assert f"wrote {out}/sweep.json" in done.err
    assert all(line.startswith("specscope: ") for line in done.err.splitlines())
    again = run("--command", f"{COMMAND} --traces {recording}", "--steps", "0,1..2", "--batch",
                "8", "--repetitions", "4", "--out", out, "--json", *SMALL)  # fmt: skip
    assert json.loads(again.out)["rows"] == json.loads((out / "sweep.json").read_text())["rows"]
    assert again.err.count("is there already") == 3


def test_shares_are_those_of_the_report() -> None:
    report = reports.bundled()
    found = shares(reports.ROOT / reports.BUNDLED)
    assert found is not None
    for stage, share in found.items():
        assert share == round(report.share(stage).cycle_share.value, 6)
    assert set(found) == {"draft", "verify", "draft_extend", "schedule"}


def test_a_folder_that_supports_no_shares_gives_none(tmp_path: Path) -> None:
    assert shares(tmp_path) is None


def test_when_nothing_could_be_measured_the_code_says_so(run: Run, tmp_path: Path) -> None:
    done = run("--command", f"{COMMAND} --fault dies", "--steps", "1,2", "--out", tmp_path / "out",
               *SMALL)  # fmt: skip
    assert done.code == exits.UNSUPPORTED
    assert "none of 2 settings could be measured" in done.err.splitlines()[-1]
    assert "ValueError: speculative_num_steps is too large for this draft" in " ".join(
        done.out.split()
    )


def test_a_dry_run_prints_the_commands_and_starts_nothing(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("--command", f"{COMMAND} --api-key {SECRET}", "--baseline-command", PLAIN, "--steps",
               "1..3", "--batch", "1,8", "--port", "39999", "--out", out, "--dry-run")  # fmt: skip
    assert done.code == 0
    assert len(done.out.splitlines()) == 4
    assert done.out.splitlines()[3] == f"{PROGRAM} --port 39999 --steps 3 --api-key '***'"
    assert "4 starts at most, 8 rows measured and recorded" in done.err
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--command", COMMAND),
        ("--command", COMMAND, "--steps", "x"),
        ("--command", COMMAND, "--steps", "1", "--batch", "0"),
        ("--command", PLAIN, "--steps", "1"),
        ("--command", COMMAND, "--steps", "1", "--url", "ftp://x"),
        ("--command", COMMAND, "--steps", "1", "--baseline", "/nowhere"),
    ],
)
def test_wrong_options_are_one_line(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == exits.WRONG_USAGE
    assert done.line


@pytest.mark.parametrize(
    ("name", "words"),
    [("none/r.json", "cannot write"), ("", "is a folder"), ("notes", "is no sweep, so it is not")],
)
def test_a_json_file_that_cannot_be_written_is_said_before_anything_starts(
    run: Run, tmp_path: Path, name: str, words: str
) -> None:
    notes = tmp_path / "notes"
    notes.write_text('{"schema_version": 1}')
    done = run("--command", COMMAND, "--steps", "1", "--json", tmp_path / name, "--out",
               tmp_path / "out", *SMALL)  # fmt: skip
    assert done.code == exits.WRONG_USAGE
    assert words in done.line
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    assert notes.read_text() == '{"schema_version": 1}'


def test_a_json_file_of_an_earlier_sweep_is_written_anew(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    for _ in range(2):
        run("--command", "no-such {port} {steps}", "--steps", "1", "--json", file, "--out",
            tmp_path / "out", *SMALL)  # fmt: skip
        assert json.loads(file.read_text())["rows"][0]["steps"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_takes_its_servers_with_it(number: signal.Signals, tmp_path: Path) -> None:
    pids, out = tmp_path / "pids", tmp_path / "out"
    program = [
        sys.executable, "-m", "specscope", "sweep", "--steps", "1,2", "--no-profile",
        "--command", f"{COMMAND} --fault hangs --when-steps 2 --workers plain --pids {pids}",
        "--out", str(out), "--repetitions", "1", *SMALL,
    ]  # fmt: skip
    with waiting.signals_heard():
        process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    waiting.until(
        lambda: pids.exists() and len(pids.read_text().split()) == 6, "the second server runs"
    )
    process.send_signal(number)
    _, err = process.communicate(timeout=waiting.PATIENCE)
    assert process.returncode == exits.INTERRUPTED
    assert err.splitlines()[-1] == "specscope: interrupted"
    assert f"what was measured is in {out}" in err
    assert not any(map(_runs, pids.read_text().split()))
    (row,) = json.loads((out / "sweep.json").read_text())["rows"]
    assert row["steps"] == 1


def test_killed_it_takes_the_server_that_it_started_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = [
        sys.executable, "-m", "specscope", "sweep", "--steps", "1", "--quiet",
        "--command", f"{COMMAND} --fault hangs --pids {pids}", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(program, cwd=ROOT)
    waiting.until(lambda: pids.exists() and pids.read_text(), "the server runs")
    process.kill()
    process.wait()
    (pid,) = pids.read_text().split()
    waiting.until(lambda: not _runs(pid), "it is gone")


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_no_secret_is_left_anywhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECSCOPE_API_KEY", SECRET)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    done = run("--command", f"{COMMAND} --api-key {SECRET}", "--steps", "1", "--cycles", "3",
               "--repetitions", "1", "--out", tmp_path / "out", *SMALL)  # fmt: skip
    assert done.code == 0
    written = "".join(
        path.read_bytes().decode("latin-1")
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    )
    assert "HF_TOKEN=***" in written
    assert SECRET not in done.out + done.err + written


def test_importing_the_commands_loads_no_http() -> None:
    code = "import sys, specscope.cli; print('http.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_group_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.call(_group, ["--help"]) == 0
    assert "sweep" in capsys.readouterr().out
