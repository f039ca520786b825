"""Small exports of Nsight Systems, drawn table by table, and the recorded ones by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specscope.traces import nsys
from specscope.traces.run import RankTables
from tests.shared import shared_path

# A row by column; the columns of a table are those of all its rows.
Row = Mapping[str, Any]
PID = 3000
VM = 1 << 48


def tid(number: int = PID, pid: int = PID) -> int:
    """Global id of a thread."""
    return VM | (pid << 24) | number


def pid(number: int = PID) -> int:
    """Global id of a process."""
    return VM | (number << 24)


def write(path: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """An SQLite export with these tables; columns without a type, as values decide it."""
    with sqlite3.connect(path) as connection:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(name for row in rows for name in row)) or ["id"]
            names = ", ".join(f'"{name}"' for name in columns)
            connection.execute(f'CREATE TABLE "{table}" ({names})')
            marks = ", ".join("?" * len(columns))
            connection.executemany(
                f'INSERT INTO "{table}" VALUES ({marks})',
                [[row.get(name) for name in columns] for row in rows],
            )
    connection.close()
    return path


def strings(*texts: str) -> list[Row]:
    """The table of strings: the id of a text is its place, from 1."""
    return [{"id": place, "value": text} for place, text in enumerate(texts, 1)]


def kernel(start: int, end: int, correlation: int, name: int, **more: Any) -> Row:
    """One kernel."""
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": pid(),
        "demangledName": name,
        **more,
    }


def call(start: int, end: int, correlation: int, name: int, **more: Any) -> Row:
    """One runtime call."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": tid(),
        "correlationId": correlation,
        "nameId": name,
        **more,
    }


def nvtx(start: int, end: int | None, text: str | None, **more: Any) -> Row:
    """One push-pop range."""
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "globalTid": tid(),
        "domainId": 0,
        **more,
    }


def read(path: Path) -> list[RankTables]:
    """The ranks of one export."""
    return nsys.read(path, "fingerprint")


def recorded(*parts: str) -> list[RankTables]:
    """The ranks of one recorded export under ../shared/traces."""
    return read(shared_path("traces", *parts))


# One kernel and its launch, the least that is a rank.
LAUNCH = {
    "StringIds": strings("cudaLaunchKernel_v7000", "gemm"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": [call(100, 110, 1, 1)],
    "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(120, 150, 1, 2)],
}
