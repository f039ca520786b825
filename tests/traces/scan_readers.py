"""Runs a test with each reader there is, and reads small texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specscope.traces.events import ABSENT, TEXT_ID_BASE, Document, ScanOptions
from specscope.traces.scan import reader_name, scan

HAS_NATIVE = reader_name() == "native"
NATIVE = pytest.param(
    "native", marks=pytest.mark.skipif(not HAS_NATIVE, reason="the extension is not built")
)
each_reader = pytest.mark.parametrize("reader", [NATIVE, "pure"])
needs_native = pytest.mark.skipif(not HAS_NATIVE, reason="the extension is not built")


def one(text: str | bytes, reader: str, **options: Any) -> Document:
    """The only document of a text."""
    raw = text.encode() if isinstance(text, str) else text
    (document,) = scan(raw, ScanOptions(**options), reader=reader)
    return document


def wrap(*events: str) -> str:
    """A trace file around the texts of events."""
    return '{\n  "schemaVersion": 1,\n  "traceEvents": [\n  ' + ",\n  ".join(events) + "\n  ]\n}"


def names(document: Document) -> list[str | None]:
    """The name of each kept event."""
    return [document.names[i] if i >= 0 else None for i in document.name]


def reasons(document: Document) -> list[str]:
    """The reason of each loss."""
    return [loss.reason for loss in document.losses]


def track(document: Document, code: int) -> Any:
    """A pid or tid as the file has it."""
    if code == ABSENT:
        return None
    return document.texts[TEXT_ID_BASE - code] if code <= TEXT_ID_BASE else int(code)


def plain(name: str = "aten::mm", **members: Any) -> str:
    """One event as minified JSON; ts and dur are given as they shall be printed."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2} | members
    ts = event.pop("ts", "5.000")
    dur = event.pop("dur", "1.000")
    return json.dumps(event)[:-1] + f', "ts": {ts}, "dur": {dur}}}'
