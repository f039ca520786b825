"""The moving line while files are read."""

from __future__ import annotations

import io
import time

import pytest

from specscope.dashboards import progress
from tests import waiting


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_written_where_nobody_looks() -> None:
    file = io.StringIO()
    with progress.reading(file, enabled=True) as told:
        assert told is None
    assert file.getvalue() == ""


def test_nothing_is_written_when_asked_to_be_quiet() -> None:
    with progress.reading(Terminal(), enabled=False) as told:
        assert told is None


def test_a_short_read_shows_nothing() -> None:
    file = Terminal()
    with progress.reading(file, enabled=True) as told:
        assert told is not None
        told("rank0.trace.json.gz", 1.0)
    assert "rank0" not in file.getvalue()


def test_a_long_read_shows_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    file = Terminal()
    with progress.reading(file, enabled=True) as told:
        assert told is not None
        time.sleep(0.05)
        told("rank0\x1b]0;title\x07.trace.json.gz", 0.5)
        waiting.until(lambda: "rank0" in file.getvalue(), "it is drawn")
    assert "read rank0\\x1b]0;title" in file.getvalue()
    assert "\x1b]0;" not in file.getvalue()
