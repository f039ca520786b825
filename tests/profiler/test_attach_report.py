"""How often a process writes what was attached to it, and what it says when it cannot."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from specscope.profiler import attach_report
from specscope.profiler.cycle_log import CycleLog, LogConfig


def test_requests_during_the_pause_are_one_more_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def pause(seconds: float) -> None:
        assert seconds == attach_report.PAUSE_SECONDS
        paused.release()
        assert go_on.acquire(timeout=30)

    made = []
    writer = attach_report.Writer(tmp_path, lambda: made.append(1) or attach_report.identity())
    monkeypatch.setattr(attach_report.time, "sleep", pause)
    writer.request()
    assert paused.acquire(timeout=30)
    assert len(made) == 1
    for _ in range(100):
        writer.request()
    assert len(made) == 1
    go_on.release()
    assert paused.acquire(timeout=30)
    assert len(made) == 2
    go_on.release()


def test_a_folder_that_takes_no_files_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The report and the cycle log fail there for one reason; both are told, one as warning."""
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "log"
    with caplog.at_level(logging.INFO, "specscope"):
        assert not CycleLog(LogConfig(folder)).start()
        attach_report.Writer(folder, dict).now()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert all("specscope: " in record.getMessage() for record in caplog.records)
