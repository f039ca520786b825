"""The commands `live` and `dashboard`: what they print, and how they end."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from specscope.profiler.cycle_log_writer import Identity, Pieces
from tests.analyzers.test_live_view import START, cycle_rows, log_of
from tests.shared import needed
from tests.waiting import PATIENCE, signals_heard, until

ROOT = Path(__file__).resolve().parents[1]


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specscope", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT
    )


@contextmanager
def running(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The command while the body runs, and the file that holds all it says."""
    said = tmp_path / "said.txt"
    with signals_heard(), said.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "specscope", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )
        try:
            yield process, said
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)


def test_once_prints_what_there_is(tmp_path: Path) -> None:
    log_of(tmp_path / "log", ranks=2, cycles=60, gpu=True)
    done = ran("live", "--log", str(tmp_path / "log"), "--once", "--minutes", "60")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Verify+accept takes" in done.stdout
    assert "by CUDA events; median of 12 cycles on 2 ranks" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^1 +12 +20\.00 ms", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments", [("live", "--log", "."), ("dashboard", ".")], ids=lambda a: a[0]
)
def test_without_dash_it_is_one_line_with_what_to_install(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys; sys.modules['dash'] = None; from specscope.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'specscope[dashboard]'" in done.stderr


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = ran("live", "--log", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "specscope run --log DIR" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT])
def test_in_a_pipe_a_line_comes_for_what_is_new_and_a_signal_ends_it(
    tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    pieces = Pieces(
        folder, Identity(0, 1, START, START, pid=1), piece_bytes=1 << 20, total_bytes=1 << 30
    )
    rng = random.Random(1)
    with running(tmp_path, "live", "--log", str(folder), "--tui") as (process, said):
        until(lambda: "waiting for one" in said.read_text(), "waits for a log")
        pieces.write([row for number in range(20) for row in cycle_rows(number, rng, gpu=False)])
        until(lambda: "verify+accept" in said.read_text(), "a line for what came")
        process.send_signal(how)
        assert process.wait(PATIENCE) == 0
    assert "Traceback" not in said.read_text()
    assert "\x1b" not in said.read_text()


@pytest.mark.parametrize(
    ("command", "how"), [("live", signal.SIGTERM), ("dashboard", signal.SIGINT)]
)
def test_the_page_is_where_the_url_says_and_a_signal_ends_it(
    tmp_path: Path, command: str, how: signal.Signals
) -> None:
    needed("dash")
    log_of(tmp_path / "log", ranks=1, cycles=20)
    given = ["live", "--log", str(tmp_path / "log")]
    if command == "dashboard":
        given = ["dashboard", str(tmp_path / "log"), "--no-cache"]
    with running(tmp_path, *given) as (process, said):
        until(lambda: "Ctrl-C ends it" in said.read_text(), "the page is up")
        url = re.search(r"http://127\.0\.0\.1:\d+/\S+", said.read_text())
        assert url is not None
        assert f"ssh -N -L {urlsplit(url[0]).port}:127.0.0.1:" in said.read_text()
        assert status(url[0]) == 303
        assert status(url[0].partition("?")[0]) == 403
        process.send_signal(how)
        assert process.wait(PATIENCE) == 0
    assert "Traceback" not in said.read_text()


def status(url: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("command", ["live", "dashboard"])
def test_help_imports_nothing_heavy(command: str) -> None:
    ask = """
import json, sys
from specscope import cli
sys.argv = ["specscope", *sys.argv[1:]]
cli.main()
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", ask, command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    heavy = {"numpy", "pyarrow", "plotly", "dash", "flask", "rich", "duckdb"}
    assert not heavy & set(json.loads(done.stderr.splitlines()[-1]))
    assert "Examples:" in done.stdout


def test_folders_are_runs_and_files_are_ranks_of_one(tmp_path: Path) -> None:
    from specscope.dashboard_command import runs_of
    from specscope.dashboards.app_runs import names_of

    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    for folder in (first, second):
        Path(folder).mkdir()
    files = [str(tmp_path / name) for name in ("r0.json", "r1.json")]
    assert runs_of((first, second)) == [(first,), (second,)]
    assert runs_of(tuple(files)) == [tuple(files)]
    assert runs_of((first, *files, second)) == [(first,), tuple(files), (second,)]
    assert names_of(["/x/before/log", "/x/after/log"]) == ["before/log", "after/log"]
    assert names_of(["/x/a", "/x/b"]) == ["a", "b"]
    assert names_of(["a", "a"]) == ["0: a", "1: a"]
