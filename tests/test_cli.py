"""`analyze` from the outside: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specscope import analyze_command, exits
from specscope.cli import analyze_command as command
from tests.analyzers.case import CASES
from tests.build import Timeline
from tests.dashboards import reports
from tests.shared import shared_path

PROGRAM = [sys.executable, "-m", "specscope", "analyze"]
BUNDLED = str(reports.ROOT / reports.BUNDLED)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr."""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err[:-1]


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `analyze` in this process."""

    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(command, [str(arg) for arg in args])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def trace(folder: Path, name: str) -> Path:
    """A drawn case as a file."""
    return reports.write(folder, CASES[name]().trace)[0]


# Reading.


def test_a_folder_gives_the_verdict_on_stdout_and_nothing_else(run: Run) -> None:
    done = run(BUNDLED)
    assert done.code == 0
    assert done.out.startswith("Verify (accept included) takes ")
    assert done.err == ""


def test_one_rank_can_be_read_alone(run: Run) -> None:
    done = run(BUNDLED, "--rank", "1")
    assert "Ranks side by side" not in done.out
    assert "One rank of 2" in done.out


def test_standard_input_is_read(tmp_path: Path) -> None:
    path = trace(tmp_path, "own_ranges_with_every_field")
    for raw in (path.read_bytes(), gzip.compress(path.read_bytes())):
        done = subprocess.run(
            [*PROGRAM, "-", "--json"], input=raw, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["sources"][0]["path"] == "-"


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda folder: folder / "no-such-file", 2, "does not exist"),
        (lambda folder: folder, 2, "holds no trace"),
        (lambda folder: written(folder / "a.json", b""), 3, "empty"),
        (lambda folder: written(folder / "a.json", b"SQLite format 3\0"), 3, "SQLite"),
        (lambda folder: written(folder / "a.json", b"\x80\x04pickle"), 3, "never opened"),
        (lambda folder: written(folder / "a.json", b'{"a": 1}'), 3, "traceEvents"),
    ],
)
def test_what_is_no_trace_is_one_line_that_says_what_it_is(
    make: Callable[[Path], Path], code: int, says: str, run: Run, tmp_path: Path
) -> None:
    done = run(make(tmp_path))
    assert done.code == code or (says == "holds no trace" and done.code in (2, 3))
    assert done.line.startswith("specscope: ")
    assert says in done.line
    assert done.out == ""


def written(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def test_no_path_is_asked_for(run: Run) -> None:
    done = run()
    assert done.code == 2
    assert "no trace given" in done.line


def test_an_unknown_option_is_one_line_that_names_the_help(run: Run) -> None:
    done = run("--no-such-option")
    assert done.code == 2
    assert "--help" in done.line


# Checks.


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("verify_share_of_95_8_percent", 0, "passed, it is 95.8 %"),
        ("verify_share_of_94_9_percent", 1, "FAILED, it is 94.9 %"),
        ("unlinked_work_of_15_percent_withholds_the_verdict", 4, "does not support it"),
    ],
)
def test_a_check_decides_the_exit_code_and_says_the_figure(
    name: str, code: int, says: str, run: Run, tmp_path: Path
) -> None:
    done = run(trace(tmp_path, name), "--check", "verify.share>=0.95")
    assert done.code == code
    assert says in done.out.splitlines()[-1]


def test_a_failed_check_counts_more_than_one_that_cannot_be_decided(
    run: Run, tmp_path: Path
) -> None:
    path = trace(tmp_path, "two_cycles_give_figures_and_no_verdict")
    checks = ("--check", "linked.share<0.5", "--check", "verify.share>=0.95")
    assert run(path, *checks).code == 1


def test_a_check_says_which_rank_disagrees(run: Run, tmp_path: Path) -> None:
    ranks = [
        CASES[name]().trace
        for name in ("verify_share_of_95_8_percent", "verify_share_of_94_9_percent")
    ]
    paths = reports.write(tmp_path, *(numbered(t, n, 2) for n, t in enumerate(ranks)))
    done = run(*paths, "--check", "verify.share>=0.95")
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith("; rank 1 disagrees")


def numbered(timeline: Timeline, rank: int, world_size: int) -> Timeline:
    from dataclasses import replace

    return replace(timeline, rank=rank, world_size=world_size)


def test_a_wrong_check_is_refused_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path / "none", "--check", "verify>>1")
    assert done.code == 2
    assert "NAME OP NUMBER" in done.line


def test_a_check_beside_json_on_stdout_speaks_on_stderr(run: Run, tmp_path: Path) -> None:
    path = trace(tmp_path, "verify_share_of_94_9_percent")
    done = run(path, "--json", "--check", "verify.share>=0.95")
    assert done.code == 1
    assert json.loads(done.out)["checks"][0]["passed"] is False
    assert "FAILED, it is 94.9 %" in done.line


# The cycle without the profiler.


def test_the_cycle_without_the_profiler_is_shown_with_its_source(run: Run) -> None:
    done = run(BUNDLED, "--cycle-ms", "36.9")
    assert "Without the profiler a cycle takes 36.90 ms (--cycle-ms)" in done.out


def test_a_rate_gives_the_cycle(run: Run, tmp_path: Path) -> None:
    path = trace(tmp_path, "own_ranges_with_every_field")
    done = run(path, "--tokens-per-second", "20000", "--accept-length", "2", "--batch", "1")
    assert "takes 100 us (--tokens-per-second)" in done.out


def test_what_a_rate_needs_is_asked_for(run: Run, tmp_path: Path) -> None:
    done = run(trace(tmp_path, "own_ranges_with_every_field"), "--tokens-per-second", "71")
    assert done.code == 2
    assert "needs --accept-length" in done.line


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "x"])
def test_a_length_has_to_be_a_number_above_0(value: str, run: Run) -> None:
    done = run(BUNDLED, f"--cycle-ms={value}")
    assert done.code == 2
    assert "above 0" in done.line


# What is written.


def test_files_are_written_and_named_on_stderr(run: Run, tmp_path: Path) -> None:
    names = {"--json": "r.json", "--markdown": "r.md", "--html": "r.html", "--parquet": "tables"}
    options = [part for option, name in names.items() for part in (option, tmp_path / name)]
    done = run(BUNDLED, *options)
    assert done.code == 0
    assert done.out.startswith("Verify")
    for name in names.values():
        assert (tmp_path / name).exists()
        assert name in done.err
    assert json.loads((tmp_path / "r.json").read_text())["verdict"]["stage"] == "verify"


def test_json_without_a_file_goes_to_stdout_alone(run: Run) -> None:
    done = run(BUNDLED, "--json")
    assert json.loads(done.out)["schema_version"] == 1
    assert done.err == ""


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_trace_behind_an_optional_file_is_read_and_never_overwritten(
    option: str, run: Run, tmp_path: Path
) -> None:
    path = trace(tmp_path, "own_ranges_with_every_field")
    before = path.read_bytes()
    assert run(option, path).code == 0
    assert run(option, tmp_path).code == 0
    done = run(option, path, path)
    assert done.code == 2
    assert "not overwritten" in done.line
    assert path.read_bytes() == before


def test_a_report_may_be_written_again(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    for _ in range(2):
        assert run(BUNDLED, "--json", target).code == 0


def test_a_page_is_not_written_over_the_trace_it_shows(run: Run, tmp_path: Path) -> None:
    path = trace(tmp_path, "own_ranges_with_every_field")
    before = path.read_bytes()
    done = run(path, "--html", path)
    assert done.code == 2
    assert path.read_bytes() == before


def test_two_documents_cannot_share_stdout(run: Run) -> None:
    done = run(BUNDLED, "--json", "--markdown")
    assert done.code == 2
    assert "both go to stdout" in done.line


def test_tables_are_written_also_when_the_verdict_is_withheld(run: Run, tmp_path: Path) -> None:
    path = trace(tmp_path, "two_cycles_give_figures_and_no_verdict")
    done = run(path, "--parquet", tmp_path / "tables", "--check", "verify.share>0")
    assert done.code == 4
    assert (tmp_path / "tables" / "parts.parquet").is_file()


def test_a_place_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    done = run(BUNDLED, "--html", tmp_path / "none" / "page.html")
    assert done.code == 2
    assert "cannot write" in done.line


@pytest.mark.parametrize(
    ("option", "name"),
    [("--html", "none/p.html"), ("--json", "none/r.json"), ("--markdown", "none/r.md"),
     ("--parquet", "file/tables")],
)  # fmt: skip
def test_what_cannot_be_written_is_said_before_anything_is_read(
    run: Run, tmp_path: Path, option: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*args: Any, **more: Any) -> Any:
        raise AssertionError("read first")

    monkeypatch.setattr(analyze_command, "load", read)
    (tmp_path / "file").write_text("")
    done = run(BUNDLED, option, tmp_path / name)
    assert done.code == 2
    assert "cannot write" in done.line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--html", "notes.html", "is no page of specscope"),
        ("--json", "notes.json", "is no report"),
        ("--markdown", "notes.md", "is no report"),
        ("--parquet", "ops.parquet", "is no table of specscope"),
    ],
)
def test_a_file_of_somebody_else_is_not_overwritten(
    run: Run, tmp_path: Path, option: str, name: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text("years of work")
    done = run(BUNDLED, option, tmp_path if option == "--parquet" else path)
    assert done.code == 2
    assert words in done.line
    assert path.read_text() == "years of work"


def test_what_specscope_wrote_is_written_anew(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        done = run(BUNDLED, "--html", tmp_path / "p.html", "--json", tmp_path / "r.json",
                   "--markdown", tmp_path / "r.md", "--parquet", tmp_path / "t")  # fmt: skip
        assert done.code == 0


def test_json_is_the_same_from_run_to_run_and_with_and_without_the_cache(
    run: Run, tmp_path: Path
) -> None:
    texts = {run(BUNDLED, "--json", *more).out for more in ((), (), ("--no-cache",))}
    assert len(texts) == 1


def test_one_cycle_is_shown_in_place_of_the_report(run: Run) -> None:
    done = run(BUNDLED, "--cycle", "4", "--rank", "1")
    assert done.out.startswith("Cycle 4 of rank 1: speculation, batch 8, ")


def test_quiet_says_the_verdict_only(run: Run, tmp_path: Path) -> None:
    done = run(BUNDLED, "--quiet", "--json", tmp_path / "r.json")
    assert done.out.startswith("Verify (accept included) takes ")
    assert done.out.count("\n") == 1
    assert done.err == ""


def test_debug_names_the_reader_and_the_times(run: Run) -> None:
    done = run(BUNDLED, "--debug")
    assert "reader native" in done.err or "reader pure" in done.err
    assert "read in " in done.err
    assert "analysed in " in done.err


def test_the_pure_reader_can_be_forced() -> None:
    done = subprocess.run(
        [*PROGRAM, BUNDLED, "--no-cache", "--debug", "--quiet"],
        env={**os.environ, "SPECSCOPE_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "reader pure" in done.stderr


def test_rules_of_the_user_are_used(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "mine"\nactivity = "moe"\npattern = "nvjet"\n')
    done = run(BUNDLED, "--activity-rules", rules)
    assert "moe 4" in done.out
    assert run(BUNDLED, "--activity-rules", tmp_path / "none").code == 2


# Faults.


def raising(error: BaseException) -> Callable[..., Any]:
    def raise_it(*_: object, **__: object) -> Any:
        raise error

    return raise_it


def test_a_fault_of_our_own_is_one_line_and_debug_shows_where(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze_command, "analyze", raising(KeyError("\x1b[31mstage")))
    done = run(BUNDLED)
    assert done.code == 70
    assert "internal error (KeyError" in done.line
    assert "--debug" in done.line
    assert "\x1b" not in done.err
    shown = run(BUNDLED, "--debug").err
    assert "Traceback" in shown
    assert "\x1b" not in shown


def test_too_little_memory_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze_command, "analyze", raising(MemoryError()))
    done = run(BUNDLED)
    assert done.code == 3
    assert "more memory" in done.line


def test_an_interrupt_ends_cleanly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze_command, "load", raising(KeyboardInterrupt()))
    done = run(BUNDLED)
    assert done.code == 130
    assert done.line == "specscope: interrupted"


def test_a_reader_that_goes_away_is_no_fault() -> None:
    done = subprocess.run(
        f"{' '.join(PROGRAM)} {BUNDLED} --cycle 2 | head -n 1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 141
    assert done.stdout.startswith("Cycle 2 of rank 0")
    assert done.stderr == ""


def test_a_terminal_of_another_encoding_gets_escapes_and_no_fault(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, str(trace(tmp_path, "own_ranges_with_every_field"))],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# The terminal.


def on_a_terminal(*args: str, **environment: str) -> str:
    """What the program writes to a terminal of 100 columns."""
    own = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *args],
        stdout=follower,
        stderr=follower,
        env={**own, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(follower)
    out = io.BytesIO()
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        out.write(piece)
    process.wait()
    os.close(leader)
    return out.getvalue().decode()


def test_a_terminal_gets_colours_and_a_bar() -> None:
    text = on_a_terminal(BUNDLED)
    assert "\x1b[" in text
    assert "█" in text


def test_no_color_is_respected() -> None:
    text = on_a_terminal(BUNDLED, NO_COLOR="1")
    assert "38;" not in text
    assert "█" not in text


# Hostile input.


@pytest.mark.parametrize("more", [(), ("--cycle", "0"), ("--json",), ("--markdown",)])
def test_hostile_names_never_control_the_terminal(more: tuple[str, ...], run: Run) -> None:
    done = run(shared_path("cases", "x01_hostile_names.json"), *more)
    assert done.code == 0
    for text in (done.out, done.err):
        assert not any(ord(c) < 32 and c != "\n" for c in text)
        assert not set(text) & set("\x7f\x9b\u2028\u2029\u202e\u2066")


def test_hostile_names_are_inert_on_the_page(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(shared_path("cases", "x01_hostile_names.json"), "--html", page).code == 0
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text


def test_a_bomb_stops_at_the_limit_with_a_line_that_says_how_to_raise_it(run: Run) -> None:
    bomb = shared_path("cases", "x02_bomb.json.gz")
    done = run(bomb, "--max-text", "8M")
    assert done.code == 3
    assert "--max-text" in done.line
    assert run(bomb, "--max-text", "64M").code == 0


def test_deep_nesting_is_one_line(run: Run) -> None:
    done = run(shared_path("cases", "x03_deep_nesting.json"))
    assert done.code == 3
    assert "Recursion" not in done.line


@pytest.mark.parametrize("value", ["", "x", "-1", "8Q", "0", "1e99T"])
def test_a_size_that_is_none_is_refused(value: str, run: Run) -> None:
    assert run(BUNDLED, f"--max-text={value}").code == 2


def test_a_path_with_control_letters_is_shown_without_them(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path / "\x1b[31mnone\u202e.json")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\u202e" not in done.err


def test_a_name_of_a_megabyte_is_shown_short(run: Run, tmp_path: Path) -> None:
    t = Timeline()
    for c in t.cycles(6, every=100):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
        c.launch(2, 4, "x" * 1_000_000, 6, 30)
        c.mark(f"specscope:verify|c={c.i}|b=1", 11, 90)
        c.launch(20, 22, "y" * 1_000_000, 32, 80)
    (path,) = reports.write(tmp_path, t)
    for more in ((), ("--cycle", "1"), ("--json",), ("--markdown",)):
        done = run(path, *more)
        assert done.code == 0
        assert len(done.out) < 20_000
