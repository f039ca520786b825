"""What an export holds as a whole: its rows over all processes, and what they show together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import nsys_facts
from .events import ABSENT
from .nsys_facts import Recording
from .nsys_ranks import Ranks
from .nsys_rows import (
    LONGEST_NS,
    LONGEST_OP_NS,
    Calls,
    Marks,
    Ranges,
    Work,
    pid_of,
    plausible,
    take,
)
from .nsys_store import Ints, Store

_DOMAIN_ROWS = (75, 76)  # NVTX_EVENTS.eventType: a domain is made, or given up


@dataclass(frozen=True)
class Rows:
    """All rows of an export, or of one process."""

    work: Work
    calls: Calls
    ranges: Ranges
    marks: Marks

    def of(self, process: int) -> Rows:
        """Those of one process."""
        return Rows(
            take(self.work, self.work.process == process),
            take(self.calls, self.calls.process == process),
            take(self.ranges, self.ranges.process == process),
            take(self.marks, self.marks.process == process),
        )


def facts_of(store: Store, rows: Rows, recording: Recording, ranks: Ranks) -> dict[str, Any]:
    """Facts of the whole export, alike in all its ranks (`run.RankTables.facts`).

    `nsys` holds what `nsys_notes` tells from.
    """
    size = len(ranks.processes) + len(ranks.bare)
    return {
        "world_size": size if size > 1 else None,
        "backend": None,
        "groups": [],
        "devices": list(recording.devices),
        "versions": recording.versions,
        "switches": {},
        "with_stack": False,
        "clock_base_ns": recording.clock_base_ns,
        "clock_base_ignored": False,
        "absolute_times": recording.absolute_times,
        "resolution_ns": 1,
        "precision_lost_events": 0,
        "window_end_ns": recording.stop_ns,
        "truncated": False,
        "has_header": True,
        "has_frames": False,
        "frames_share": 0.0,
        "label": None,
        "reader": store.format,
        "is_rocm": False,
        "nsys": {
            "trimmed": recording.trimmed,
            "diagnostics": [vars(one) for one in recording.diagnostics],
            "ranks_by": ranks.by,
            "bare_pids": [pid_of(process) for process in ranks.bare],
            "first_ns": first_ns(rows),
            "last_ns": last_ns(rows),
            "has_calls": len(rows.calls.start) > 0,
            "has_ops": len(rows.work.start) > 0,
            "has_ranges": len(rows.ranges.start) > 0,
            "has_strings": store.rows("StringIds") > 0,
            "has_nvtx_table": "NVTX_EVENTS" in store.tables(),
            "has_domains": len(rows.ranges.domain.texts) > 0 or _makes_domains(store),
            "has_payload_schemas": store.rows("NVTX_PAYLOAD_SCHEMAS") > 0,
            "payload_blobs": nsys_facts.payload_blobs(store),
        },
    }


def stop_ns(rows: Rows, recording: Recording) -> int:
    """End of the recording: as it says, but not before its last event."""
    return max(last_ns(rows), recording.stop_ns if recording.stop_ns is not None else 0)


def first_ns(rows: Rows) -> int:
    """Start of the first event; 0 without any."""
    return min((int(start.min()) for start, _ in _timed(rows)), default=0)


def last_ns(rows: Rows) -> int:
    """End of the last event; 0 without any."""
    return max((int(end.max()) for _, end in _timed(rows)), default=0)


def _timed(rows: Rows) -> Iterable[tuple[Ints, Ints]]:
    """Starts and ends of the rows whose times can be; a range without an end has its start."""
    ranges, marks = rows.ranges, rows.marks
    ends = np.where(ranges.end == ABSENT, ranges.start, ranges.end)
    for start, end, longest in (
        (rows.work.start, rows.work.end, LONGEST_OP_NS),
        (rows.calls.start, rows.calls.end, LONGEST_NS),
        (ranges.start, ends, LONGEST_NS),
        (marks.time, marks.time, LONGEST_NS),
    ):
        sound = plausible(start, end, longest)
        if sound.any():
            yield start[sound], end[sound]


def elsewhere(rows: Rows, ranks: Ranks) -> dict[str, int]:
    """Rows of processes that are no rank with work, by kind."""
    counts = {
        f"{word} of other processes": int(np.count_nonzero(~np.isin(column, ranks.processes)))
        for word, column in (
            ("ops", rows.work.process),
            ("calls", rows.calls.process),
            ("ranges", rows.ranges.process),
            ("marks", rows.marks.process),
        )
    }
    return {word: count for word, count in counts.items() if count}


def _makes_domains(store: Store) -> bool:
    """Was any NVTX domain made, with ranges in it or without?"""
    kinds = store.read("NVTX_EVENTS", ("eventType",))["eventType"]
    return bool(np.isin(kinds, _DOMAIN_ROWS).any())
