"""The metadata that torch.distributed leaves on operators and kernels, as a side table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import schema
from .kineto_events import Events
from .kineto_names import DTYPE_BYTES
from .kineto_tables import read_args, rows_of

Ints = npt.NDArray[np.int64]


def collective_table(events: Events, ops: Ints, ranges: Ints) -> tuple[pa.Table, Ints]:
    """Rows for the events with collective arguments among `ops` and `ranges` (ascending).

    Returns the table and the offsets of events whose arguments could not be read.
    """
    doc = events.document
    event, there = rows_of(events.row, doc.args_event)
    op_row, is_op = rows_of(ops, event)
    range_row, is_range = rows_of(ranges, event)
    rows: list[dict[str, Any]] = []
    unreadable: list[int] = []
    for position in np.flatnonzero(there & (is_op | is_range)).tolist():
        args = read_args(doc.args_text[position])
        if not args:
            unreadable.append(int(events.offset[event[position]]))
            continue
        rows.append(
            _row(args)
            | {
                "op_id": int(op_row[position]) if is_op[position] else None,
                "range_id": int(range_row[position]) if is_range[position] else None,
            }
        )
    table = pa.Table.from_pylist(rows, schema=schema.COLLECTIVES)
    return table, np.array(unreadable, dtype=np.int64)


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
