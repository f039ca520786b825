"""What the two scanners and the driver in `scan.py` have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from specscope.traces.text import Text

# How a run of events ended; the numbers are those of _scan.c.
STOPPED = 0  # before an event at or after the place asked for
ARRAY_END = 1  # at the closing bracket
TEXT_END = 2  # the text ended between events
MORE = 3  # the buffer ended, the text did not; only between a scanner and its driver
BAD = 4  # at an event that the grammar does not accept
GARBAGE = 5  # at something that is not an event
SUSPECT = 6  # at an event that is fine by itself and that garbage follows

MAX_EVENT = 16 << 20  # longest event, in bytes
MAX_DEPTH = 512  # brackets open at one time within an event or a header value
MAX_NUMBER = 64  # longest number, in bytes
MAX_INT = (1 << 63) - 1
MAX_MICROSECONDS = 9_000_000_000_000_000

COLUMN_TYPES = {
    "ph": np.uint8,
    "cat": np.int32,
    "name": np.int32,
    "pid": np.int64,
    "tid": np.int64,
    "ts_ns": np.int64,
    "dur_ns": np.int64,
    "flags": np.uint16,
    "correlation": np.int64,
    "device": np.int64,
    "stream": np.int64,
    "graph_node": np.int64,
    "bytes": np.int64,
    "external_id": np.int64,
    "offset": np.int64,
}


@dataclass
class Events:
    """The events of one document, as a reader found them; texts are bytes without escapes."""

    columns: dict[str, npt.NDArray[np.generic]]  # by the names of COLUMN_TYPES
    cats: list[bytes]
    names: list[bytes]
    texts: list[bytes]
    args_event: npt.NDArray[np.int64]
    args_text: list[bytes]
    dropped: dict[bytes | None, int]
    events: int
    event_bytes: int
    odd_separators: int
    first_odd: int


class Reader(Protocol):
    """Reads the events of one document after another."""

    def run(self, text: Text, pos: int, fresh: bool) -> tuple[int, int, bool]:
        """Read events from `pos` until something else stands there: status, place, fresh.

        `fresh` says that the separator before `pos` must not be looked at (again).
        """

    def accept(self, text: Text, pos: int) -> int:
        """Read the one event at `pos`, whatever follows it; where it ends."""

    def repaired(self, event: bytes, offset: int) -> bool:
        """Read an event that was mended; False when it still cannot be read."""

    def finish(self) -> Events:
        """All events since the last call."""

    def close(self) -> None:
        """Stop what still runs."""
