"""How often a process writes what was attached to it, and what it says when it cannot."""

from __future__ import annotations

import errno
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


def test_a_report_that_failed_is_tried_again_at_a_later_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk may have room later; a report from before would mislead."""
    now = [100.0]
    monkeypatch.setattr(attach_report.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(attach_report.time, "sleep", lambda seconds: None)
    (tmp_path / "log").write_text("in the way")
    writer = attach_report.Writer(tmp_path / "log", attach_report.identity)

    def request() -> list[str]:
        writer.request()
        thread = writer._thread
        if thread is not None:
            thread.join(30)
        return [path.name for path in tmp_path.glob("log/*")]

    assert request() == []
    (tmp_path / "log").unlink()
    now[0] += attach_report.AGAIN_SECONDS - 0.1
    assert request() == []
    now[0] += 0.2
    (name,) = request()
    assert name.startswith("attach-")


def test_a_report_that_the_disk_does_not_take_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, text: str, encoding: str) -> int:
        path.write_bytes(text.encode(encoding)[:10])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="full"):
        attach_report.write(tmp_path, attach_report.identity())
    assert list(tmp_path.iterdir()) == []
