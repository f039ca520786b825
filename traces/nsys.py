"""Exports of Nsight Systems into the tables of one rank each.

One export may hold all ranks of a run: a rank is a process. Ids of launches collide between
processes, so rows are parted by process before anything is joined (docs/nsys.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from . import masking, nsys_content, nsys_facts, nsys_ranks, schema, sniff
from .events import ABSENT
from .kineto_names import PROCESS_MARKS, RANGE_MARKS
from .kineto_tables import LABEL_LENGTH
from .nsys_content import Rows
from .nsys_folder import FolderStore, is_export
from .nsys_names import META_EXPORT
from .nsys_rows import (
    LONGEST_NS,
    LONGEST_OP_NS,
    Named,
    Work,
    pid_of,
    plausible,
    process_of,
    read_calls,
    read_ranges,
    read_work,
    take,
)
from .nsys_sqlite import SqliteStore
from .nsys_store import Ints, Store
from .nsys_strings import Strings
from .nsys_tables import (
    call_table,
    closed,
    mark_table,
    op_table,
    range_arg_table,
    range_table,
    tid,
    track_table,
)
from .run import RankTables

# Tables of which an export of Nsight Systems has at least one; and what other databases have.
_OURS: Final = ("StringIds", "NVTX_EVENTS", *META_EXPORT)
_CUPTI: Final = "CUPTI_ACTIVITY_KIND_"
_FOREIGN: Final = (
    ("StringTable", _CUPTI, "a profile of the NVIDIA Visual Profiler (nvprof)"),
    ("", "rocpd_", "a rocpd database of ROCm"),
)
_MEND: Final = "give an export of Nsight Systems, or the Kineto trace of the same run"


@dataclass(frozen=True)
class Source:
    """The export that is read: its path as shown, size, and fingerprint."""

    path: str
    bytes: int
    fingerprint: str


def read(path: Path, fingerprint: str) -> list[RankTables]:
    """The ranks in the export at `path`: an SQLite database, or a folder of Parquet or Arrow.

    Raises TraceFormatError, in one line, for what is no export, and OSError.
    """
    store = open_export(path)
    try:
        size = _size(path)
        return rank_tables(store, Source(sniff.path_text(path), size, fingerprint))
    finally:
        store.close()


def open_export(path: Path) -> Store:
    """The store of the export at `path`. Raises TraceFormatError for what is none."""
    if path.is_dir():
        if not is_export(path):
            raise sniff.refusal(path.name, "a folder without an export", _MEND)
        return FolderStore(path)
    store = SqliteStore(path)
    _check_ours(store, path.name)
    return store


def rank_tables(store: Store, source: Source) -> list[RankTables]:
    """The tables of every rank of an export."""
    recording = nsys_facts.read_recording(store)
    strings = Strings(store)
    with ThreadPoolExecutor(2) as pool:  # SQLite and numpy work outside the interpreter lock
        calls = pool.submit(read_calls, store, strings)
        work = pool.submit(read_work, store, strings)
        ranges, marks, others = read_ranges(store, strings)
    rows = Rows(work.result(), calls.result(), ranges, marks)
    titles = nsys_ranks.process_titles(store)
    ranks = nsys_ranks.find(rows.work, rows.calls, rows.ranges, titles, store)
    stop = nsys_content.stop_ns(rows, recording)
    tracks = _tracks(store, strings, titles)
    counts = {**nsys_facts.dropped(store), **others, **nsys_content.elsewhere(rows, ranks)}
    whole = nsys_content.facts_of(store, rows, recording, ranks)
    found = []
    for process, number in zip(ranks.processes, ranks.numbers, strict=True):
        own = rows.of(process)
        facts = {**whole, "pid": pid_of(process), "rank": number, "path": source.path}
        found.append(_one_rank(own, stop, tracks, facts, counts, source, store.format))
        counts = {}  # of the file, told once
    return [
        one if one.facts["rank"] is not None else replace(one, rank=place)
        for place, one in enumerate(found)
    ]


def _one_rank(
    rows: Rows,
    stop: int,
    tracks: Sequence[tuple[int, int | None, str, str]],
    facts: dict[str, Any],
    dropped: dict[str, int],
    source: Source,
    form: str,
) -> RankTables:
    losses: list[dict[str, Any]] = []
    work = _sound(rows.work, rows.work.start, rows.work.end, losses, source)
    calls = _sound(rows.calls, rows.calls.start, rows.calls.end, losses, source)
    ends = closed(rows.ranges, stop)
    ranges = _sound(replace(rows.ranges, end=ends), rows.ranges.start, ends, losses, source)
    own = [row for row in tracks if row[0] == facts["pid"]]
    tables = {
        "ops": op_table(work),
        "calls": call_table(calls),
        "ranges": range_table(ranges),
        "range_args": range_arg_table(ranges),
        "marks": mark_table(rows.marks),
        "tracks": track_table(own),
    }
    events = len(rows.work.start) + len(rows.calls.start) + len(rows.ranges.start)
    labels = [label for _, _, label, _ in own]
    texts = [ranges.name.texts[code] for code in np.unique(ranges.name.codes).tolist() if code >= 0]
    engine = nsys_facts.engine(labels, PROCESS_MARKS) or nsys_facts.engine(texts, RANGE_MARKS)
    facts = {
        **facts,
        "producer": engine,
        "events": events + len(rows.marks.time),
        "last_ns": nsys_content.last_ns(rows),
        "open_ranges": int(np.count_nonzero(rows.ranges.end == ABSENT)),
    }
    return RankTables(
        rank=facts["rank"] or 0,
        collectives=schema.empty("collectives"),
        losses=pa.Table.from_pylist(losses, schema=schema.LOSSES),
        sources=_source_table(source, facts, dropped, form),
        facts=facts,
        **tables,
    )


def _sound(table: Any, start: Ints, end: Ints, losses: list[dict[str, Any]], source: Source) -> Any:
    """The rows with a time that can be; the others are counted as lost."""
    bad = ~plausible(start, end, LONGEST_OP_NS if isinstance(table, Work) else LONGEST_NS)
    count = int(np.count_nonzero(bad))
    if not count:
        return table
    losses.append(
        {
            "source": source.path,
            "offset": None,
            "length": None,
            "count": count,
            "reason": "bad_time",
            "action": f"left out: {type(table).__name__.lower()} without times that can be",
        }
    )
    return take(table, ~bad)


def _tracks(
    store: Store, strings: Strings, titles: dict[int, str]
) -> list[tuple[int, int | None, str, str]]:
    """Names of processes and threads."""
    found = store.read("ThreadNames", ("nameId", "globalTid"))
    name = Named(*strings.coded(found["nameId"]))
    threads = found["globalTid"]
    processes = [
        (pid_of(process), None, masking.text(title)[:LABEL_LENGTH], "process_name")
        for process, title in titles.items()
    ]
    rows = zip(
        process_of(threads).tolist(), tid(threads).tolist(), name.codes.tolist(), strict=True
    )
    named = [
        (pid_of(process), number, masking.text(name.texts[code])[:LABEL_LENGTH], "thread_name")
        for process, number, code in rows
        if code >= 0
    ]
    return [*processes, *named]


def _source_table(
    source: Source, facts: dict[str, Any], dropped: dict[str, int], form: str
) -> pa.Table:
    several = facts["world_size"] is not None
    row = {
        "path": f"{source.path} [process {facts['pid']}]" if several else source.path,
        "format": form,
        "producer": facts["producer"],
        "bytes": source.bytes,
        "text_bytes": source.bytes,
        "fingerprint": source.fingerprint,
        "rank": facts["rank"],
        "world_size": facts["world_size"],
        "groups": None,
        "devices": json.dumps(facts["devices"]) if facts["devices"] else None,
        "clock_base_ns": facts["clock_base_ns"],
        "resolution_ns": 1,
        "events": facts["events"],
        "dropped": json.dumps(dropped, sort_keys=True),
    }
    return pa.Table.from_pylist([row], schema=schema.SOURCES)


def _check_ours(store: Store, name: str) -> None:
    tables = store.tables()
    for mark, prefix, what in _FOREIGN:
        if (not mark or mark in tables) and any(table.startswith(prefix) for table in tables):
            raise sniff.refusal(name, what, _MEND)
    if any(table in _OURS or table.startswith(_CUPTI) for table in tables):
        return
    shown = ", ".join(sniff.printable(table) for table in sorted(tables)[:6]) or "none"
    raise sniff.refusal(name, f"an SQLite database without an export (tables: {shown})", _MEND)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    return path.stat().st_size
