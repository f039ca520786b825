"""The tables of one rank (schemas in `traces.schema`) from the rows of its process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import schema
from .events import ABSENT
from .kineto_names import CALL_KINDS, OP_KINDS, RANGE_KINDS, TRACK_FIELDS, call_kind
from .nsys_rows import FORMS, OPEN, PUSH_POP, Bools, Calls, Marks, Named, Ranges, Work
from .nsys_store import Ints

_TID = 0xFFFFFF


def op_table(work: Work) -> pa.Table:
    """Table `ops`."""
    columns = {
        "op_id": np.arange(len(work.start)),
        "kind": _worded(work.kind, OP_KINDS),
        "name": named(work.name),
        "device": work.device.astype(np.int32),
        "stream": work.stream,
        "start_ns": work.start,
        "end_ns": work.end,
        "correlation": nullable(work.correlation),
        "call_id": pa.nulls(len(work.start), pa.int64()),
        "graph_node": nullable(work.graph_node),
        "bytes": nullable(work.bytes),
    }
    return _table(schema.OPS, columns)


def call_table(calls: Calls) -> pa.Table:
    """Table `calls`."""
    lut = np.array([CALL_KINDS.index(call_kind(text)) for text in calls.name.texts] + [-1])
    other = CALL_KINDS.index("other")
    kind = np.where(calls.name.codes < 0, other, lut[calls.name.codes])
    columns = {
        "call_id": np.arange(len(calls.start)),
        "kind": _worded(kind, CALL_KINDS),
        "name": named(calls.name),
        "pid": pid(calls.thread),
        "tid": tid(calls.thread),
        "start_ns": calls.start,
        "end_ns": calls.end,
        "correlation": nullable(calls.correlation),
    }
    return _table(schema.CALLS, columns)


def range_table(ranges: Ranges) -> pa.Table:
    """Table `ranges`; every range has an end here."""
    operator, nvtx = RANGE_KINDS.index("operator"), RANGE_KINDS.index("nvtx")
    columns = {
        "range_id": np.arange(len(ranges.start)),
        "kind": _worded(np.where(ranges.is_operator, operator, nvtx), RANGE_KINDS),
        "name": named(ranges.name),
        "domain": named(ranges.domain, null=True),
        "pid": pid(ranges.thread),
        "tid": tid(ranges.thread),
        "start_ns": ranges.start,
        "end_ns": ranges.end,
    }
    return _table(schema.RANGES, columns)


def range_arg_table(ranges: Ranges) -> pa.Table:
    """Table `range_args`: of the ranges that are more than a push and a pop with a name."""
    other_end = ranges.end_thread != ABSENT
    has_text = ranges.payload_text.codes >= 0
    has_real = ~np.isnan(ranges.payload_float)
    rare = (ranges.form != PUSH_POP) | (ranges.category != ABSENT) | other_end
    rare |= (ranges.payload_int != ABSENT) | has_real | has_text
    rows = np.flatnonzero(rare)
    ended = ranges.end_thread[rows]
    columns = {
        "range_id": rows,
        "form": _worded(ranges.form[rows], FORMS),
        "end_pid": pa.array(pid(ended), mask=ended == ABSENT),
        "end_tid": pa.array(tid(ended), mask=ended == ABSENT),
        "category": nullable(ranges.category[rows]),
        "payload_int": nullable(ranges.payload_int[rows]),
        "payload_float": pa.array(ranges.payload_float[rows], mask=~has_real[rows]),
        "payload_text": named(ranges.payload_text.take(rows), null=True).cast(pa.string()),
    }
    return _table(schema.RANGE_ARGS, columns)


def mark_table(marks: Marks) -> pa.Table:
    """Table `marks`."""
    columns = {
        "mark_id": np.arange(len(marks.time)),
        "name": named(marks.name),
        "domain": named(marks.domain, null=True),
        "pid": pid(marks.thread),
        "tid": tid(marks.thread),
        "time_ns": marks.time,
    }
    return _table(schema.MARKS, columns)


def track_table(rows: Sequence[tuple[int, int | None, str, str]]) -> pa.Table:
    """Table `tracks` from (pid, tid or None for the process, label, field)."""
    columns = list(zip(*dict.fromkeys(rows), strict=True)) or [()] * 4
    fields = np.array([TRACK_FIELDS.index(text) for text in columns[3]], np.int32)
    return pa.table(
        [
            pa.array(columns[0], pa.int64()),
            pa.array(columns[1], pa.int64()),
            pa.array(columns[2], pa.string()),
            _worded(fields, TRACK_FIELDS),
        ],
        schema=schema.TRACKS,
    )


def pid(thread: Ints) -> Ints:
    """Process id of global thread ids; 0 for ABSENT."""
    return np.where(thread == ABSENT, 0, (thread >> 24) & _TID)


def tid(thread: Ints) -> Ints:
    """Thread id of global thread ids; 0 for ABSENT."""
    return np.where(thread == ABSENT, 0, thread & _TID)


def closed(ranges: Ranges, stop: int) -> Ints:
    """The end of each range; those without one stay open until the recording ends at `stop`."""
    return np.where(ranges.form == OPEN, np.maximum(ranges.start, stop), ranges.end)


def nullable(values: Ints) -> pa.Array:
    """Integers with ABSENT as null."""
    missing = values == ABSENT
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def named(name: Named, *, null: bool = False) -> pa.DictionaryArray:
    """Texts that are used as a dictionary column; no text is null, or the empty one."""
    used = np.zeros(len(name.texts) + 1, np.bool_)  # the last entry: no text
    used[name.codes] = True
    kept = np.flatnonzero(used[:-1])
    lut = np.full(len(used), -1, np.int32)
    lut[kept] = np.arange(len(kept))
    codes = lut[name.codes]
    texts = [name.texts[code] for code in kept.tolist()]
    if not null and used[-1]:
        empty = texts.index("") if "" in texts else len(texts)
        texts += [""] if empty == len(texts) else []
        codes = np.where(codes < 0, empty, codes).astype(np.int32)
    mask = codes < 0
    indices = pa.array(codes, mask=mask) if mask.any() else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _worded(codes: npt.NDArray[np.signedinteger], words: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int8)), pa.array(words, pa.string())
    )


def _table(wanted: pa.Schema, columns: dict[str, pa.Array | Ints | Bools]) -> pa.Table:
    return pa.table([pa.array(columns[name]) for name in wanted.names], schema=wanted)
