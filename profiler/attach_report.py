"""What was attached in one process, and what not and why: made and written.

One JSON file a process in the log folder, `attach-<host>-<pid>.json`. It is written on a
short-lived thread, so that a slow or full disk never holds up the engine, and once more when
the process ends in order. After `kill -9` the counts may be too low, by half at most.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specscope.profiler import complaints, masking

SCHEMA_VERSION = 1
PAUSE_SECONDS = 1.0
AGAIN_SECONDS = 10.0  # after a failure: a disk that is full may have room later

PATCHED, SKIPPED, WAITING = "patched", "skipped", "not imported"


class Writer:
    """Writes the report of this process when something in it has changed."""

    def __init__(
        self,
        folder: Path,
        make: Callable[[], dict[str, Any]],
        beside: Callable[[Path], object] | None = None,
    ) -> None:
        self.folder = folder
        self._make = make
        self.beside = beside  # writes what else belongs to the process
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False
        self._failed_at: float | None = None

    def request(self) -> None:
        """Have it written soon; returns at once."""
        if self._failed_at is not None and time.monotonic() < self._failed_at + AGAIN_SECONDS:
            return
        self._again = True
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="specscope-report", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:  # no new thread at interpreter shutdown
                self._thread = None

    def now(self) -> None:
        """Write it on this thread."""
        self._write()

    def _work(self) -> None:
        while self._again:
            self._again = False
            self._write()
            # A report takes the interpreter from the engine for milliseconds: what follows
            # within a second goes into one more.
            time.sleep(PAUSE_SECONDS)
        self._thread = None

    def _write(self) -> None:
        with self._lock:
            what = "attach report"
            try:
                write(self.folder, self._make())
                what = "server arguments"
                if self.beside is not None:
                    self.beside(self.folder)
                self._failed_at = None
            except Exception as error:
                self._failed_at = time.monotonic()
                complaints.about(self.folder, f"no {what} in {self.folder}", error)


def identity() -> dict[str, Any]:
    """Which process this is."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "process": multiprocessing.current_process().name,
        "python": sys.version.split()[0],
        "command": masking.command(sys.orig_argv),
    }


def write(folder: Path, report: dict[str, Any]) -> Path:
    """Write the report of this process, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"attach-{report['host']}-{report['pid']}.json"
    part = path.with_suffix(".part")
    try:
        part.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)  # there when the disk did not take all of it
    return path
