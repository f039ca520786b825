"""What is measured, each in a process of its own: `python workers.py NAME '{"path": ...}'`.

A worker imports first, reads a small trace so that nothing is loaded or compiled later, and only
then starts its clocks. It prints one line of JSON. CPU seconds are those of all threads of the
process, user and system; peak memory is the high-water mark above what the process held when
the clocks started.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Measured = dict[str, Any]
WORKERS: Final[dict[str, Callable[..., Measured]]] = {}


def worker(function: Callable[..., Measured]) -> Callable[..., Measured]:
    """Registers a worker under its own name."""
    WORKERS[function.__name__] = function
    return function


class Clock:
    """CPU seconds, wall seconds and peak memory of a `with` block that may need that memory."""

    def __init__(self, memory: int = 0):
        self._memory = memory

    def __enter__(self) -> Clock:
        touch(self._memory)
        self._held = _resident("VmRSS")
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        except OSError:
            self._held = max(self._held, _resident("VmHWM"))
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = time.process_time() - self._cpu
        self.wall_s = time.perf_counter() - self._wall
        self.peak_bytes = _resident("VmHWM") - self._held
        self.held_bytes = _resident("VmRSS") - self._held

    def measured(self, **more: Any) -> Measured:
        """As a dictionary, with `more`."""
        names = ("cpu_s", "wall_s", "peak_bytes", "held_bytes")
        return {name: getattr(self, name) for name in names} | more


def _resident(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def touch(memory: int) -> None:
    """Write once to that many free bytes, and free them again.

    A virtual machine whose free pages go back to the host gets each anew when it writes to it. That
    wait counts as CPU time of the writer: some 2 seconds a gigabyte, more than reading takes.
    """
    if memory:
        with mmap.mmap(-1, memory) as held:
            for page in range(0, memory, mmap.PAGESIZE):
                held[page] = 1


def needed(path: str, times: float) -> int:
    """Free bytes for something that takes that many times the text, as far as there are any.

    Up to 1 GB more, since what is freed last need not be what is handed out next.
    """
    files = Path(path).iterdir() if Path(path).is_dir() else [Path(path)]
    text = sum(file.stat().st_size for file in files) * (25 if path.endswith(".gz") else 1)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min(text * times + min(2 * text, 1_000_000_000), free * 0.8))


def pin(cores: int) -> None:
    """Use that many cores at most."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[-cores:]))


# ---- specscope


@worker
def read(path: str, small: str, cores: int = 1, verdict: bool = False) -> Measured:
    """Text to tables in memory, and with `verdict` from there to a report."""
    pin(cores)
    from specscope.analyzers.analyze import analyze
    from specscope.traces.load import load
    from specscope.traces.scan import reader_name

    report = analyze(load(small, cache=False))
    with Clock(needed(path, 0.6)) as clock:
        run = load(path, cache=False)
    found = clock.measured(reader=reader_name(), events=run.ranks[0].facts["events"])
    if verdict:
        with Clock() as clock:
            report = analyze(run)
        found["verdict"] = clock.measured(sentence=report.verdict.sentence)
    return found


@worker
def scan(path: str, small: str, cores: int = 1) -> Measured:
    """Text to columns, without tables."""
    pin(cores)
    from specscope.traces.events import ScanOptions
    from specscope.traces.kineto_names import FRAME_NEEDLES
    from specscope.traces.scan import scan as scan_text

    options = ScanOptions(frame_needles=FRAME_NEEDLES, threads=cores)
    scan_text(Path(small), options)
    with Clock(needed(path, 0.6)) as clock:
        documents = scan_text(Path(path), options)
    return clock.measured(events=documents[-1].events)


@worker
def inflate(path: str, small: str, cores: int = 1) -> Measured:
    """Gzip to text in the pieces that the reader takes, and nothing done with the text."""
    pin(cores)
    from specscope.traces.text import gzip_blocks

    size = 0
    with Path(path).open("rb") as file, Clock() as clock:
        for block in gzip_blocks(file, b""):
            if isinstance(block, bytes):
                size += len(block)
    return clock.measured(text_bytes=size)


@worker
def nsys(path: str, small: str, cores: int = 2) -> Measured:
    """An export of Nsight Systems to tables, and every op to its launch."""
    pin(cores)
    from specscope.analyzers import activities, rank
    from specscope.traces.load import load

    rules = activities.load_rules()
    rank.prepare(load(small, cache=False).ranks[0], rules)
    with Clock(needed(path, 4)) as clock:
        (tables,) = load(path, cache=False).ranks
        linked = int((rank.prepare(tables, rules).ops.call >= 0).sum())
    return clock.measured(events=tables.facts["events"], linked=linked)


# ---- peers


@worker
def nsys_pandas(path: str, small: str) -> Measured:
    """The same columns by sqlite3 into pandas, and launches to ranges by a join in SQL."""
    pin(1)
    import sqlite3

    import pandas as pd

    columns = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, "
        "globalPid, demangledName, graphNodeId",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
        "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid, domainId",
    }
    join = (
        "SELECT count(*) FROM NVTX_EVENTS n JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON r.globalTid = n.globalTid AND r.start >= n.start AND r.start < n.end "
        "JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId"
    )
    with sqlite3.connect(":memory:") as connection:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as source:
            source.backup(connection)
        with Clock(needed(path, 8)) as clock:
            frames = [
                pd.read_sql_query(f"SELECT {named} FROM {table}", connection)
                for table, named in columns.items()
            ]
        with Clock() as joining:
            connection.execute("CREATE INDEX r ON CUPTI_ACTIVITY_KIND_RUNTIME (globalTid, start)")
            connection.execute("CREATE INDEX k ON CUPTI_ACTIVITY_KIND_KERNEL (correlationId)")
            ((pairs,),) = connection.execute(join).fetchall()
    return clock.measured(events=sum(map(len, frames)), join=joining.measured(pairs=pairs))


@worker
def json_pandas(path: str, small: str) -> Measured:
    """`json.load` and a pandas frame of the events."""
    pin(1)
    import pandas as pd

    def frame(file: str) -> int:
        with Path(file).open("rb") as opened:
            return len(pd.DataFrame(json.load(opened)["traceEvents"]))

    frame(small)
    with Clock(needed(path, 12)) as clock:
        rows = frame(path)
    return clock.measured(events=rows)


@worker
def hta(path: str, small: str) -> Measured:
    """HolisticTraceAnalysis with its default reader; needs an interpreter that has it."""
    pin(1)
    import logging
    from importlib.metadata import version

    from hta.common.trace import parse_trace_file  # type: ignore[import-not-found]

    logging.disable(logging.CRITICAL)
    parse_trace_file(small)
    with Clock(needed(path, 12)) as clock:
        _, frame, *_ = parse_trace_file(path)
    return clock.measured(events=len(frame), version=version("HolisticTraceAnalysis"))


def main() -> int:
    """Run the worker that is named, with the arguments given as JSON."""
    name, arguments = sys.argv[1:3]
    print(json.dumps(WORKERS[name](**json.loads(arguments))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
