"""What was recorded, as tracks: GPU streams, host threads, marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.columns import Int, codes, ints
from specscope.analyzers.report import Report
from specscope.dashboards.perfetto_slices import Clock, Slices, Track, columns, of_rank

_NAMES: Final = ("thread_name", "tid_text")


def recorded(report: Report, rank: int, clock: Clock) -> Iterator[Track]:
    """The tracks of one rank, every op, call, range and mark on one of them."""
    ops = of_rank(report, "ops", rank)
    calls = of_rank(report, "calls", rank)
    flow_of_op, flow_of_call = _flows(ops, calls, rank)
    yield from _streams(ops, flow_of_op, rank, clock)
    yield from _threads(report, calls, flow_of_call, rank, clock)
    marks = of_rank(report, "marks", rank)
    if marks.num_rows:
        name, words = codes(marks, "name")
        time = clock(ints(marks, "time_ns"))
        arguments = columns(marks, ("mark_id", "domain", "pid", "tid"))
        found = Slices(time, time, name.astype(np.int64), words, arguments)
        yield Track(rank, "marks", found, recorded="marks", instant=True)


def _flows(ops: pa.Table, calls: pa.Table, rank: int) -> tuple[Int, Int]:
    """A number for each launch call and the first op that it put on the GPU."""
    call = ints(ops, "call_id", -1)
    start = ints(ops, "start_ns")
    of_op = np.zeros(len(call), np.int64)
    of_call = np.zeros(calls.num_rows, np.int64)
    order = np.lexsort((start, call))
    order = order[call[order] >= 0]
    first = order[np.append(True, call[order][1:] != call[order][:-1])] if len(order) else order
    of_op[first] = (rank + 1 << 40) + call[first] + 1
    of_call[call[first]] = of_op[first]
    return of_op, of_call


def _streams(ops: pa.Table, flow: Int, rank: int, clock: Clock) -> Iterator[Track]:
    start, end = clock(ints(ops, "start_ns")), clock(ints(ops, "end_ns"))
    device, stream = ints(ops, "device"), ints(ops, "stream")
    name, words = codes(ops, "name")
    shown = ("op_id", "kind", "correlation", "call_id", "stage", "activity", "bytes", "graph_node")
    every = Slices(start, end, name.astype(np.int64), words, columns(ops, shown), flow)
    for one, number in sorted(set(zip(device.tolist(), stream.tolist(), strict=True))):
        rows = np.flatnonzero((device == one) & (stream == number))
        yield Track(rank, f"GPU {one} stream {number}", every.at(rows), recorded="ops")


def _threads(
    report: Report, calls: pa.Table, flow: Int, rank: int, clock: Clock
) -> Iterator[Track]:
    """Ranges and calls of each host thread together: calls lie inside of ranges."""
    ranges = of_rank(report, "ranges", rank)
    both = [(ranges, "range_id"), (calls, "call_id")]
    pid, tid, start, end = (
        np.concatenate([ints(table, name) for table, _ in both])
        for name in ("pid", "tid", "start_ns", "end_ns")
    )
    start, end = clock(start), clock(end)
    (range_name, range_words), (call_name, call_words) = (codes(one, "name") for one, _ in both)
    name = np.concatenate((range_name, len(range_words) + call_name)).astype(np.int64)
    words = [*range_words, *call_words]
    flows = np.concatenate((np.zeros(ranges.num_rows, np.int64), flow))
    shown = ("range_id", "call_id", "kind", "domain", "correlation")
    plain = [
        table.select([name for name in shown if name in table.column_names]) for table, _ in both
    ]
    arguments = columns(pa.concat_tables(plain, promote_options="permissive"), shown)
    every = Slices(start, end, name, words, arguments, flows)
    names = _thread_names(of_rank(report, "tracks", rank))
    several = len(set(pid.tolist())) > 1
    for process, thread in sorted(set(zip(pid.tolist(), tid.tolist(), strict=True))):
        rows = np.flatnonzero((pid == process) & (tid == thread))
        label = names.get((process, thread), "")
        title = label if str(thread) in label else f"thread {thread} {label}".rstrip()
        title = f"host {title}" + (f" of process {process}" if several else "")
        yield Track(rank, title, every.at(rows), recorded="ranges and calls")


def _thread_names(table: pa.Table) -> dict[tuple[int, int], str]:
    named = table.filter(pc.is_in(table["field"].cast(pa.string()), pa.array(_NAMES)))
    rows = zip(*(named[name].to_pylist() for name in ("pid", "tid", "label")), strict=True)
    return {(pid, tid): label for pid, tid, label in rows if tid is not None}
