"""Follows the cycle logs of a running server: new rows of each of its processes, as they come.

The folder is looked through again and again: pieces that appear, ranks that come late, a server
that is started anew. Nothing is read twice, nothing is kept but where each file was left.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from . import cycle_log
from .errors import UsageError
from .file_names import read_name
from .folder import CAPTURE_SPREAD_NS
from .log_tail import Tail
from .sniff import printable

# Files looked at in one folder, and bytes read before what came is handed on.
MAX_FILES: Final = 10_000
MOST_BYTES_A_ROUND: Final = 64 << 20
_ROLE: Final = "cycle_log"


@dataclass
class Process:
    """One process whose log is followed: who it is, what came, and what will not.

    `quiet_since` is on the clock of `time.monotonic`, or that of the caller.
    """

    pid: int
    stamp_ns: int
    rank: int | None = None
    world_size: int | None = None
    clock_base_ns: int | None = None
    engine: str = ""
    engine_version: str = ""
    rows: int = 0
    quiet_since: float = 0.0
    ended: bool = False
    waiting_bytes: int = 0
    unread_bytes: int = 0  # of pieces that went before they were read
    missed_pieces: int = 0  # came and went between two looks
    unsound_rows: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # as the writer says, by reason
    troubles: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int]:
        """Which process it is."""
        return self.pid, self.stamp_ns


@dataclass
class _File:
    number: int
    path: Path
    rank: int | None
    mtime_ns: int


class Follower:
    """The logs of the newest server in `folder`; of older ones nothing is read.

    `seconds`: pieces that ended longer ago are left out at the beginning.
    """

    def __init__(
        self, folder: Path, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not folder.is_dir():
            raise UsageError(
                f"{printable(str(folder), 200)} is no folder; give the one of "
                "`specscope run --log DIR`"
            )
        self.folder = folder
        self.processes: dict[tuple[int, int], Process] = {}
        self.servers = 0  # how many the folder has seen since, the first included
        self.behind = False  # more can be read at once
        self._seconds = seconds
        self._clock = clock
        self._tails: dict[tuple[int, int], dict[int, Tail]] = {}

    def poll(self) -> Iterator[tuple[Process, pa.Table]]:
        """What came since: rows of one process after the other, in the order of its pieces."""
        found = self._found()
        chosen = _newest_server(found)
        gone = set(self.processes) - set(chosen)
        if chosen and (gone or not self.processes):
            # Another process has the rank: the server was started anew, or for the first time.
            self.servers += 1
            self.processes = {key: self.processes[key] for key in self.processes if key in chosen}
            self._tails = {key: self._tails[key] for key in self.processes}
        left = MOST_BYTES_A_ROUND
        self.behind = False
        for key in chosen:
            known = key in self.processes
            process = self.processes[key] if known else self._new(key, found[key])
            tails = self._tails[key]
            self._see(process, tails, found[key])
            came = False
            for number in sorted(tails):
                for table in self._rows(tails, number, process):
                    came = True
                    process.rows += table.num_rows
                    yield process, table
                    left -= table.nbytes
                    if left <= 0:
                        break
                if left <= 0:
                    self.behind = True
                    break
            if came and known:
                process.quiet_since = self._clock()
            self._settle(process, tails)

    def _found(self) -> dict[tuple[int, int], list[_File]]:
        """The pieces in the folder, by process."""
        found: dict[tuple[int, int], list[_File]] = {}
        try:
            paths = [path for _, path in zip(range(MAX_FILES), self.folder.iterdir(), strict=False)]
        except OSError:
            return found  # it is gone, or not to be read just now
        for path in paths:
            name = read_name(path.name)
            if name.role != _ROLE or name.stamp_ns is None:
                continue
            try:
                found_there = path.stat()
            except OSError:
                continue
            if not stat.S_ISREG(found_there.st_mode):
                continue  # opening a pipe would wait for ever
            _, pid, _ = str(name.worker).split("-")
            number = int(path.name.rsplit(".", 2)[1])
            files = found.setdefault((int(pid), name.stamp_ns), [])
            files.append(_File(number, path, name.rank, found_there.st_mtime_ns))
        return found

    def _new(self, key: tuple[int, int], files: list[_File]) -> Process:
        process = Process(*key)
        newest = max(file.mtime_ns for file in files)
        age = max(time.time() - newest / 1e9, 0.0)
        process.quiet_since = self._clock() - age
        oldest = newest - int(self._seconds * 1e9)
        # A piece that ended before the window opened has nothing to show.
        self._tails[key] = {
            file.number: Tail(file.path) for file in files if file.mtime_ns >= oldest
        }
        self.processes[key] = process
        return process

    def _see(self, process: Process, tails: dict[int, Tail], files: list[_File]) -> None:
        """Pieces that appeared; the rank, once a name says it."""
        last = max(tails, default=-1)
        for file in sorted(files, key=lambda file: file.number):
            if file.rank is not None:
                process.rank = file.rank
            if file.number > last:
                process.missed_pieces += file.number - last - 1 if last >= 0 else 0
                tails[file.number] = Tail(file.path)
                last = file.number

    def _rows(self, tails: dict[int, Tail], number: int, process: Process) -> Iterator[pa.Table]:
        """What that piece has to give; it is let go when nothing more can come of it."""
        tail = tails[number]
        while True:
            try:
                before = tail.read_bytes
                table = tail.read()
            except OSError:
                process.unread_bytes += tail.waiting_bytes
                self._done(tails, number, process)
                return
            _identify(process, tail)
            if table is not None:
                yield table
            if tail.ended or tail.broken:
                self._done(tails, number, process)
                return
            if tail.read_bytes == before:
                break
        if number < max(tails):
            # Its writer went on with another piece and will not come back to this one.
            process.unread_bytes += tail.waiting_bytes
            self._done(tails, number, process)

    def _done(self, tails: dict[int, Tail], number: int, process: Process) -> None:
        tail = tails[number]
        process.unsound_rows += tail.unsound_rows
        tail.unsound_rows = 0
        if tail.broken:
            name = printable(tail.path.name, 120)
            process.troubles = [*process.troubles[-9:], f"{name} {tail.broken}"]
        if number < max(tails):
            del tails[number]

    def _settle(self, process: Process, tails: dict[int, Tail]) -> None:
        """How the newest piece stands."""
        newest = tails.get(max(tails, default=-1))
        process.ended = newest is not None and newest.ended
        process.waiting_bytes = sum(
            tail.waiting_bytes for tail in tails.values() if not tail.broken
        )


def _identify(process: Process, tail: Tail) -> None:
    """Who the process is, by the newest piece that was read."""
    facts = tail.facts
    if not facts:
        return
    rank = cycle_log.small(facts.get("rank"))
    process.rank = process.rank if rank is None else rank
    process.world_size = cycle_log.small(facts.get("world_size"))
    process.clock_base_ns = cycle_log.integer(facts.get("clock_base_ns"))
    process.engine = facts.get("engine", "")
    process.engine_version = facts.get("engine_version", "")


def _newest_server(found: dict[tuple[int, int], list[_File]]) -> list[tuple[int, int]]:
    """The processes of the newest server: one for each rank, begun at about the same time."""
    chosen: list[tuple[int, int]] = []
    ranks: set[int | None] = set()
    for key in sorted(found, key=lambda key: -key[1]):
        rank = _rank_of(found[key])
        if chosen and (rank in ranks or chosen[-1][1] - key[1] > CAPTURE_SPREAD_NS):
            break
        chosen.append(key)
        ranks.add(rank)
    return sorted(chosen, key=lambda key: (_rank_of(found[key]) is None, _rank_of(found[key]) or 0))


def _rank_of(files: Iterable[_File]) -> int | None:
    return next((file.rank for file in files if file.rank is not None), None)
