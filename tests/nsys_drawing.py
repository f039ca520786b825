"""A drawn trace (`tests.build`) as Nsight Systems would have exported it.

Annotations become NVTX ranges, operators the ranges of torch's `emit_nvtx`; Python frames are
left out, for Nsight records none as ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from specscope.traces.nsys_names import COPY_KINDS, MEMORY_KINDS
from tests.build import BASE_NS, Timeline
from tests.traces import nsys_files
from tests.traces.nsys_files import Row

_COPY = re.compile(r"Memcpy (\w+) \((.+) -> (.+)\)")
_COPY_NUMBER = {name: number for number, name in COPY_KINDS.items()}
_MEMORY_NUMBER = {name: number for number, name in MEMORY_KINDS.items()}


def tables(timeline: Timeline, pid: int = nsys_files.PID) -> dict[str, list[Row]]:
    """The tables of the export, each only where it has rows."""
    texts: dict[str, int] = {}
    found: dict[str, list[Row]] = {}
    for number, event in enumerate(timeline.events):
        start, args = event["ts"], event["args"]
        times = {"start": start, "end": start + event["dur"]}
        thread = nsys_files.tid(event["tid"], pid)
        made = _row(event["cat"], event["name"], number, lambda t: texts.setdefault(t, len(texts)))
        if made is None:
            continue
        table, row = made
        if table == "NVTX_EVENTS":
            row = {"globalTid": thread, "domainId": 0, **row}
        elif table.endswith("RUNTIME"):
            row = {"globalTid": thread, "correlationId": args["correlation"], **row}
        else:
            row = {
                "deviceId": args["device"],
                "contextId": 1,
                "streamId": args["stream"],
                "correlationId": args["correlation"],
                "globalPid": nsys_files.pid(pid),
                "graphNodeId": args.get("graph node id"),
                **row,
            }
        found.setdefault(table, []).append({**times, **row})
    found["StringIds"] = [{"id": number, "value": text} for text, number in texts.items()]
    found["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": BASE_NS}]
    return found


def write(path: Path, timeline: Timeline) -> Path:
    """The export as an SQLite database."""
    return nsys_files.write(path, tables(timeline))


def _row(
    category: str, name: str, number: int, text_id: Callable[[str], int]
) -> tuple[str, Row] | None:
    if category == "user_annotation":
        # Registered and plain texts in turns, as programs write both.
        text = {"text": name} if number % 2 else {"textId": text_id(name)}
        return "NVTX_EVENTS", {"eventType": 59, **text}
    if category == "cpu_op":
        return "NVTX_EVENTS", {"eventType": 59, "text": f"{name}, op_id = {number}"}
    if category in ("cuda_runtime", "cuda_driver"):
        versioned = f"{name}_v11060" if category == "cuda_runtime" else name
        return "CUPTI_ACTIVITY_KIND_RUNTIME", {"nameId": text_id(versioned), "eventClass": 0}
    if category == "kernel":
        return "CUPTI_ACTIVITY_KIND_KERNEL", {"demangledName": text_id(name)}
    if category == "gpu_memcpy":
        match = _COPY.fullmatch(name)
        assert match, name
        kinds = {
            "copyKind": _COPY_NUMBER[match[1]],
            "srcKind": _MEMORY_NUMBER[match[2]],
            "dstKind": _MEMORY_NUMBER[match[3]],
        }
        return "CUPTI_ACTIVITY_KIND_MEMCPY", {"bytes": 64, **kinds}
    if category == "gpu_memset":
        return "CUPTI_ACTIVITY_KIND_MEMSET", {"bytes": 64, "memKind": 2}
    assert category == "python_function", category
    return None
