"""A log that is followed, from the files to the view: what came is folded, then shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from specscope.analyzers.hook_cost import HookCost, hook_cost
from specscope.analyzers.live_cycles import CycleFold
from specscope.analyzers.live_times import LiveProcess
from specscope.analyzers.live_view import LiveView, live_view
from specscope.traces import attach_reports
from specscope.traces.log_follow import Follower, Process

# The log is looked at so often; its writer writes once a second.
POLL_SECONDS: Final = 1.0
# A rank that says nothing for so long while another one goes on is called silent.
SILENT_SECONDS: Final = 5.0
# Reports of the hooks are looked at so often.
_REPORTS_SECONDS: Final = 5.0


class LiveLog:
    """The log in `folder`, as far as it was read. One thread at a time.

    Raises UsageError for what is no folder.
    """

    def __init__(
        self, folder: Path, window_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.window_s = window_s
        self._follower = Follower(folder, window_s, clock)
        self._folds: dict[tuple[int, int], CycleFold] = {}
        self._costs: dict[int, HookCost] = {}
        self._costs_at: float | None = None
        self._clock = clock

    def poll(self) -> bool:
        """Take what came since; True while more of it waits to be read."""
        for process, rows in self._follower.poll():
            fold = self._folds.get(process.key)
            if fold is None:
                fold = self._folds[process.key] = CycleFold(int(self.window_s * 1e9))
            fold.take(rows, process.clock_base_ns or 0)
        alive = self._follower.processes
        self._folds = {key: fold for key, fold in self._folds.items() if key in alive}
        now = self._clock()
        if self._costs_at is None or now - self._costs_at >= _REPORTS_SECONDS:
            self._costs_at = now
            self._costs = self._read_costs()
        return self._follower.behind

    def view(self) -> LiveView:
        """What is known now."""
        processes = list(self._follower.processes.values())
        folds = {one.key: self._folds.get(one.key) for one in processes}
        quiet = {one.key: max(self._clock() - one.quiet_since, 0.0) for one in processes}
        least = min(quiet.values(), default=0.0)
        return live_view(
            [
                LiveProcess(
                    rank=one.rank,
                    pid=one.pid,
                    fold=folds[one.key] or CycleFold(int(self.window_s * 1e9)),
                    world_size=one.world_size,
                    engine=" ".join(word for word in (one.engine, one.engine_version) if word),
                    quiet_s=quiet[one.key],
                    ended=one.ended,
                    notes=tuple(_notes(one, folds[one.key], quiet[one.key], least)),
                    hook_cost=self._costs.get(one.pid),
                )
                for one in processes
            ],
            self.window_s,
            self._told(processes),
        )

    def _told(self, processes: list[Process]) -> list[str]:
        """What is to be said of all of it."""
        if not processes:
            return ["no cycle log in the folder yet: waiting for one"]
        told = []
        if self._follower.servers > 1:
            told.append("the server was started anew: this is the newest one")
        if self._follower.behind:
            told.append("still reading what was there before")
        if any(one.clock_base_ns is None and one.rows for one in processes):
            told.append(
                "a log does not say its clock's base: its times cannot be set beside others"
            )
        return told

    def _read_costs(self) -> dict[int, HookCost]:
        reports, _ = attach_reports.read(self._follower.folder)
        costs = (hook_cost(report) for report in reports)
        return {cost.pid: cost for cost in costs if cost is not None}


def views(log: LiveLog, stop: threading.Event) -> Iterator[LiveView]:
    """View after view until told to stop, as often as a tenth of a core allows."""
    due = 0.0
    while not stop.is_set():
        behind = log.poll()
        if time.monotonic() >= due:
            begun = time.thread_time()
            view = log.view()
            cost = time.thread_time() - begun
            due = time.monotonic() + max(9 * cost, POLL_SECONDS / 2)
            yield view
        if not behind:
            stop.wait(POLL_SECONDS)


def _notes(process: Process, fold: CycleFold | None, quiet: float, least: float) -> list[str]:
    """What of this process is lost, late or odd."""
    out = list(process.troubles)
    if not process.ended and quiet > SILENT_SECONDS and quiet > least + SILENT_SECONDS:
        out.append(f"no rows for {quiet:.0f} s while others go on: stuck or dead")
    if process.waiting_bytes and quiet > SILENT_SECONDS:
        out.append(
            f"ends inside a batch of rows ({process.waiting_bytes:,} bytes): killed meanwhile, or "
            "being written"
        )
    if process.unread_bytes:
        out.append(f"{process.unread_bytes:,} bytes went before they were read")
    if process.missed_pieces:
        out.append(f"{process.missed_pieces} pieces came and went before they were read")
    if process.unsound_rows:
        out.append(f"{process.unsound_rows:,} rows that cannot be are left out")
    if fold is None:
        return out
    for reason, count in fold.lost.items():
        if count:
            action = attach_reports.LOST.get(reason, ("", "not in the log"))[1]
            out.append(f"{count:,} rows lost ({reason}): {action}")
    if fold.unnumbered_rows:
        out.append(
            f"{fold.unnumbered_rows:,} rows without a cycle's number are not shown: see analyze"
        )
    if fold.late_rows:
        out.append(f"{fold.late_rows:,} rows came when their cycle was closed")
    if fold.cut_cycles:
        out.append("more cycles than are kept: the newest 20,000 are shown")
    return out
