"""Which call launched which op (design 5.1).

An op is joined to a call of the same rank by correlation. An op whose call is not on
record, lies after the op's start, or cannot be told apart (the same correlation in two
processes) stays unlinked and is counted; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from specscope.analyzers.columns import ABSENT, Bool, Int, Small, codes, distinct, ints, which

CALL_KINDS = ("launch", "graph_launch", "copy", "set", "sync", "alloc", "other")
LAUNCH, GRAPH_LAUNCH, COPY, SET, SYNC, ALLOC, OTHER = range(len(CALL_KINDS))
# Calls that always put an op on the GPU; a set of no bytes does not.
LAUNCHING = (LAUNCH, GRAPH_LAUNCH, COPY)
OP_KINDS = ("kernel", "copy", "set", "graph")
KERNEL, GRAPH = 0, 3
LAST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Calls:
    """The calls of one rank as arrays, in table order."""

    kind: Small
    name: Small
    names: list[str]
    thread: Small  # index into `threads`
    threads: list[tuple[int, int]]  # (pid, tid)
    start: Int
    end: Int
    correlation: Int


@dataclass(frozen=True)
class Ops:
    """The ops of one rank as arrays, in table order. `call` is -1 when unlinked."""

    kind: Small
    name: Small
    names: list[str]
    device: Int
    stream: Int
    start: Int
    end: Int
    correlation: Int
    bytes: Int
    call: Int
    first_start: Int  # per call: start of its first op; LAST where it has none
    late_call: int  # ops whose only call starts after them
    ambiguous: int  # ops whose correlation stands in two processes


def thread_index(pid: Int, tid: Int) -> tuple[Small, list[tuple[int, int]]]:
    """Number the (pid, tid) pairs, in order of their values."""
    if len(pid) == 0:
        return np.empty(0, np.int32), []
    pids, tids = distinct(pid), distinct(tid)
    place = np.searchsorted(pids, pid) * len(tids) + np.searchsorted(tids, tid)
    pair = distinct(place)
    threads = [(int(pids[v // len(tids)]), int(tids[v % len(tids)])) for v in pair]
    return np.searchsorted(pair, place).astype(np.int32), threads


def read_calls(table: pa.Table, thread: Small, threads: list[tuple[int, int]]) -> Calls:
    """The `calls` table as arrays; `thread` numbers its rows as `threads` has them."""
    name, names = codes(table, "name")
    return Calls(
        kind=which(table, "kind", CALL_KINDS),
        name=name,
        names=names,
        thread=thread,
        threads=threads,
        start=ints(table, "start_ns"),
        end=ints(table, "end_ns"),
        correlation=ints(table, "correlation"),
    )


def link(table: pa.Table, calls: Calls) -> Ops:
    """The `ops` table as arrays, each op joined to the latest call that can own it.

    Cost: two sorts, of calls and of ops by correlation.
    """
    start, correlation = ints(table, "start_ns"), ints(table, "correlation")
    call, late, ambiguous = _owning_call(start, correlation, calls)
    name, names = codes(table, "name")
    return Ops(
        kind=which(table, "kind", OP_KINDS),
        name=name,
        names=names,
        device=ints(table, "device", null=0),
        stream=ints(table, "stream", null=0),
        start=start,
        end=ints(table, "end_ns"),
        correlation=correlation,
        bytes=ints(table, "bytes"),
        call=call,
        first_start=_first_start(start, call, len(calls.start)),
        late_call=late,
        ambiguous=ambiguous,
    )


def graphs_without_op(ops: Ops, calls: Calls) -> bool:
    """Are graphs launched, other ops on record, and not one kernel (or span) of a graph?

    Then the inside of graphs was not recorded, and time in which they ran looks idle. Copies may
    be there all the same.
    """
    return _without_kernel(ops, calls, GRAPH_LAUNCH)


def kernels_missing(ops: Ops, calls: Calls) -> bool:
    """Are kernels launched one by one, other ops on record, and not one kernel of such a launch?"""
    return _without_kernel(ops, calls, LAUNCH)


def _without_kernel(ops: Ops, calls: Calls, kind: int) -> bool:
    launches = np.flatnonzero(calls.kind == kind)
    if len(launches) == 0 or not len(ops.start):
        return False
    work = np.isin(ops.kind, (KERNEL, GRAPH))
    return not np.isin(launches, ops.call[work]).any()


def _first_start(start: Int, call: Int, n_calls: int) -> Int:
    first = np.full(n_calls, LAST, np.int64)
    linked = call >= 0
    np.minimum.at(first, call[linked], start[linked])
    return first


def _owning_call(start: Int, correlation: Int, calls: Calls) -> tuple[Int, int, int]:
    """Per op: index of the call with its correlation that starts last, but not after it.

    Only launch-capable calls own ops: other calls carry correlations too, and some tracers
    count those from 1 again.
    """
    able = np.isin(calls.kind, (LAUNCH, GRAPH_LAUNCH, COPY, SET)) & (calls.correlation != ABSENT)
    index = np.flatnonzero(able)
    n = len(start)
    if len(index) == 0 or n == 0:
        return np.full(n, -1, np.int64), 0, 0
    order = np.lexsort((calls.start[index], calls.correlation[index]))
    index = index[order]
    key = calls.correlation[index]
    first = np.searchsorted(key, correlation, "left")
    last = np.searchsorted(key, correlation, "right")
    known = (last > first) & (correlation != ABSENT)
    call = np.full(n, -1, np.int64)
    pid = np.array([pid for pid, _ in calls.threads], np.int64)[calls.thread][index]
    mixed = _keys_in_two_processes(key, pid)
    ambiguous = known & mixed[np.minimum(first, len(key) - 1)]
    known &= ~ambiguous
    call[known] = index[first[known]]
    # Correlations that were used again: the latest call that starts before the op.
    again = np.flatnonzero(known & (last - first > 1))
    if len(again):
        call[again] = index[
            _latest_before(key, calls.start[index], correlation[again], start[again])
        ]
    late = known & (calls.start[np.maximum(call, 0)] > start)
    call[late] = -1
    return call, int(late.sum()), int(ambiguous.sum())


def _keys_in_two_processes(key: Int, pid: Int) -> Bool:
    """Per row of sorted `key`: does its group hold more than one pid?"""
    begin = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    two = np.minimum.reduceat(pid, begin) != np.maximum.reduceat(pid, begin)
    return np.repeat(two, np.diff(np.append(begin, len(key))))


def _latest_before(key: Int, key_start: Int, wanted: Int, before: Int) -> Int:
    """Per (wanted, before): the last row of that key that starts not after `before`.

    Rows are sorted by (key, key_start). Where all start later, the first row of the key.
    """
    rows, asks = len(key), len(wanted)
    joined = np.concatenate((key, wanted))
    start = np.concatenate((key_start, before))
    is_ask = np.concatenate((np.zeros(rows, np.int8), np.ones(asks, np.int8)))
    order = np.lexsort((is_ask, start, joined))
    row_at = np.where(order < rows, order, -1)
    latest = np.maximum.accumulate(row_at)
    answer = np.empty(asks, np.int64)
    asked = order >= rows
    answer[order[asked] - rows] = latest[asked]
    return np.maximum(answer, np.searchsorted(key, wanted, "left"))
