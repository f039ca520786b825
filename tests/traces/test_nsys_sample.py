"""The recording under tests/data/nsys-own-cpu: whole, the same in three forms, nothing private."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

PLACE = Path(__file__).resolve().parents[1] / "data" / "nsys-own-cpu"
EXPECTED = json.loads((PLACE / "expected.json").read_text("utf-8"))
PRIVATE = re.compile(
    rb"/root|/home|/tmp|/work|\.cache|[A-Z]_TOKEN|API_KEY|ssl/certs|SPECSCOPE_", re.I
)
FILES = sorted(path for path in PLACE.rglob("*") if path.is_file() and path.suffix != ".md")
COLUMNS = ("start", "end", "eventType", "globalTid", "textId", "domainId", "int64Value")

Rows = list[tuple[Any, ...]]


def of_sqlite(table: str, columns: tuple[str, ...]) -> Rows:
    connection = sqlite3.connect(PLACE / "sample.sqlite")
    try:
        names = ", ".join(f'"{name}"' for name in columns)
        return list(connection.execute(f"select {names} from {table}"))
    finally:
        connection.close()


def of_parquet(table: str, columns: tuple[str, ...]) -> Rows:
    return rows(pq.read_table(PLACE / "sample_pqtdir" / f"{table}.parquet"), columns)


def of_arrow(table: str, columns: tuple[str, ...]) -> Rows:
    with pa.ipc.open_stream(PLACE / "sample_arwdir" / f"{table}.arrow") as reader:
        return rows(reader.read_all(), columns)


def rows(table: pa.Table, columns: tuple[str, ...]) -> Rows:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize("form", [of_sqlite, of_parquet, of_arrow])
def test_each_form_holds_the_ranges_that_are_expected(form: Any) -> None:
    names = dict(form("StringIds", ("id", "value")))
    counts: dict[str, Counter[str]] = {}
    for _, _, kind, thread, text, *_ in form("NVTX_EVENTS", COLUMNS):
        if kind == 59:
            counts.setdefault(str(thread >> 24 & 0xFFFFFF), Counter())[names[text]] += 1
    assert counts == {pid: worker["ranges"] for pid, worker in EXPECTED["workers"].items()}


@pytest.mark.parametrize("form", [of_parquet, of_arrow])
def test_the_forms_hold_the_same_events(form: Any) -> None:
    assert sorted(form("NVTX_EVENTS", COLUMNS), key=str) == sorted(
        of_sqlite("NVTX_EVENTS", COLUMNS), key=str
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PLACE)))
def test_nothing_private_is_in_it_and_no_file_is_large(path: Path) -> None:
    content = path.read_bytes()
    assert not PRIVATE.search(content)
    assert len(content) < 200_000
