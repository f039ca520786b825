"""A sweep that is interrupted: what was measured stays, every process ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope.profiler import sweep_file
from specscope.profiler.sweep import sweep
from tests import waiting
from tests.profiler.sweeps import COMMAND, noted, options, runs


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of the fakes ignore SIGTERM, all of them."""
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 0.5)


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
    with waiting.interrupted_when(
        lambda: any(text.startswith("2 steps, batch 1: m") for text in said), "it measures"
    ):
        sweep(given)
    rows = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    assert [row["steps"] for row in rows] == [1]
    assert len(noted(pids)) == 6
    assert not any(map(runs, noted(pids)))


def test_an_interrupt_while_recording_keeps_the_figures_and_the_row_is_taken_again(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    given = options(tmp_path, steps=(1,), say=said.append)
    with waiting.interrupted_when(
        lambda: any("recording 3 cycles" in text for text in said), "it records"
    ):
        sweep(given)
    (row,) = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    assert row["tokens_per_second"]["value"] > 0
    assert row["cut"]
    (row,) = sweep(given)["rows"]
    assert row["recorded"]
    assert not row["cut"]


def test_an_interrupt_while_a_server_starts_ends_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"{COMMAND} --workers stubborn --fault hangs --pids {pids}"
    with waiting.interrupted_when(lambda: len(noted(pids)) == 3, "the server starts"):
        sweep(options(tmp_path, command))
    assert not any(map(runs, noted(pids)))
