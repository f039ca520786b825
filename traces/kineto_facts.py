"""What is known about the file and rank behind the tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import kineto_names as names
from .events import (
    ABSENT,
    HAS_TS,
    NOT_INTEGER,
    NULLED,
    ODD_DECIMALS,
    REPAIRED,
    ROUNDED,
)
from .header import Header
from .kineto_events import INSTANT, Events

# Up to 2^43 us a double keeps three decimals apart, so a time printed again from one is exact;
# beyond (times since 1970) it has lost its nanoseconds.
FLOAT_SAFE_NS: Final = (1 << 43) * 1000
# Times beyond this (the year 2001) are since 1970; the base of the profiler's own clock is at
# most 91.3 days back.
ABSOLUTE_NS: Final = 10**18

WINDOW_END: Final = "Record Window End"


def read_facts(
    events: Events, header: Header, tables: dict[str, pa.Table], label: str | None
) -> dict[str, Any]:
    """The facts of one rank that stand in its events and in the header; plain JSON values.

    `events` counts the objects in the file, or the kept ones that carry the rank's label.
    """
    doc = events.document
    scan_dropped = dict(doc.dropped) if label is None else {}
    total = doc.events if label is None else len(events.row)
    flags = events.flags
    categories = category_counts(events)
    frames = categories.get("python_function", 0) + scan_dropped.get("python_function", 0)
    return {
        "rank": header.rank,
        "world_size": header.world_size,
        "backend": header.backend,
        "groups": header.groups,
        "devices": header.devices,
        "versions": header.versions,
        "switches": header.switches,
        "with_stack": header.switches.get("with_stack", False),
        **_clock_facts(events, header),
        "window_end_ns": None if doc.truncated else _window_end(events),
        "truncated": doc.truncated,
        "has_header": not doc.is_array,
        "has_frames": frames > 0,
        "frames_share": frames / total if total else 0.0,
        "events": total,
        "categories": categories,
        "scan_dropped": scan_dropped,
        "label": label,
        "replaced_names": doc.replaced_names,
        "repaired_events": _count(flags & REPAIRED),
        "nulled_events": _count(flags & NULLED),
        "odd_id_events": _count(flags & NOT_INTEGER),
        "producer": _producer(tables["ranges"], tables["tracks"]),
        "is_rocm": header.is_rocm or _uses_hip(tables["calls"]),
        "event_bytes": doc.event_bytes,
        "structure_bytes": doc.structure_bytes,
        "skipped_bytes": doc.skipped_bytes,
        "offset": doc.start,
    }


def _clock_facts(events: Events, header: Header) -> dict[str, Any]:
    """Base and resolution of the file's clock.

    Absolute times have base 0, also when a base is written beside them: it would be added
    twice. A whole number of microseconds everywhere in a file without a base is the old clock.
    """
    timed = (events.code > 0) & ((events.flags & HAS_TS) != 0)
    absolute = int(events.start.max(initial=0, where=timed)) > ABSOLUTE_NS
    reprinted = np.flatnonzero(timed & ((events.flags & (ODD_DECIMALS | ROUNDED)) != 0))
    starts = events.start[reprinted]
    lost = _count((starts % 1000 != 0) & (starts > FLOAT_SAFE_NS))
    coarse = lost > 0 or (header.clock_base_ns is None and _in_whole_microseconds(events, timed))
    return {
        "clock_base_ns": 0 if absolute else header.clock_base_ns,
        "clock_base_ignored": absolute and bool(header.clock_base_ns),
        "absolute_times": absolute,
        "resolution_ns": 1000 if coarse else 1,
        "precision_lost_events": lost,
    }


def _in_whole_microseconds(events: Events, timed: npt.NDArray[np.bool_]) -> bool:
    return not ((events.start[timed] % 1000).any() or (events.dur[timed] % 1000).any())


def _count(mask: Any) -> int:
    return int(np.count_nonzero(mask))


def category_counts(events: Events) -> dict[str, int]:
    """Kept events by category: ph X bare, others as `ph:category`, no category as `-`."""
    width = len(events.document.cats) + 1
    both = events.ph.astype(np.int64) * width + (events.cat + 1)
    counts = np.bincount(both, minlength=1)
    found: dict[str, int] = {}
    for value in np.flatnonzero(counts).tolist():
        phase, cat = chr(value // width), value % width - 1
        name = events.document.cats[cat] if cat >= 0 else "-"
        key = name if phase == "X" else f"{phase}:{name}"
        found[key] = int(counts[value])
    return found


def dropped_counts(facts: dict[str, Any]) -> dict[str, int]:
    """Events in no table by design, by category, from the facts of a rank."""
    dropped = {
        name: count
        for name, count in facts["categories"].items()
        if name.removeprefix("B:").removeprefix("E:") not in names.CATEGORIES and name != "M:-"
    }
    for name, count in facts["scan_dropped"].items():
        dropped[name] = dropped.get(name, 0) + count
    return dropped


def _window_end(events: Events) -> int | None:
    """Time of the instant that Kineto writes when the recording window closes."""
    texts = events.document.names
    if WINDOW_END not in texts:
        return None
    times = events.start[(events.ph == INSTANT) & (events.name == texts.index(WINDOW_END))]
    times = times[times != ABSENT]
    return int(times.max()) if len(times) else None


def _producer(ranges: pa.Table, tracks: pa.Table) -> str | None:
    """The engine that wrote the trace, from process names, then from range names."""
    labels = tracks.column("label").to_pylist()
    for mark, engine in names.PROCESS_MARKS:
        if any(mark in label for label in labels):
            return engine
    texts = _distinct_names(ranges)
    for mark, engine in names.RANGE_MARKS:
        if any(mark in text for text in texts):
            return engine
    return None


def _uses_hip(calls: pa.Table) -> bool:
    return any(text.startswith("hip") for text in _distinct_names(calls))


def _distinct_names(table: pa.Table) -> list[str]:
    column = table.column("name")
    found: list[str] = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    return found
