"""Kineto documents into the tables of one rank each: categories, links, repairs, facts.

Everything here works on whole columns; no Python loop runs over events, except over the few
that carry arguments of their own (metadata events and collectives).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import kineto_names as names
from . import schema
from .collectives import collective_table
from .events import (
    ABSENT,
    DUPLICATE_KEY,
    HAS_DUR,
    HAS_TS,
    NEGATIVE_DUR,
    NOT_INTEGER,
    NULLED,
    ODD_DECIMALS,
    QUOTED_NUMBER,
    REPAIRED,
    ROUNDED,
    TEXT_ID_BASE,
    Document,
)
from .header import Header, read_header
from .repairs import clip_late_ends, earliest_call, invalid_op_times, join_begin_end
from .run import RankTables

Ints = npt.NDArray[np.int64]

# Rows of `losses` with an offset of their own per reason and rank; the rest share one row.
LOSS_ROWS: Final = 100

# Above this many us a double cannot hold three decimals, so a time that a tool printed again
# has lost its nanoseconds: 2^42 us.
FLOAT_SAFE_NS: Final = (1 << 42) * 1000
# Times beyond this are since 1970 (year 2001), not since the base of the profiler's clock,
# which is at most 91.3 days back.
ABSOLUTE_NS: Final = 10**18

WINDOW_END = "Record Window End"

_LABEL = re.compile(r"\[((?:[A-Z]{2,4}\d+)(?:-[A-Z]{2,4}\d+)*)\]\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,18}")
_STREAM = re.compile(r"stream (\d{1,18})\s*")
_X, _B, _E, _I, _M = (ord(letter) for letter in "XBEiM")

_CLASSES: Final = ("", "kernel", "copy", "set", "call", "annotation", "operator", "frame")
_CODE: Final = {name: code for code, name in enumerate(_CLASSES)}


@dataclass(frozen=True)
class Source:
    """The file a document was read from, as `sources` names it."""

    path: str
    format: str
    bytes: int
    text_bytes: int
    fingerprint: str
    reader: str


@dataclass
class _Losses:
    """Rows for the table `losses` of one rank."""

    source: str
    rows: list[tuple[int | None, int | None, int, str, str]] = field(default_factory=list)

    def add(self, offsets: Ints, reason: str, action: str) -> None:
        """One row an event, up to LOSS_ROWS; the rest in one row without an offset."""
        for offset in offsets[:LOSS_ROWS].tolist():
            self.rows.append((offset, None, 1, reason, action))
        rest = len(offsets) - LOSS_ROWS
        if rest > 0:
            self.rows.append((None, None, rest, reason, action + " (further ones)"))

    def table(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [()] * 5
        return pa.table(
            [pa.array([self.source] * len(self.rows), pa.string())]
            + [pa.array(c, f.type) for c, f in zip(columns, list(schema.LOSSES)[1:], strict=True)],
            schema=schema.LOSSES,
        )


@dataclass
class _Events:
    """The columns of one document with begin/end pairs joined and text ids resolved."""

    document: Document
    code: npt.NDArray[np.int8]  # index into _CLASSES; 0: in no table
    end: Ints
    pid: Ints
    tid: Ints
    stream: Ints
    rank_label: npt.NDArray[np.int32]  # index into labels, -1: none
    labels: list[str]
    pairs: Ints
    alone: Ints


def rank_tables(documents: Sequence[Document], source: Source) -> list[RankTables]:
    """The tables of every rank in the documents of one file, in file order.

    A file that a tool merged from several ranks (process ids such as `[TP01] 3000`) gives one
    set a label. `RankTables.rank` is the recorded rank, or the place in the file; whether it
    was recorded is in `facts["rank"]`.
    """
    found: list[RankTables] = []
    for document in documents:
        found.extend(_document_tables(document, source, first=len(found)))
    return found


def _document_tables(document: Document, source: Source, first: int) -> list[RankTables]:
    header = read_header(document.header)
    events = _prepare(document)
    if not events.labels:
        everything = slice(None)
        return [_one_rank(events, header, source, everything, None, header.rank, first)]
    ranks = _ranks_of_labels(events.labels)
    return [
        _one_rank(
            events,
            header,
            source,
            np.flatnonzero(events.rank_label == index),
            events.labels[index],
            ranks[index],
            first + place,
        )
        for place, index in enumerate(sorted(range(len(ranks)), key=ranks.__getitem__))
    ]


def _ranks_of_labels(labels: list[str]) -> list[int]:
    """Rank of each label: its TP number when it has nothing else, else its place in order."""
    plain = [re.fullmatch(r"TP(\d+)", label) for label in labels]
    if all(plain):
        return [int(match.group(1)) for match in plain if match]
    keys = [[(k, int(n)) for k, n in re.findall(r"([A-Z]+)(\d+)", label)] for label in labels]
    order = sorted(range(len(labels)), key=keys.__getitem__)
    return [order.index(index) for index in range(len(labels))]


def _prepare(document: Document) -> _Events:
    doc = document
    # One more entry at the end: index -1 (absent) finds it.
    lut = np.array([_CODE[names.CATEGORIES.get(cat, "")] for cat in doc.cats] + [0], dtype=np.int8)
    code = lut[doc.cat]
    end = doc.ts_ns + doc.dur_ns
    begins, ends = doc.ph == _B, doc.ph == _E
    pairs = join_begin_end(begins & (code > 0), ends, doc.pid, doc.tid, doc.ts_ns)
    end[pairs.begin] = doc.ts_ns[pairs.end]
    spans = doc.ph == _X
    spans[pairs.begin] = True
    code[~spans] = 0
    points = np.array([name in names.POINT_NAMES for name in doc.names] + [False])
    if points.any():
        code[points[doc.name]] = 0

    labels, label_of, number_of, stream_of = _texts(doc.texts)
    pid, rank_label = _resolve(doc.pid, label_of, number_of)
    tid, _ = _resolve(doc.tid, label_of, number_of)
    stream = doc.stream
    unknown = (stream == ABSENT) & (code > 0) & (code <= _CODE["set"])
    # A tool that appended a second "stream" key (seen in the field): the track is the witness.
    unknown |= ((doc.flags & DUPLICATE_KEY) != 0) & (code > 0) & (code <= _CODE["set"])
    if unknown.any():
        stream = stream.copy()
        from_track = np.where(doc.tid >= 0, doc.tid, ABSENT)
        text = _is_text(doc.tid)
        from_track[text] = stream_of[TEXT_ID_BASE - doc.tid[text]]
        use = unknown & (from_track != ABSENT)
        stream[use] = from_track[use]
    return _Events(doc, code, end, pid, tid, stream, rank_label, labels, pairs.begin, pairs.alone)


def _is_text(ids: Ints) -> npt.NDArray[np.bool_]:
    return (ids <= TEXT_ID_BASE) & (ids != ABSENT)


def _texts(texts: list[str]) -> tuple[list[str], npt.NDArray[np.int32], Ints, Ints]:
    """What each text id means: rank label, number, stream.

    Returns the labels, the label index of each text (-1: none), the number it stands for and
    the stream it names (both ABSENT: none).
    """
    labels: list[str] = []
    label_of = np.full(len(texts), -1, dtype=np.int32)
    number_of = np.full(len(texts), ABSENT, dtype=np.int64)
    stream_of = np.full(len(texts), ABSENT, dtype=np.int64)
    for index, text in enumerate(texts):
        match = _LABEL.fullmatch(text)
        if match:
            if match.group(1) not in labels:
                labels.append(match.group(1))
            label_of[index] = labels.index(match.group(1))
            text = match.group(2)
        if _NUMBER.fullmatch(text):
            number_of[index] = stream_of[index] = int(text)
        stream = _STREAM.fullmatch(text)
        if stream:
            stream_of[index] = int(stream.group(1))
    return labels, label_of, number_of, stream_of


def _resolve(
    ids: Ints, label_of: npt.NDArray[np.int32], number_of: Ints
) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Ids with numeric texts as numbers ("4001", "[TP00] 3000"), and the label of each."""
    text = _is_text(ids)
    label = np.full(len(ids), -1, dtype=np.int32)
    if not text.any():
        return ids, label
    index = TEXT_ID_BASE - ids[text]
    label[text] = label_of[index]
    number = number_of[index]
    ids = ids.copy()
    ids[text] = np.where(number == ABSENT, ids[text], number)
    return ids, label


def _one_rank(
    events: _Events,
    header: Header,
    source: Source,
    chosen: slice | Ints,
    label: str | None,
    rank: int | None,
    place: int,
) -> RankTables:
    """The tables of the events in `chosen` (indices, or all)."""
    doc = events.document
    index = np.arange(len(doc.ph))[chosen]
    code = events.code[chosen]
    losses = _Losses(source.path)
    losses.rows = [
        (loss.offset, loss.length, loss.count, loss.reason, loss.action) for loss in doc.losses
    ]

    def of(first: str, last: str) -> Ints:
        return index[(code >= _CODE[first]) & (code <= _CODE[last])]

    _report_odd_times(events, index[code > 0], chosen, losses)
    calls = _with_time(doc, of("call", "call"), losses)
    ranges = _with_time(doc, of("annotation", "frame"), losses)
    ops = _valid_ops(events, of("kernel", "set"), calls, losses)
    op_end = _repaired_ends(events, ops, losses)
    tables = {
        "ops": _op_table(events, ops, op_end),
        "calls": _call_table(events, calls),
        "ranges": _range_table(events, ranges),
    }
    tracks = _track_table(events, chosen)
    collectives, collective_losses = collective_table(doc, ops, ranges)
    for offset in collective_losses:
        losses.rows.append((offset, None, 1, "args_unreadable", "collective left out"))
    facts = _facts(events, header, source, chosen, label, rank, tables, tracks)
    return RankTables(
        rank=rank if rank is not None else place,
        **tables,
        collectives=collectives,
        tracks=tracks,
        losses=losses.table(),
        sources=_source_table(source, header, facts, label),
        facts=facts,
    )


# --- faults ---------------------------------------------------------------------------------

_ODD: Final = (
    (NEGATIVE_DUR, "negative_duration", "set to 0"),
    (QUOTED_NUMBER, "quoted_time", "read as a number"),
)


def _report_odd_times(events: _Events, index: Ints, chosen: slice | Ints, losses: _Losses) -> None:
    """Rows for odd spellings of times; all of these events are kept."""
    doc = events.document
    flags = doc.flags[index]
    for bit, reason, action in _ODD:
        losses.add(doc.offset[index[(flags & bit) != 0]], reason, action)
    missing = ((flags & HAS_DUR) == 0) & (doc.ph[index] == _X)
    losses.add(doc.offset[index[missing]], "missing_duration", "set to 0")
    for found, reason, action in (
        (events.pairs, "begin_end_pair", "joined to one event"),
        (events.alone, "begin_or_end_alone", "left out"),
    ):
        inside = found if isinstance(chosen, slice) else np.intersect1d(found, chosen)
        losses.add(doc.offset[inside], reason, action)


def _with_time(doc: Document, index: Ints, losses: _Losses) -> Ints:
    """The events with a start and an end in range; the others are losses."""
    timed = (doc.flags[index] & HAS_TS) != 0
    if timed.all():
        return index
    losses.add(doc.offset[index[~timed]], "time_missing", "left out")
    return index[timed]


def _valid_ops(events: _Events, ops: Ints, calls: Ints, losses: _Losses) -> Ints:
    """GPU ops whose times can be true."""
    doc = events.document
    call_start = earliest_call(doc.correlation[ops], doc.correlation[calls], doc.ts_ns[calls])
    has_time = (doc.flags[ops] & HAS_TS) != 0
    bad = invalid_op_times(doc.ts_ns[ops], doc.dur_ns[ops], has_time, call_start)
    if not bad.any():
        return ops
    losses.add(
        doc.offset[ops[bad]],
        "gpu_time_invalid",
        "GPU record left out: time 0 and length 0, or over 1 ms before its own launch call",
    )
    return ops[~bad]


def _repaired_ends(events: _Events, ops: Ints, losses: _Losses) -> Ints:
    """Ends of the ops, late completion stamps clipped."""
    doc = events.document
    start, end = doc.ts_ns[ops], events.end[ops]
    clipped = clip_late_ends(
        _device(events, ops), events.stream[ops], start, end, doc.correlation[ops]
    )
    if not len(clipped.index):
        return end
    raw_sum = int((end - start).sum())
    end = end.copy()
    end[clipped.index] = clipped.end
    sums = f"all ops of the rank {raw_sum} ns raw, {int((end - start).sum())} ns repaired"
    for row, raw, new in zip(
        clipped.index.tolist(), clipped.raw_end.tolist(), clipped.end.tolist(), strict=True
    ):
        begin = int(start[row])
        losses.rows.append(
            (
                int(doc.offset[ops[row]]),
                None,
                1,
                "duration_overflow",
                f"end clipped to the next start on stream {int(events.stream[ops[row]])}: "
                f"{raw - begin} ns raw, {new - begin} ns repaired; {sums}",
            )
        )
    return end


# --- tables ---------------------------------------------------------------------------------


def _names(doc: Document, index: Ints) -> tuple[Ints, list[str]]:
    """Codes into the list of the distinct names that these events use, and that list."""
    codes = doc.name[index]
    used = np.zeros(len(doc.names) + 1, dtype=np.bool_)
    used[codes] = True
    present = np.flatnonzero(used)
    texts = [doc.names[code] if code < len(doc.names) else "" for code in present.tolist()]
    # Different bytes may read as the same text (escapes, replacements): one entry each.
    place = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    remap = np.zeros(len(used), dtype=np.int64)
    remap[present] = [place[text] for text in texts]
    return remap[codes], list(place)


def _dictionary(codes: npt.NDArray[Any], values: Sequence[str], index_type: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(index_type)), pa.array(values, pa.string())
    )


def _kinds_by_name(
    codes: Ints, texts: list[str], kind_of: Callable[[str], str], kinds: tuple[str, ...]
) -> pa.Array:
    """A kind for each event, worked out once a distinct name."""
    lut = np.array([kinds.index(kind_of(text)) for text in texts] or [0], dtype=np.int8)
    return _dictionary(lut[codes], kinds, np.int8)


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == ABSENT)


def _device(events: _Events, ops: Ints) -> Ints:
    """Device index: args.device, else the process id of the track, else 0."""
    device = events.document.device[ops]
    unknown = device == ABSENT
    if unknown.any():
        pid = events.pid[ops]
        device = np.where(unknown, np.where((pid >= 0) & (pid < 1 << 31), pid, 0), device)
    return np.clip(device, -(1 << 31), (1 << 31) - 1)


def _op_table(events: _Events, ops: Ints, end: Ints) -> pa.Table:
    doc = events.document
    codes, texts = _names(doc, ops)
    stream = events.stream[ops]
    kind = events.code[ops] - _CODE["kernel"]  # kernel, copy, set stand in this order
    return pa.table(
        [
            pa.array(np.arange(len(ops))),
            _dictionary(kind, names.OP_KINDS, np.int8),
            _dictionary(codes, texts, np.int32),
            pa.array(_device(events, ops).astype(np.int32)),
            pa.array(np.where(stream == ABSENT, 0, stream)),
            pa.array(doc.ts_ns[ops]),
            pa.array(end),
            _nullable(doc.correlation[ops]),
            pa.nulls(len(ops), pa.int64()),
            _nullable(doc.graph_node[ops]),
            _nullable(doc.bytes[ops]),
        ],
        schema=schema.OPS,
    )


def _call_table(events: _Events, calls: Ints) -> pa.Table:
    doc = events.document
    codes, texts = _names(doc, calls)
    return pa.table(
        [
            pa.array(np.arange(len(calls))),
            _kinds_by_name(codes, texts, names.call_kind, names.CALL_KINDS),
            _dictionary(codes, texts, np.int32),
            pa.array(events.pid[calls]),
            pa.array(events.tid[calls]),
            pa.array(doc.ts_ns[calls]),
            pa.array(events.end[calls]),
            _nullable(doc.correlation[calls]),
        ],
        schema=schema.CALLS,
    )


def _range_table(events: _Events, ranges: Ints) -> pa.Table:
    doc = events.document
    codes, texts = _names(doc, ranges)
    module = np.array([text.startswith(names.MODULE_PREFIX) for text in texts] or [False])
    lut = np.zeros(len(_CLASSES), dtype=np.int8)
    for name in ("annotation", "operator", "frame"):
        lut[_CODE[name]] = names.RANGE_KINDS.index(name)
    kind = lut[events.code[ranges]]
    frame, as_module = names.RANGE_KINDS.index("frame"), names.RANGE_KINDS.index("module")
    kind = np.where((kind == frame) & module[codes], np.int8(as_module), kind)
    return pa.table(
        [
            pa.array(np.arange(len(ranges))),
            _dictionary(kind, names.RANGE_KINDS, np.int8),
            _dictionary(codes, texts, np.int32),
            pa.array(events.pid[ranges]),
            pa.array(events.tid[ranges]),
            pa.array(doc.ts_ns[ranges]),
            pa.array(events.end[ranges]),
        ],
        schema=schema.RANGES,
    )


_TRACK_ARGS: Final = {
    "process_name": "name",
    "thread_name": "name",
    "process_labels": "labels",
}


def _track_table(events: _Events, chosen: slice | Ints) -> pa.Table:
    """Names of processes and threads from metadata events, and the texts used as ids."""
    doc = events.document
    rows: list[tuple[int, int | None, str, str]] = []
    wanted = np.ones(len(doc.ph), dtype=np.bool_)
    if not isinstance(chosen, slice):
        wanted[:] = False
        wanted[chosen] = True
    for at, text in zip(doc.args_event.tolist(), doc.args_text, strict=True):
        if doc.ph[at] != _M or not wanted[at]:
            continue
        name = doc.names[doc.name[at]] if doc.name[at] >= 0 else ""
        key = _TRACK_ARGS.get(name)
        label = _args(text).get(key) if key else None
        if isinstance(label, str):
            tid = int(events.tid[at]) if name == "thread_name" else None
            rows.append((int(events.pid[at]), tid, label[:1000], name))
    used = (events.code > 0) & wanted
    for index, text in enumerate(doc.texts):
        code = TEXT_ID_BASE - index
        if (events.pid[used] == code).any():
            rows.append((code, None, text, "pid_text"))
        for pid in np.unique(events.pid[used & (events.tid == code)]).tolist():
            rows.append((pid, code, text, "tid_text"))
    unique = list(dict.fromkeys(rows))
    columns = list(zip(*unique, strict=True)) or [()] * 4
    fields = np.array([names.TRACK_FIELDS.index(text) for text in columns[3]], dtype=np.int8)
    return pa.table(
        [
            pa.array(columns[0], pa.int64()),
            pa.array(columns[1], pa.int64()),
            pa.array(columns[2], pa.string()),
            _dictionary(fields, names.TRACK_FIELDS, np.int8),
        ],
        schema=schema.TRACKS,
    )


def _args(text: bytes) -> dict[str, Any]:
    """The args of one event; empty when they cannot be read."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# --- facts ----------------------------------------------------------------------------------


def _facts(
    events: _Events,
    header: Header,
    source: Source,
    chosen: slice | Ints,
    label: str | None,
    rank: int | None,
    tables: dict[str, pa.Table],
    tracks: pa.Table,
) -> dict[str, Any]:
    doc = events.document
    flags, code = doc.flags[chosen], events.code[chosen]
    timed = (code > 0) & ((flags & HAS_TS) != 0)
    starts, durs = doc.ts_ns[chosen][timed], doc.dur_ns[chosen][timed]
    absolute = bool(len(starts)) and int(starts.max()) > ABSOLUTE_NS
    base = 0 if absolute else header.clock_base_ns
    reprinted = (flags & (ODD_DECIMALS | ROUNDED)) != 0
    lost = int((reprinted & (doc.ts_ns[chosen] > FLOAT_SAFE_NS)).sum())
    whole = not ((starts % 1000).any() or (durs % 1000).any())
    coarse = bool(lost) or (whole and header.clock_base_ns is None)
    categories = _category_counts(doc, chosen)
    frames = categories.get("python_function", 0) + doc.dropped.get("python_function", 0)
    return {
        "rank": rank,
        "world_size": header.world_size,
        "backend": header.backend,
        "groups": header.groups,
        "devices": header.devices,
        "versions": header.versions,
        "switches": header.switches,
        "with_stack": header.switches.get("with_stack", False),
        "clock_base_ns": base,
        "clock_base_ignored": absolute and header.clock_base_ns is not None,
        "absolute_times": absolute,
        "resolution_ns": 1000 if coarse else 1,
        "precision_lost_events": lost,
        "window_end_ns": None if doc.truncated else _window_end(doc, chosen),
        "truncated": doc.truncated,
        "has_header": not doc.is_array,
        "label": label,
        "path": source.path,
        "reader": source.reader,
        "has_frames": frames > 0,
        "frames_share": frames / doc.events if doc.events else 0.0,
        "events": doc.events,
        "categories": categories,
        "scan_dropped": dict(doc.dropped),
        "replaced_names": doc.replaced_names,
        "repaired_events": int(((flags & REPAIRED) != 0).sum()),
        "nulled_events": int(((flags & NULLED) != 0).sum()),
        "odd_id_events": int(((flags & NOT_INTEGER) != 0).sum()),
        "producer": _producer(tables, tracks),
        "is_rocm": header.is_rocm or _uses_hip(tables["calls"]),
        "event_bytes": doc.event_bytes,
        "structure_bytes": doc.structure_bytes,
        "skipped_bytes": doc.skipped_bytes,
        "offset": doc.start,
    }


def _category_counts(doc: Document, chosen: slice | Ints) -> dict[str, int]:
    """Kept events by category; ph X bare, others as `ph:category`, no category as `-`."""
    width = len(doc.cats) + 1
    both = doc.ph[chosen].astype(np.int64) * width + (doc.cat[chosen] + 1)
    values, counts = np.unique(both, return_counts=True)
    found: dict[str, int] = {}
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        phase, cat = chr(value // width), value % width - 1
        name = doc.cats[cat] if cat >= 0 else "-"
        found[name if phase == "X" else f"{phase}:{name}"] = count
    return found


def _window_end(doc: Document, chosen: slice | Ints) -> int | None:
    """Time of the instant that Kineto writes when the recording window closes."""
    if WINDOW_END not in doc.names:
        return None
    marks = (doc.ph[chosen] == _I) & (doc.name[chosen] == doc.names.index(WINDOW_END))
    times = doc.ts_ns[chosen][marks]
    times = times[times != ABSENT]
    return int(times.max()) if len(times) else None


def _producer(tables: dict[str, pa.Table], tracks: pa.Table) -> str | None:
    """The engine that wrote the trace, from process names, then from range names."""
    labels = tracks.column("label").to_pylist()
    for mark, engine in names.PROCESS_MARKS:
        if any(mark in label for label in labels):
            return engine
    texts = _dictionary_values(tables["ranges"])
    for mark, engine in names.RANGE_MARKS:
        if any(mark in text for text in texts):
            return engine
    return None


def _uses_hip(calls: pa.Table) -> bool:
    return any(text.startswith("hip") for text in _dictionary_values(calls))


def _dictionary_values(table: pa.Table) -> list[str]:
    column = table.column("name")
    return column.chunk(0).dictionary.to_pylist() if column.num_chunks else []


def _source_table(
    source: Source, header: Header, facts: dict[str, Any], label: str | None
) -> pa.Table:
    dropped = {
        name: count
        for name, count in facts["categories"].items()
        if name.removeprefix("B:").removeprefix("E:") not in names.CATEGORIES and name != "M:-"
    }
    for name, count in facts["scan_dropped"].items():
        dropped[name] = dropped.get(name, 0) + count
    row = {
        "path": source.path if label is None else f"{source.path} [{label}]",
        "format": source.format,
        "producer": facts["producer"],
        "bytes": source.bytes,
        "text_bytes": source.text_bytes,
        "fingerprint": source.fingerprint,
        "rank": facts["rank"],
        "world_size": facts["world_size"],
        "groups": json.dumps(header.groups, sort_keys=True) if header.groups else None,
        "devices": json.dumps(header.devices) if header.devices else None,
        "clock_base_ns": facts["clock_base_ns"],
        "resolution_ns": facts["resolution_ns"],
        "events": facts["events"],
        "dropped": json.dumps(dropped, sort_keys=True),
    }
    return pa.Table.from_pylist([row], schema=schema.SOURCES)
