"""The metadata that torch.distributed leaves on operators and kernels, as a side table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import schema
from .events import Document
from .kineto_names import DTYPE_BYTES

Ints = npt.NDArray[np.int64]


def collective_table(doc: Document, ops: Ints, ranges: Ints) -> tuple[pa.Table, list[int]]:
    """Rows for the events with collective arguments among `ops` and `ranges` (sorted indices).

    Returns the table and the offsets of events whose arguments could not be read.
    """
    wanted = doc.ph[doc.args_event] != ord("M")
    at = np.flatnonzero(wanted)
    events = doc.args_event[at]
    op_row, is_op = _rows(ops, events)
    range_row, is_range = _rows(ranges, events)
    rows: list[dict[str, Any]] = []
    unreadable: list[int] = []
    for position in np.flatnonzero(is_op | is_range).tolist():
        try:
            args = json.loads(doc.args_text[at[position]].decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            args = None
        if not isinstance(args, dict):
            unreadable.append(int(doc.offset[events[position]]))
            continue
        rows.append(
            _row(args)
            | {
                "op_id": int(op_row[position]) if is_op[position] else None,
                "range_id": int(range_row[position]) if is_range[position] else None,
            }
        )
    return pa.Table.from_pylist(rows, schema=schema.COLLECTIVES), unreadable


def _rows(index: Ints, events: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Row of each event in `index`, and whether it is there."""
    place = np.searchsorted(index, events)
    there = np.zeros(len(events), dtype=np.bool_)
    inside = place < len(index)
    there[inside] = index[place[inside]] == events[inside]
    return place, there


def _row(args: dict[str, Any]) -> dict[str, Any]:
    dtype = _text(args.get("dtype"))
    elements = _count(args.get("In msg nelems"))
    size = DTYPE_BYTES.get(dtype or "")
    moved = elements * size if elements is not None and size is not None else None
    return {
        "name": _text(args.get("Collective name")) or "",
        "group": _text(args.get("Process Group Name")),
        "ranks": _text(args.get("Process Group Ranks")),
        "sequence": _count(args.get("Seq")),
        "elements_in": elements,
        "elements_out": _count(args.get("Out msg nelems")),
        "dtype": dtype,
        "bytes": moved if moved is not None and moved < 1 << 63 else None,
    }


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)
