"""The wide tables of one rank, and the tracks, cut from its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import kineto_names as names
from . import schema
from .events import ABSENT, TEXT_ID_BASE
from .kineto_events import CLASSES, CODE, META, Events, is_text

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

# Longest label kept of a process or thread.
LABEL_LENGTH: Final = 1000

# Metadata events that name a track, and the argument that holds the name.
_TRACK_ARGS: Final = {
    "process_name": "name",
    "thread_name": "name",
    "process_labels": "labels",
}


def op_table(events: Events, ops: Ints, ends: Callable[[], Ints]) -> pa.Table:
    """Table `ops` of the GPU work at `ops`; its repaired `ends` are asked for last."""
    codes, texts = _names(events, ops)
    kind = events.code[ops] - CODE["kernel"]  # kernel, copy, set stand in the order of OP_KINDS
    device = events.device[ops]
    np.clip(device, -(1 << 31), (1 << 31) - 1, out=device)
    stream = events.stream[ops]
    stream[stream == ABSENT] = 0
    columns = {
        "op_id": pa.array(np.arange(len(ops))),
        "kind": _dictionary(kind, names.OP_KINDS, np.int8),
        "name": _dictionary(codes, texts, np.int32),
        "device": pa.array(device.astype(np.int32)),
        "stream": pa.array(stream),
        "start_ns": pa.array(events.start[ops]),
        "correlation": _nullable(events.correlation[ops]),
        "call_id": pa.nulls(len(ops), pa.int64()),
        "graph_node": _nullable(events.graph_node[ops]),
        "bytes": _nullable(events.bytes[ops]),
    }
    columns["end_ns"] = pa.array(ends())
    return pa.table([columns[name] for name in schema.OPS.names], schema=schema.OPS)


def call_table(events: Events, calls: Ints) -> pa.Table:
    """Table `calls` of the runtime and driver calls at `calls`."""
    codes, texts = _names(events, calls)
    return pa.table(
        [
            pa.array(np.arange(len(calls))),
            _kinds_by_name(codes, texts, names.call_kind, names.CALL_KINDS),
            _dictionary(codes, texts, np.int32),
            pa.array(events.pid[calls]),
            pa.array(events.tid[calls]),
            pa.array(events.start[calls]),
            pa.array(events.end[calls]),
            _nullable(events.correlation[calls]),
        ],
        schema=schema.CALLS,
    )


def range_table(events: Events, ranges: Ints) -> pa.Table:
    """Table `ranges` of the annotations, operators and frames at `ranges`."""
    codes, texts = _names(events, ranges)
    lut = np.zeros(len(CLASSES), dtype=np.int8)
    for name in ("annotation", "operator", "frame"):
        lut[CODE[name]] = names.RANGE_KINDS.index(name)
    kind = lut[events.code[ranges]]
    module = np.array([text.startswith(names.MODULE_PREFIX) for text in texts] or [False])
    is_module = module[codes] & (kind == names.RANGE_KINDS.index("frame"))
    kind[is_module] = names.RANGE_KINDS.index("module")
    return pa.table(
        [
            pa.array(np.arange(len(ranges))),
            _dictionary(kind, names.RANGE_KINDS, np.int8),
            _dictionary(codes, texts, np.int32),
            pa.nulls(len(ranges), schema.NAME),
            pa.array(events.pid[ranges]),
            pa.array(events.tid[ranges]),
            pa.array(events.start[ranges]),
            pa.array(events.end[ranges]),
        ],
        schema=schema.RANGES,
    )


def track_table(events: Events) -> pa.Table:
    """Names of processes and threads from metadata events, and the texts used as ids."""
    rows = [*_named_tracks(events), *_text_tracks(events)]
    columns = list(zip(*dict.fromkeys(rows), strict=True)) or [()] * 4
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


_TrackRow = tuple[int, int | None, str, str]


def _named_tracks(events: Events) -> list[_TrackRow]:
    doc = events.document
    rows: list[_TrackRow] = []
    at, there = rows_of(events.row, doc.args_event)
    is_name = there & (doc.ph[doc.args_event] == META)
    for position in np.flatnonzero(is_name).tolist():
        event = int(at[position])
        name = doc.names[events.name[event]] if events.name[event] >= 0 else ""
        key = _TRACK_ARGS.get(name)
        label = read_args(doc.args_text[position]).get(key) if key else None
        if isinstance(label, str):
            tid = int(events.tid[event]) if name == "thread_name" else None
            rows.append((int(events.pid[event]), tid, label[:LABEL_LENGTH], name))
    return rows


def _text_tracks(events: Events) -> list[_TrackRow]:
    texts = events.document.texts
    if not texts:
        return []
    odd = np.flatnonzero((is_text(events.pid) | is_text(events.tid)) & (events.code > 0))
    pid, tid = events.pid[odd], events.tid[odd]
    rows: list[_TrackRow] = [
        (code, None, texts[TEXT_ID_BASE - code], "pid_text")
        for code in np.unique(pid[is_text(pid)]).tolist()
    ]
    text = is_text(tid)
    pairs = np.unique(np.stack([pid[text], tid[text]], axis=1), axis=0)
    rows += [
        (owner, code, texts[TEXT_ID_BASE - code], "tid_text") for owner, code in pairs.tolist()
    ]
    return rows


def rows_of(index: Ints, wanted: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Place of each wanted value in the ascending `index`, and whether it is there."""
    place = np.searchsorted(index, wanted)
    there = np.zeros(len(wanted), dtype=np.bool_)
    inside = place < len(index)
    there[inside] = index[place[inside]] == wanted[inside]
    return place, there


def read_args(text: bytes) -> dict[str, Any]:
    """The args of one event; empty when they cannot be read."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _names(events: Events, index: Ints) -> tuple[Codes, list[str]]:
    """Codes into the list of the distinct names that these events use, and that list."""
    texts = events.document.names
    codes = events.name[index]
    used = np.zeros(len(texts) + 1, dtype=np.bool_)  # the last entry: no name (-1)
    used[codes] = True
    present = np.flatnonzero(used)
    found = [texts[code] if code < len(texts) else "" for code in present.tolist()]
    # Different bytes may read as the same text (escapes, replacements): one entry each.
    place = {text: at for at, text in enumerate(dict.fromkeys(found))}
    remap = np.zeros(len(used), dtype=np.int32)
    remap[present] = [place[text] for text in found]
    return remap[codes], list(place)


def _dictionary(codes: npt.NDArray[Any], values: Sequence[str], index_type: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(index_type, copy=False)), pa.array(values, pa.string())
    )


def _kinds_by_name(
    codes: Codes, texts: list[str], kind_of: Callable[[str], str], kinds: tuple[str, ...]
) -> pa.Array:
    """A kind for each event, worked out once a distinct name."""
    lut = np.array([kinds.index(kind_of(text)) for text in texts] or [0], dtype=np.int8)
    return _dictionary(lut[codes], kinds, np.int8)


def _nullable(values: Ints) -> pa.Array:
    missing = values == ABSENT
    count = int(np.count_nonzero(missing))
    if count == len(values):
        return pa.nulls(count, pa.int64())
    return pa.array(values, mask=missing) if count else pa.array(values)
