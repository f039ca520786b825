"""Waits with an end: what does not come fails in words, and nothing hangs for ever."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

# Seconds far above what anything here takes, also on a machine that is slow and busy.
PATIENCE = 120.0
# Seconds that no test may take, nor the end of the process behind the last of them.
MOST_SECONDS = 900.0
END_SECONDS = 120.0
_PAUSE = 0.02
_HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str, seconds: float = PATIENCE) -> Found:
    """What `condition` gives, once that is true; fails with `what` after so long."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            pytest.fail(f"after {seconds:.0f} s not: {what}")
        time.sleep(_PAUSE)
    return found


def joined(thread: threading.Thread, seconds: float = PATIENCE) -> None:
    """Wait for a thread to end; fails when it does not."""
    thread.join(seconds)
    if thread.is_alive():
        pytest.fail(f"after {seconds:.0f} s the thread {thread.name} still runs")


@contextlib.contextmanager
def interrupted_when(condition: Callable[[], object], what: str) -> Iterator[None]:
    """The body is interrupted, as by Ctrl-C, once `condition` holds, and has to end by that.

    No interrupt comes after the body; where the condition never holds, one comes in the end.
    Nothing is collected meanwhile: Hypothesis has itself called by the garbage collection, and an
    interrupt that comes in the midst of one is raised in that call and lost there.
    """
    lock, begun, over = threading.Lock(), threading.Event(), threading.Event()
    came: list[bool] = []

    def watch() -> None:
        begun.wait()
        end = time.monotonic() + PATIENCE
        while not over.is_set():
            if condition():
                came.append(True)
            if came or time.monotonic() > end:
                with lock:
                    if not over.is_set():
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
            over.wait(_PAUSE)

    thread = threading.Thread(target=watch, name="interrupt", daemon=True)
    with signals_heard(), nothing_collected():
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt) as raised:
                try:
                    begun.set()
                    yield
                finally:
                    with lock:
                        over.set()
        finally:
            over.set()
            begun.set()
            joined(thread)
    _let_go(raised.value)
    assert came, f"after {PATIENCE:.0f} s not: {what}"


def _let_go(error: BaseException) -> None:
    """Drop what an interrupt left: it may come between the making of a socket and its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        one: BaseException | None = error
        while one is not None:
            traceback.clear_frames(one.__traceback__)
            one = one.__context__


@contextlib.contextmanager
def nothing_collected() -> Iterator[None]:
    """No garbage collection by itself."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def signals_heard() -> Iterator[None]:
    """Interrupts and the like are heard here and in children, also where a job runs in the
    background or under nohup, which start their programs with these ignored.
    """
    ignored = [one for one in _HEARD if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        heard = signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL
        signal.signal(one, heard)
    try:
        yield
    finally:
        for one in ignored:
            signal.signal(one, signal.SIG_IGN)


class Watchdog:
    """Ends this process, with the place of every thread on `file`, when something hangs."""

    def __init__(self) -> None:
        self._file: int | None = None

    def open(self, descriptor: int) -> None:
        """Say it on a copy of that descriptor, which nothing captures."""
        self._file = os.dup(descriptor)

    @contextlib.contextmanager
    def on(self, seconds: float) -> Iterator[None]:
        """Watch the body."""
        self.arm(seconds)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def arm(self, seconds: float) -> None:
        """Watch from now on."""
        if self._file is not None:
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._file)
