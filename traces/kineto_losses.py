"""Faults in the times of events: each is a row of `losses` with the byte offset of its event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import schema
from .events import HAS_DUR, HAS_TS, NEGATIVE_DUR, QUOTED_NUMBER, Document
from .kineto_events import SPAN, Events
from .repairs import (
    clip_late_ends,
    earliest_call,
    equal_starts,
    invalid_op_times,
    written_twice,
)

Ints = npt.NDArray[np.int64]

# Rows with an offset of their own per reason and rank; further ones share one row.
ROWS_PER_REASON: Final = 100

_KEPT_AS_IS: Final = (
    (NEGATIVE_DUR, "negative_duration", "set to 0"),
    (QUOTED_NUMBER, "quoted_time", "read as a number"),
)


@dataclass
class Losses:
    """Rows for the table `losses` of one rank: offset, length, count, reason, action."""

    source: str
    rows: list[tuple[int | None, int | None, int, str, str]] = field(default_factory=list)

    def add_scan(self, document: Document) -> None:
        """The stretches of text that the scanner skipped or repaired."""
        self.rows += [
            (loss.offset, loss.length, loss.count, loss.reason, loss.action)
            for loss in document.losses
        ]

    def add(self, offsets: Ints, reason: str, action: str) -> None:
        """One row an event, up to ROWS_PER_REASON; the rest in one row without an offset."""
        for offset in offsets[:ROWS_PER_REASON].tolist():
            self.rows.append((offset, None, 1, reason, action))
        rest = len(offsets) - ROWS_PER_REASON
        if rest > 0:
            self.rows.append((None, None, rest, reason, f"{action} (further ones)"))

    def table(self) -> pa.Table:
        """The rows as the table `losses`."""
        columns = list(zip(*self.rows, strict=True)) or [()] * 5
        return pa.table([[self.source] * len(self.rows), *columns], schema=schema.LOSSES)


def report_odd_times(events: Events, losses: Losses) -> None:
    """Rows for odd spellings of times; the events themselves are kept."""
    tabled = events.code > 0
    for bit, reason, action in _KEPT_AS_IS:
        losses.add(events.offset[tabled & ((events.flags & bit) != 0)], reason, action)
    missing = tabled & ((events.flags & HAS_DUR) == 0) & (events.ph == SPAN)
    losses.add(events.offset[missing], "missing_duration", "set to 0")
    losses.add(events.offset[events.joined], "begin_end_pair", "joined to one event")
    losses.add(events.offset[events.alone], "begin_or_end_alone", "left out")


def with_time(events: Events, index: Ints, losses: Losses) -> Ints:
    """Those of the host events at `index` that have a time."""
    timed = (events.flags[index] & HAS_TS) != 0
    # A time near the end of 64 bits plus a duration turns round.
    usable: npt.NDArray[np.bool_] = timed & (events.end[index] >= events.start[index])
    if usable.all():
        return index
    losses.add(events.offset[index[~usable]], "time_missing", "left out: no usable time")
    return index[usable]


def once(events: Events, index: Ints, losses: Losses) -> Ints:
    """Those of the events at `index` that are not in the file a second time."""
    tied = np.sort(equal_starts(events.start[index]))
    if not len(tied):
        return index
    at = index[tied]
    columns = (events.start, events.end, events.pid, events.tid, events.correlation, events.name)
    again = written_twice(*(column[at] for column in columns))
    if not again.any():
        return index
    losses.add(events.offset[at[again]], "duplicate_event", "left out: the same event again")
    return np.delete(index, tied[again])


def valid_ops(events: Events, ops: Ints, calls: Ints, losses: Losses) -> Ints:
    """Those of the GPU ops at `ops` whose times can be true."""
    call_start = earliest_call(
        events.correlation[ops], events.correlation[calls], events.start[calls]
    )
    start, end = events.start[ops], events.end[ops]
    has_time = ((events.flags[ops] & HAS_TS) != 0) & (end >= start)
    bad = invalid_op_times(start, end - start, has_time, call_start)
    if not bad.any():
        return ops
    losses.add(
        events.offset[ops[bad]],
        "gpu_time_invalid",
        "GPU record left out: time and length 0, or over 1 ms before its own launch call",
    )
    return ops[~bad]


def repaired_ends(events: Events, ops: Ints, losses: Losses) -> Ints:
    """Ends of the ops at `ops`, late completion stamps clipped."""
    start, end = events.start[ops], events.end[ops]
    stream = events.stream[ops]
    clipped = clip_late_ends(events.device[ops], stream, start, end, events.correlation[ops])
    if not len(clipped.index):
        return end
    repaired = end.copy()
    repaired[clipped.index] = clipped.end
    sums = f"all ops of the rank {_sum(start, end)} ns raw, {_sum(start, repaired)} ns repaired"
    for row, new in zip(clipped.index.tolist(), clipped.end.tolist(), strict=True):
        action = (
            f"end clipped to the next start on stream {int(stream[row])}: "
            f"{int(end[row] - start[row])} ns raw, {int(new - start[row])} ns repaired; {sums}"
        )
        offset = int(events.offset[ops[row]])
        losses.rows.append((offset, None, 1, "duration_overflow", action))
    return repaired


def _sum(start: Ints, end: Ints) -> int:
    """Sum of the lengths, exact beyond 64 bits; only for files with such a fault."""
    return sum((end - start).tolist())
