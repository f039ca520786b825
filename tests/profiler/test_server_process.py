"""A server that is started here, with all its processes, and its log."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from specscope.profiler import local_server, server_log, server_process, server_ready
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError
from specscope.profiler.server_process import ServerProcess
from specscope.profiler.sweep_plan import Start
from tests import waiting
from tests.profiler.sweeps import PLAIN, noted, runs


def test_a_second_interrupt_kills_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 3600)
    pids = tmp_path / "pids"
    pids.touch()
    command = f"{PLAIN.format(port=1)} --workers stubborn --fault hangs --pids {pids}"
    server = ServerProcess(Start(tuple(shlex.split(command))), tmp_path / "log")
    waiting.until(lambda: len(noted(pids)) == 3, "the server and its workers run")
    # That it ended says that SIGTERM was sent; its workers ignore it for an hour.
    with waiting.interrupted_when(lambda: not runs(server.pid), "SIGTERM was sent"):
        server.stop()
    assert not any(map(runs, noted(pids)))


EXIT_THREAD = {"x86_64": 60, "aarch64": 93}.get(platform.machine())


@pytest.mark.skipif(EXIT_THREAD is None, reason="the number of exit(2) is not known here")
def test_a_server_whose_first_thread_is_gone_is_ended_too(tmp_path: Path) -> None:
    """As SGLang ends: its first thread is a zombie while others still run."""
    code = (
        "import ctypes, signal, threading, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        f"ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)\n"
    )
    server = ServerProcess(Start((sys.executable, "-c", code)), tmp_path / "log")
    stat = Path(f"/proc/{server.pid}/stat")
    waiting.until(
        lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "its first thread is gone"
    )
    assert server.members() == [server.pid]
    server.stop(0.2)
    assert not stat.exists()


def test_what_was_started_ends_also_where_it_ignores_sigterm(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); " \
           "time.sleep(600)"  # fmt: skip
    log = tmp_path / "log"
    with ServerProcess(Start((sys.executable, "-c", code)), log) as server:
        waiting.until(lambda: log.exists() and "up" in log.read_text(), "it ignores SIGTERM")
        server.stop(0.3)
        assert server.ended
    assert "SIGKILL" in server.last_words()


def test_a_process_that_cannot_be_ended_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerProcess(Start((sys.executable, "-c", "import time; time.sleep(600)")),
                           tmp_path / "log")  # fmt: skip
    monkeypatch.setattr("specscope.profiler.server_process._KILL_SECONDS", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", lambda pid, number: None)
        with pytest.raises(ServerError, match=f"process {server.pid} of the server does not end"):
            server.stop(0.1)
    server.stop(0.1)


def test_a_long_log_is_bounded_and_its_end_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_log, "MOST_BYTES", 10_000)
    code = "for i in range(5000): print('lïne €', i)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    log = server_log.ServerLog(tmp_path / "log", process.stdout, ())
    log.finish(waiting.PATIENCE)
    process.wait(waiting.PATIENCE)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log", "log.1"]
    assert all((tmp_path / name).stat().st_size <= 10_000 for name in files)
    assert (tmp_path / "log").read_text("utf-8").endswith("lïne € 4999\n")


def test_a_second_start_writes_behind_the_log_of_the_first(tmp_path: Path) -> None:
    for word in ("first", "second"):
        code = f"print('{word}')"
        with ServerProcess(Start((sys.executable, "-c", code)), tmp_path / "log") as server:
            server.log.finish(waiting.PATIENCE)
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_a_server_that_somebody_else_started_on_the_port_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between the look at the port and the start of the own server's listening."""
    stranger = local_server.LocalServer(pid=1, command=("other", "--port", "1"))
    monkeypatch.setattr(local_server, "find", lambda port: stranger)
    code = "import time; time.sleep(600)"
    with ServerProcess(Start((sys.executable, "-c", code)), tmp_path / "log") as server:
        line = server_ready._stranger(Api("http://127.0.0.1:1", None), server)
        assert "port 1 is answered by process 1 (other --port 1), which the command" in line
        own = local_server.LocalServer(pid=server.pid, command=("own",))
        monkeypatch.setattr(local_server, "find", lambda port: own)
        assert server_ready._stranger(Api("http://127.0.0.1:1", None), server) == ""


def test_a_secret_of_the_environment_is_not_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "plain-looking-word")
    code = "print('I was given plain-looking-word, and', 'a b')"
    with ServerProcess(Start((sys.executable, "-c", code)), tmp_path / "log") as server:
        server.log.finish(waiting.PATIENCE)
    assert (tmp_path / "log").read_text() == "I was given ***, and a b\n"


def test_a_process_that_keeps_the_pipe_does_not_keep_the_log(tmp_path: Path) -> None:
    """A daemon of somebody else, started by the server, that is no process of the server."""
    ours, theirs = os.pipe()
    log = server_log.ServerLog(tmp_path / "log", os.fdopen(ours, "rb"), ())
    os.write(theirs, b"first\nhalf a line")
    log.close(0.1)
    assert (tmp_path / "log").read_text() == "first\nhalf a line\n"
    assert not log._thread.is_alive()
    with pytest.raises(BrokenPipeError):
        os.write(theirs, b"more")
    os.close(theirs)


def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    log = server_log.ServerLog(tmp_path / "log", os.fdopen(ours, "rb"), ())
    with os.fdopen(theirs, "wb") as file:
        file.write(b"x" * 200_000 + b"\n\nend\n")
    log.finish(waiting.PATIENCE)
    lines = (tmp_path / "log").read_text().splitlines()
    assert "".join(lines[:-1]) == "x" * 200_000
    assert lines[-2:] == ["", "end"]


def test_processes_older_than_the_server_are_not_looked_into(tmp_path: Path) -> None:
    """The kernel may not answer for one that is stuck."""
    entry = tmp_path / "7"
    entry.mkdir()
    fields = ["S", "1", "5", "5", *["0"] * 15, "100", "0"]
    (entry / "stat").write_text(f"7 (a) b) {' '.join(fields)}")
    assert server_process.members(5, "mark", tmp_path, since=100) == [7]
    assert server_process.members(5, "mark", tmp_path, since=101) == []
