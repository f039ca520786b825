"""A sweep over servers that are started, measured, recorded and ended."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from specscope.profiler.server_errors import UnsuitableError
from specscope.profiler.sweep import sweep
from tests import waiting
from tests.profiler.fake_servers import SECRET
from tests.profiler.sweeps import COMMAND, PLAIN, by_setting, noted, options, runs


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of the fakes ignore SIGTERM, all of them."""
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 0.5)


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
    log = tmp_path / "out" / "steps-1" / "server.log"

    def tick(text: str) -> None:
        """The time begins to run out when the server has said something."""
        waiting.until(lambda: log.exists() and "shards" in log.read_text(), "it says a line")

    (row,) = sweep(options(tmp_path, command, steps=(1,), ready_timeout=1.5, tick=tick))["rows"]
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


def test_a_port_of_somebody_else_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UnsuitableError) as error:
            sweep(options(tmp_path, port=port))
    assert str(error.value).startswith(f"port {port} is in use by process {os.getpid()} (")
    assert not (tmp_path / "out").exists()


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


def test_a_server_whose_workers_outlive_it_is_over_at_once(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"{COMMAND} --workers stubborn --fault dies --pids {pids}"
    # Waited for until it is ready, it would take an hour.
    (row,) = sweep(options(tmp_path, command, steps=(1,), ready_timeout=3600.0))["rows"]
    assert "exit code 3" in row["reason"]
    assert not any(map(runs, noted(pids)))
