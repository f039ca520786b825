"""What ends tests that would hang."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests import waiting

ROOT = Path(__file__).resolve().parents[1]


def test_what_does_not_come_fails_in_words() -> None:
    with pytest.raises(pytest.fail.Exception, match="after 0 s not: the sea is dry"):
        waiting.until(lambda: False, "the sea is dry", 0.1)
    assert waiting.until(lambda: 3, "three") == 3


def test_a_thread_that_does_not_end_fails() -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="slow", daemon=True)
    thread.start()
    with pytest.raises(pytest.fail.Exception, match="the thread slow still runs"):
        waiting.joined(thread, 0.1)
    go.set()
    waiting.joined(thread)


def sleep() -> None:
    """In pieces: an interrupt just before a wait does not end it, it comes behind it."""
    end = time.monotonic() + waiting.PATIENCE
    while time.monotonic() < end:
        time.sleep(0.01)


def test_an_interrupt_comes_once_and_only_into_the_body() -> None:
    with waiting.interrupted_when(lambda: True, "now"):
        sleep()
    with (
        pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"),
        waiting.interrupted_when(lambda: False, "never"),
    ):
        pass


def test_what_an_interrupt_left_open_is_let_go_without_a_warning() -> None:
    """It may come between the making of a socket and its name; warnings are errors here."""

    def half_made() -> None:
        left = socket.socket()
        sleep()
        left.close()

    with waiting.interrupted_when(lambda: True, "now"):
        half_made()


def ran(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest on one module, under the conftest of these tests with short limits."""
    (folder / "conftest.py").write_text(
        "from tests import waiting\n"
        "waiting.MOST_SECONDS = waiting.END_SECONDS = 2.0\n"
        "from tests.conftest import *\n"
    )
    (folder / "test_one.py").write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=waiting.PATIENCE,
    )


def test_a_test_that_hangs_ends_the_run_and_is_named(tmp_path: Path) -> None:
    done = ran(tmp_path, "import time\ndef test_stuck(): time.sleep(600)")
    assert done.returncode == 1
    assert "in test_stuck" in done.stderr


def test_an_end_that_hangs_is_ended_too(tmp_path: Path) -> None:
    """The interpreter waits for threads that are no daemons."""
    code = """
        import threading, time
        def test_leaves_a_thread(): threading.Thread(target=stuck).start()
        def stuck(): time.sleep(600)
    """
    done = ran(tmp_path, code)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "in stuck" in done.stderr
