"""A sweep over servers that are started, measured, recorded and ended: fakes, as programs."""

from __future__ import annotations

import json
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specscope.profiler import local_server, server_log, server_ready, sweep_file
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.server_process import ServerProcess
from specscope.profiler.sweep import sweep
from specscope.profiler.sweep_options import Options
from specscope.profiler.sweep_plan import Start
from tests.profiler.fake_servers import SECRET, FakeSglang

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "profiler" / "fake_program.py"
PROGRAM = shlex.join([sys.executable, str(SCRIPT)])
COMMAND = f"{PROGRAM} --port {{port}} --steps {{steps}}"
PLAIN = f"{PROGRAM} --port {{port}}"
SCHEMA = json.loads((ROOT / "traces" / "sweep.schema.json").read_text("utf-8"))
LOAD: dict[str, Any] = {
    "prompt_tokens": 8, "tokens": 96, "repetitions": 1, "vocabulary": None, "cycles": 3,
    "timeout": 30.0, "api_key": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of the fakes ignore SIGTERM, all of them."""
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 0.5)


def options(tmp_path: Path, command: str = COMMAND, **more: Any) -> Options:
    said: list[str] = []
    given = Options(
        command, more.pop("steps", (1, 2)), tmp_path / "out", ready_timeout=30.0, load=LOAD,
        say=said.append,
    )  # fmt: skip
    return replace(given, **more)


def by_setting(document: dict[str, Any]) -> dict[tuple[int, int], dict[str, Any]]:
    jsonschema.validate(document, SCHEMA)
    return {(row["steps"], row["batch"]): row for row in document["rows"]}


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def noted(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split()]


def test_every_setting_is_measured_recorded_and_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    done = sweep(
        options(
            tmp_path,
            f"{COMMAND} --workers stubborn --pids {pids}",
            baseline_command=PLAIN,
            batches=(1, 2),
            shares=lambda folder: {"verify": 0.9} if (folder / "run.json").exists() else None,
        )
    )
    rows = by_setting(done)
    assert list(rows) == [(s, b) for b in (1, 2) for s in (0, 1, 2)]
    for (steps, batch), row in rows.items():
        assert row["reason"] is None
        assert row["recorded"]
        assert row["shares"] == {"verify": 0.9}
        run = json.loads((tmp_path / "out" / row["folder"] / "run.json").read_text("utf-8"))
        assert run["batch"] == batch
        assert run["tokens_per_second"] == row["tokens_per_second"]["value"]
        assert run["k"] == (steps or None)
        assert len(run["profile"]["files"]) == 2
        assert (row["speedup"] is None) == (steps == 0)
    assert json.loads((tmp_path / "out" / "sweep.json").read_text("utf-8")) == done
    assert len(noted(pids)) == 6
    assert not any(map(runs, noted(pids)))


def test_a_server_that_dies_at_its_start_says_why_and_the_sweep_goes_on(tmp_path: Path) -> None:
    command = f"{COMMAND} --fault dies --when-steps 1"
    rows = by_setting(sweep(options(tmp_path, command, profile=False)))
    assert rows[1, 1]["reason"] == (
        "the server did not start: it ended with exit code 3; its log: "
        "ValueError: speculative_num_steps is too large for this draft"
    )
    assert rows[2, 1]["tokens_per_second"] is not None
    log = (tmp_path / "out" / rows[1, 1]["log"]).read_text("utf-8")
    assert "Scheduler hit an exception" in log
    assert SECRET not in log


def test_a_server_that_hangs_at_its_start_is_ended_in_time(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"{COMMAND} --fault hangs --pids {pids}"
    (row,) = sweep(options(tmp_path, command, steps=(1,), ready_timeout=1.5))["rows"]
    assert "not ready after 2 s" in row["reason"]
    assert row["reason"].endswith("loading shards: 0 of 64")
    assert not any(map(runs, noted(pids)))


def test_a_command_that_is_not_there_is_a_row_that_says_so(tmp_path: Path) -> None:
    (row,) = sweep(options(tmp_path, "no-such-server {port} {steps}", steps=(1,)))["rows"]
    assert row["reason"] == "no-such-server cannot be started: No such file or directory"


def test_a_vllm_server_without_a_profiler_is_measured_and_told_what_it_needs(
    tmp_path: Path,
) -> None:
    command = f"{COMMAND} --engine vllm --fault no_profiler"
    (row,) = sweep(options(tmp_path, command, steps=(3,)))["rows"]
    assert row["tokens_per_second"]["value"] > 0
    assert not row["recorded"]
    assert "--profiler-config" in row["not_recorded"]


def test_a_server_that_dies_while_it_is_recorded_keeps_its_figures(tmp_path: Path) -> None:
    command = f"{COMMAND} --fault dies_recording"
    rows = by_setting(sweep(options(tmp_path, command, steps=(1,), batches=(1, 2))))
    for row in rows.values():  # the second batch had a server of its own
        assert row["tokens_per_second"]["value"] > 0
        assert not row["recorded"]
        assert "does not answer POST" in row["not_recorded"]
        assert "RuntimeError: the profiler took the server with it" in row["not_recorded"]


def test_a_batch_that_does_not_fit_leaves_the_others(tmp_path: Path) -> None:
    given = options(tmp_path, steps=(1,), batches=(1, 9), profile=False)
    rows = by_setting(sweep(given))
    assert rows[1, 1]["tokens_per_second"] is not None
    assert "at most 8 sequences" in rows[1, 9]["reason"]


def test_a_baseline_that_speculates_is_named(tmp_path: Path) -> None:
    given = options(tmp_path, steps=(1,), baseline_command=f"{PLAIN} --steps 2", profile=False)
    rows = by_setting(sweep(given))
    assert "speculates (EAGLE3) where it should not" in rows[0, 1]["reason"]
    assert rows[1, 1]["speedup"] is None


def test_a_port_of_somebody_else_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UnsuitableError) as error:
            sweep(options(tmp_path, port=port))
    assert str(error.value).startswith(f"port {port} is in use by process {os.getpid()} (")
    assert not (tmp_path / "out").exists()


def test_a_baseline_that_runs_already_is_measured_where_it_is(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as fake:
        rows = by_setting(
            sweep(options(tmp_path, steps=(1,), baseline_url=fake.url, profile=False))
        )
    assert rows[0, 1]["source"] == "url"
    assert rows[1, 1]["speedup"]["value"] > 0


def test_a_baseline_that_is_measured_need_not_run_any_more(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as fake:
        sweep(options(tmp_path, steps=(1,), baseline_url=fake.url, profile=False))
    rows = by_setting(sweep(options(tmp_path, steps=(1, 2), baseline_url=fake.url, profile=False)))
    assert rows[2, 1]["speedup"]["value"] > 0


@pytest.mark.parametrize("run", [{"step_ms": 1, "batch": "a"}, {"step_ms": [1]}])
def test_a_baseline_with_other_things_than_figures_is_refused_in_a_line(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(ServerError, match=r"run\.json"):
        sweep(options(tmp_path, steps=(1,), baseline_runs=(path,), profile=False))


def test_a_run_of_a_plain_server_is_a_baseline(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"step_ms": 2.0, "tokens_per_second": 500.0, "batch": 1}))
    rows = by_setting(sweep(options(tmp_path, steps=(1,), baseline_runs=(path,), profile=False)))
    cycle = rows[1, 1]["cycle_ms"]["value"]
    assert rows[0, 1]["source"] == "file"
    assert rows[1, 1]["break_even_accept_length"] == pytest.approx(cycle / 2.0, abs=0.001)
    assert rows[1, 1]["pays"] == "unclear"  # nobody knows its spread


def test_an_analysis_that_fails_does_not_end_the_sweep(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        raise ZeroDivisionError("on purpose")

    said: list[str] = []
    rows = by_setting(sweep(options(tmp_path, shares=broken, say=said.append)))
    assert [row["recorded"] for row in rows.values()] == [True, True]
    assert rows[1, 1]["shares"] is None
    assert sum("no shares (ZeroDivisionError: on purpose)" in text for text in said) == 2


def test_a_server_that_cannot_be_seen_to_speculate_is_named(tmp_path: Path) -> None:
    command = f"{COMMAND} --engine vllm --fault no_metrics"
    (row,) = sweep(options(tmp_path, command, steps=(3,), profile=False))["rows"]
    assert row["reason"].startswith("the server does not speculate, or does not say so")


def test_figures_are_not_given_up_for_a_later_failure(tmp_path: Path) -> None:
    figure = {"value": 1.0, "low": 1.0, "high": 1.0, "values": [1.0]}
    book = sweep_file.Book(tmp_path / "out", {"baseline_command": None}, "specscope")
    with book:
        book.add(sweep_file.empty(1, 1, None, tokens_per_second=figure, cut=True))
        book.add(sweep_file.empty(1, 1, "the server did not start"))
        (row,) = book.document["rows"]
    assert row["tokens_per_second"] == figure
    assert row["not_recorded"] == "the server did not start"
    assert row["reason"] is None


def test_a_server_whose_workers_outlive_it_is_over_at_once(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    (row,) = sweep(
        options(tmp_path, f"{COMMAND} --workers stubborn --fault dies --pids {pids}", steps=(1,))
    )["rows"]
    assert time.monotonic() - began < 15
    assert "exit code 3" in row["reason"]
    assert not any(map(runs, noted(pids)))


# Going on.


def test_rows_with_figures_are_kept_and_failed_ones_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    script = tmp_path / "serve.sh"
    script.write_text(
        f'#!/bin/sh\nif [ -e {flag} ] && [ "$2" = 2 ]; then echo "ValueError: no"; exit 1; fi\n'
        f'exec {PROGRAM} --port "$1" --steps "$2"\n'
    )
    command = f"sh {script} {{port}} {{steps}}"
    first = by_setting(sweep(options(tmp_path, command, profile=False)))
    flag.unlink()
    second = by_setting(sweep(options(tmp_path, command, steps=(1, 2, 3), profile=False)))
    assert second[1, 1] == first[1, 1]
    assert first[2, 1]["tokens_per_second"] is None
    assert second[2, 1]["tokens_per_second"] is not None
    assert second[3, 1]["tokens_per_second"] is not None


def test_a_changed_command_is_refused_in_words(tmp_path: Path) -> None:
    sweep(options(tmp_path, steps=(1,), profile=False))
    with pytest.raises(UnsuitableError, match="of another --command"):
        sweep(options(tmp_path, f"{COMMAND} --cycle 0.001", profile=False))
    with pytest.raises(UnsuitableError, match="of another --tokens"):
        sweep(options(tmp_path, profile=False, load={**LOAD, "tokens": 64}))


def test_another_key_is_the_same_command(tmp_path: Path) -> None:
    for key in ("first-key-123", "second-key-456"):
        load = {**LOAD, "api_key": key}
        done = sweep(options(tmp_path, f"{COMMAND} --api-key {key}", steps=(1,), load=load))
        assert done["rows"][0]["reason"] is None
    everything = "".join(
        path.read_bytes().decode("latin-1") for path in (tmp_path / "out").rglob("*.json")
    )
    assert "first-key-123" not in everything
    assert "second-key-456" not in everything


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 2}', '{"rows": [1]}'])
def test_a_folder_with_a_broken_sweep_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text(text)
    with pytest.raises(UnsuitableError, match=r"sweep.json .*--out"):
        sweep(options(tmp_path))


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    keep = tmp_path / "out" / "steps-1" / "batch-1" / "thesis.txt"
    keep.parent.mkdir(parents=True)
    keep.write_text("years of work")
    with pytest.raises(UnsuitableError, match="holds other files"):
        sweep(options(tmp_path))
    assert keep.read_text() == "years of work"


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    book = sweep_file.Book(tmp_path, {"baseline_command": None}, "specscope")
    with book, pytest.raises(UnsuitableError, match="another sweep works in"):
        sweep_file.Book(tmp_path, {"baseline_command": None}, "specscope").__enter__()


# Interrupts.


def interrupt_when(true: Callable[[], bool]) -> threading.Thread:
    def wait() -> None:
        until = time.monotonic() + 30
        while not true() and time.monotonic() < until:
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_an_interrupt_while_measuring_keeps_the_rows_and_ends_every_process(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    said: list[str] = []
    given = options(
        tmp_path,
        f"{COMMAND} --workers stubborn --pids {pids}",
        profile=False,
        tick=said.append,
    )
    thread = interrupt_when(lambda: any(text.startswith("2 steps, batch 1: m") for text in said))
    with pytest.raises(KeyboardInterrupt):
        sweep(given)
    thread.join()
    rows = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    assert [row["steps"] for row in rows] == [1]
    assert len(noted(pids)) == 6
    assert not any(map(runs, noted(pids)))


def test_an_interrupt_while_recording_keeps_the_figures_and_the_row_is_taken_again(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    given = options(tmp_path, steps=(1,), say=said.append)
    thread = interrupt_when(lambda: any("recording 3 cycles" in text for text in said))
    with pytest.raises(KeyboardInterrupt):
        sweep(given)
    thread.join()
    (row,) = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    assert row["tokens_per_second"]["value"] > 0
    assert row["cut"]
    (row,) = sweep(given)["rows"]
    assert row["recorded"]
    assert not row["cut"]


def test_an_interrupt_while_a_server_starts_ends_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"{COMMAND} --workers stubborn --fault hangs --pids {pids}"
    thread = interrupt_when(lambda: pids.exists() and len(noted(pids)) == 3)
    with pytest.raises(KeyboardInterrupt):
        sweep(options(tmp_path, command))
    thread.join()
    assert not any(map(runs, noted(pids)))


def test_a_second_interrupt_kills_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 60)
    pids = tmp_path / "pids"
    pids.touch()
    command = f"{PLAIN.format(port=1)} --workers stubborn --fault hangs --pids {pids}"
    server = ServerProcess(Start(tuple(shlex.split(command))), tmp_path / "log")
    while len(noted(pids)) < 3:
        time.sleep(0.02)
    thread = interrupt_when(lambda: not runs(server.pid))  # SIGTERM was sent
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    thread.join()
    assert not any(map(runs, noted(pids)))


# The process and its log.


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
    until = time.monotonic() + 20
    while stat.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.02)
    assert server.members() == [server.pid]
    server.stop(0.2)
    assert not stat.exists()


def test_what_was_started_ends_also_where_it_ignores_sigterm(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); " \
           "time.sleep(600)"  # fmt: skip
    log = tmp_path / "log"
    with ServerProcess(Start((sys.executable, "-c", code)), log) as server:
        while not (log.exists() and "up" in log.read_text()):
            time.sleep(0.02)
        began = time.monotonic()
        server.stop(0.3)
        assert time.monotonic() - began < 5
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
    log.finish(10)
    process.wait()
    process.stdout.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log", "log.1"]
    assert all((tmp_path / name).stat().st_size <= 10_000 for name in files)
    assert (tmp_path / "log").read_text("utf-8").endswith("lïne € 4999\n")


def test_a_second_start_writes_behind_the_log_of_the_first(tmp_path: Path) -> None:
    for word in ("first", "second"):
        code = f"print('{word}')"
        with ServerProcess(Start((sys.executable, "-c", code)), tmp_path / "log") as server:
            server.log.finish(10)
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_a_server_that_somebody_else_started_on_the_port_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between the look at the port and the start of the own server's listening."""
    stranger = local_server.LocalServer(pid=1, command=("other", "--port", "1"))
    monkeypatch.setattr(local_server, "find", lambda port: stranger)
    code = "import time; time.sleep(60)"
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
        server.log.finish(10)
    assert (tmp_path / "log").read_text() == "I was given ***, and a b\n"
