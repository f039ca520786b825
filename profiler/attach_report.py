"""What was attached in one process, and what not and why: made, written, read.

One JSON file a process in the log folder, `attach-<host>-<pid>.json`. It is written on a
short-lived thread, so that a slow or full disk never holds up the engine, and once more when
the process ends in order. After `kill -9` the counts may be too low, by half at most.
"""

from __future__ import annotations

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
PATTERN = "attach-*.json"
PAUSE_SECONDS = 1.0

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
        self._gave_up = False

    def request(self) -> None:
        """Have it written soon; returns at once."""
        if self._gave_up:
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
            if self._gave_up:
                return
            try:
                write(self.folder, self._make())
            except Exception as error:
                self._gave_up = True
                complaints.about(self.folder, f"no attach report in {self.folder}", error)
                return
            try:
                if self.beside is not None:
                    self.beside(self.folder)
            except Exception as error:
                self.beside = None
                complaints.about(self.folder, f"no server arguments in {self.folder}", error)


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
    part.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    part.replace(path)
    return path


def read(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The reports of a log folder, and a line for each file that is none."""
    reports, broken = [], []
    for path in sorted(folder.glob(PATTERN)):
        try:
            report = json.loads(path.read_text("utf-8"))
            if not isinstance(report, dict) or report.get("schema_version") != SCHEMA_VERSION:
                raise ValueError(f"no attach report of version {SCHEMA_VERSION}")
            if not isinstance(report.get("hooks"), list):
                raise ValueError("holds no hooks")
        except (OSError, ValueError) as error:
            broken.append(f"{path.name}: {error}")
            continue
        reports.append(report)
    return reports, broken
