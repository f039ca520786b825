"""What `specscope record` is asked for, what comes of it, and the files in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import nsys_program

REPORT, LOG, HOOKS = "report", "server.log", "hooks"
SUFFIX: Final = ".nsys-rep"
RAW_SUFFIX: Final = ".qdstrm"


@dataclass(frozen=True)
class Options:
    """What to run, and when to collect.

    Without any of `delay`, `duration`, `windows` and `by_signal` all of the command is recorded.
    `delay` counts from the start, or with `url` from when the server there is ready.
    """

    command: tuple[str, ...]
    out: Path | None = None
    nsys: str | None = None
    graphs: str = "node"
    delay: float | None = None
    duration: float | None = None
    url: str | None = None
    windows: int | None = None
    by_signal: bool = False
    hooks: bool = True
    ready_timeout: float = 1800.0
    stop_timeout: float = 600.0
    say: Callable[[str], None] = field(default=lambda text: None)
    tick: Callable[[str], None] = field(default=lambda text: None)
    show: Callable[[str], None] | None = None

    @property
    def later(self) -> bool:
        """Is the collection begun after the command?"""
        timed = (self.delay, self.duration, self.url) != (None, None, None)
        return timed or self.by_signal


@dataclass(frozen=True)
class Recorded:
    """What came of it.

    `code`: how the command ended by itself, below 0: the signal; None when it was ended here.
    `ending`: the same in words, with the telling line of its log. `nsys`: the program's path.
    `raw`: recordings that were never made a report. `complaint`: what nsys did not do.
    """

    folder: Path
    reports: tuple[Path, ...]
    raw: tuple[Path, ...]
    nsys: str
    code: int | None = None
    ending: str = ""
    complaint: str = ""
    notes: tuple[str, ...] = ()


def reports_of(folder: Path) -> list[Path]:
    """The reports in a folder, in the order of their windows."""
    found = [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]
    return sorted(found, key=lambda path: (nsys_program.numbers(path.name), path.name))


def raw_of(folder: Path, scratch: Path | None, since: float) -> Iterator[Path]:
    """Raw recordings that nsys left in a folder, and in the one it records into."""
    for place in (folder, scratch) if scratch else (folder,):
        try:
            found = sorted(place.glob(f"*{RAW_SUFFIX}"))
            yield from (path for path in found if _is_ours(path, since))
        except OSError:
            continue


def _is_ours(path: Path, since: float) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_mtime >= since - 1 and found.st_uid == os.getuid()
