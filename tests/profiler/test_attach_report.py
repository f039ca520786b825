"""How often a process writes what was attached to it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from specscope.profiler import attach_report


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
