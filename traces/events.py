"""The contract between the scanners and `traces.kineto`: trace events as flat columns.

Both scanners (`_scan.c` through `scan_native`, and `scan_pure`) return one `Document` per
JSON document in the text. They must agree column for column; `tests/traces` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Raw = bytes  # `Document` has a column of that name

# A missing integer. No real id or time reaches it.
ABSENT = np.iinfo(np.int64).min

# pid and tid that are texts: TEXT_ID_BASE - index into `Document.texts`.
TEXT_ID_BASE = -(1 << 40)

# Bits of `Document.flags`.
HAS_TS = 1  # a ts was there and readable
HAS_DUR = 2  # a dur was there and readable
QUOTED_NUMBER = 4  # ts or dur was written as a text
NEGATIVE_DUR = 8  # dur was below 0 and is 0 here
ROUNDED = 16  # more than three decimals, rounded half up on the fourth
ODD_DECIMALS = 32  # 1 or 2 decimals: a tool printed the number again, from a float
REPAIRED = 64  # the event was not valid JSON and was repaired
DUPLICATE_KEY = 128  # a key stood twice in the event or in its args
NULLED = 256  # inf or nan in a column here became absent
NOT_INTEGER = 512  # an id that had to be an integer was something else and is ABSENT


@dataclass
class Loss:
    """One stretch of the text that is in no parsed event, or in a repaired one."""

    offset: int
    length: int
    count: int
    reason: str
    action: str


@dataclass
class Document:
    """The events of one JSON document, in file order; one array element per kept event."""

    ph: npt.NDArray[np.uint8]  # ASCII of the phase letter, 0 when absent
    cat: npt.NDArray[np.int32]  # index into cats, -1 when absent
    name: npt.NDArray[np.int32]  # index into names, -1 when absent
    pid: npt.NDArray[np.int64]  # integer, or TEXT_ID_BASE - index into texts, or ABSENT
    tid: npt.NDArray[np.int64]
    ts_ns: npt.NDArray[np.int64]  # file time; ABSENT when missing
    dur_ns: npt.NDArray[np.int64]  # 0 when missing (see flags)
    flags: npt.NDArray[np.uint16]
    correlation: npt.NDArray[np.int64]  # args.correlation or ABSENT
    device: npt.NDArray[np.int64]  # args.device or ABSENT
    stream: npt.NDArray[np.int64]  # args.stream (also "0x7") or ABSENT
    graph_node: npt.NDArray[np.int64]  # args["graph node id"], ABSENT when missing or 0
    bytes: npt.NDArray[np.int64]  # args.bytes (or "Bytes"), or ABSENT
    external_id: npt.NDArray[np.int64]  # args["External id"/"external id"] or ABSENT
    offset: npt.NDArray[np.int64]  # byte offset of the event in the unpacked text
    cats: list[str]
    names: list[str]
    texts: list[str]
    # Raw text of `args` of the events that need it, by index into the columns above:
    # ph M, and events whose args hold "Collective name".
    args_event: npt.NDArray[np.int64]
    args_text: list[Raw]
    # Top-level keys other than traceEvents: raw JSON text by key (last one wins), at most
    # 16 MiB each; larger ones are a loss.
    header: dict[str, Raw]
    losses: list[Loss] = field(default_factory=list)
    # Every byte of the document is in exactly one of these three sums.
    event_bytes: int = 0  # inside parsed events, kept or dropped by design
    structure_bytes: int = 0  # between events, header, brackets
    skipped_bytes: int = 0  # in the stretches named in losses
    start: int = 0  # offset of the document in the unpacked text
    end: int = 0
    is_array: bool = False  # a bare [ ... ]
    has_events: bool = False  # there was an array of events: traceEvents, or a bare one
    truncated: bool = False  # the text ended inside the document
    events: int = 0  # event objects seen, kept or not (every ph)
    dropped: dict[str, int] = field(default_factory=dict)  # kept out by design, by category
    # True for (cat, name) replaced bytes that were not UTF-8
    replaced_names: int = 0


@dataclass(frozen=True)
class ScanOptions:
    """What to keep. Flows (ph s, f, t) are always counted and dropped.

    Frames (cat python_function) are kept when `all_frames`, or when their name contains one
    of `frame_needles` (decided once per distinct name).
    """

    all_frames: bool = False
    frame_needles: tuple[bytes, ...] = ()
    max_text_bytes: int = 64 << 30
    threads: int = 2
