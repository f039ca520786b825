"""Kineto documents of a few events, read into tables."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from specscope.traces import kineto
from specscope.traces.events import ScanOptions
from specscope.traces.kineto_names import FRAME_NEEDLES
from specscope.traces.run import RankTables
from specscope.traces.scan import scan

ALL_FRAMES = ScanOptions(all_frames=True)
DEFAULT = ScanOptions(frame_needles=FRAME_NEEDLES)


def read(text: bytes | Path, options: ScanOptions = DEFAULT) -> list[RankTables]:
    source = kineto.Source("x.json", "kineto-json", 1, 1, "f", "native")
    return kineto.rank_tables(scan(text, options), source)


def one(*events: dict[str, Any], options: ScanOptions = DEFAULT, **header: Any) -> RankTables:
    (tables,) = read(document(*events, **header), options)
    return tables


def document(*events: dict[str, Any], **header: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}).encode()


def event(cat: str, name: str = "n", ts: Any = 10.5, dur: Any = 1.0, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur} | more


def gpu(ts: Any, dur: Any, correlation: int, stream: int = 7, **more: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": stream, "correlation": correlation}
    return event("kernel", "k", ts, dur, pid=0, tid=stream, args=args) | more


def launch(ts: Any, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    return event("cuda_runtime", name, ts, 1.0, args={"correlation": correlation})


def reasons(tables: RankTables) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in tables.losses.to_pylist():
        found[row["reason"]] += row["count"]
    return dict(found)


def columns(tables: RankTables, table: str, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(getattr(tables, table)[name].to_pylist() for name in names), strict=True))
