"""The host thread of one rank in the replay: its calls, its own work between them, its waits.

Only threads that launch count, and of their calls only those that launch, synchronise, or
record an event; any other call is part of the host's own work.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import COPY, GRAPH_LAUNCH, LAST, LAUNCH, SET, SYNC
from specscope.analyzers.replay import CALL, GRAPH_CALL, HOST_WORK, Float
from specscope.analyzers.replay_parts import Parts
from specscope.analyzers.words import SCHEDULE

# Calls that mark a place in a stream for a later wait.
EVENT_RECORD = re.compile(r"EventRecord")
# Messages between the schedulers of the ranks, on a thread of their own while the launching
# thread waits for them. Each is one of all ranks.
HOST_MESSAGE = re.compile(r"^gloo:")


@dataclass(frozen=True)
class Stops:
    """What the launching threads of one rank stop at, ordered by thread and start.

    `call` is the row of the call, -1 for a host message, whose row of ranges is `message`.
    """

    call: Int
    message: Int
    thread: Int
    start: Int
    end: Int
    begin_point: Int
    end_point: Int
    point_of_call: Int  # per call: place in `call`, -1: not kept


def stops_of(one: Attribution) -> tuple[Int, Int, Int, Int, Int]:
    """Calls and host messages that count: call, message, thread, start, end."""
    calls, ranges = one.rank.calls, one.rank.ranges
    launching = np.isin(calls.kind, (LAUNCH, GRAPH_LAUNCH, COPY, SET))
    busy = np.unique(calls.thread[launching & (one.rank.ops.first_start != LAST)])
    record = named(calls.names, EVENT_RECORD)[calls.name]
    kept = np.flatnonzero(
        np.isin(calls.thread, busy) & (launching | (calls.kind == SYNC) | record)
    )
    thread, start, end = calls.thread[kept].astype(np.int64), calls.start[kept], calls.end[kept]
    message = _messages(one, thread, start, end)
    columns = (
        np.concatenate((kept, np.full(len(message), -1, np.int64))),
        np.concatenate((np.full(len(kept), -1, np.int64), message)),
        np.concatenate((thread, np.full(len(message), _main(thread), np.int64))),
        np.concatenate((start, ranges.start[message])),
        np.concatenate((end, ranges.end[message])),
    )
    order = np.lexsort((columns[4], columns[3], columns[2]))
    call, message, thread, start, end = (column[order] for column in columns)
    return call, message, thread, start, end


def named(names: list[str], pattern: re.Pattern[str]) -> Bool:
    """Per name: does the pattern find something in it? One more for the code -1."""
    return np.array([pattern.search(name) is not None for name in names] + [False], dtype=bool)


def _main(thread: Int) -> int:
    """The thread with the most calls; 0 of none."""
    return int(np.bincount(thread).argmax()) if len(thread) else 0


def _messages(one: Attribution, thread: Int, start: Int, end: Int) -> Int:
    """Host messages during which the launching thread was in no call that counts."""
    ranges = one.rank.ranges
    found = np.flatnonzero(named(ranges.names, HOST_MESSAGE)[ranges.name])
    main = thread == _main(thread)
    begins, ends = start[main], end[main]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    at = np.searchsorted(begins, ranges.end[found], "left")
    before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(ends)))[at]
    found = found[before <= ranges.start[found]]
    # Of messages that overlap only the first can be what the thread waits for.
    found = found[np.argsort(ranges.start[found], kind="stable")]
    reach = np.concatenate(
        ([np.iinfo(np.int64).min], np.maximum.accumulate(ranges.end[found])[:-1])
    )[: len(found)]
    return found[reach <= ranges.start[found]]


def add_host(
    parts: Parts, one: Attribution, row: int, clock: Callable[[Int], Float]
) -> Stops:
    """Points and edges of the launching threads; waits are added by `replay_waits`."""
    call, message, thread, start, end = stops_of(one)
    begin_point, end_point = parts.points(clock(start)), parts.points(clock(end))
    of_call = np.full(len(one.rank.calls.start), -1, np.int64)
    of_call[call[call >= 0]] = np.flatnonzero(call >= 0)
    stops = Stops(call, message, thread, start, end, begin_point, end_point, of_call)
    safe = np.maximum(call, 0)
    calls = one.rank.calls
    none = not len(calls.start)
    kind = np.full(len(call), SYNC, np.int64) if none else calls.kind[safe].astype(np.int64)
    stage = np.where(call >= 0, 0 if none else one.placed.stage_of_call[safe], SCHEDULE)
    stage = stage.astype(np.int64)
    follows = np.flatnonzero(thread[1:] == thread[:-1]) + 1
    parts.edges(
        end_point[follows - 1],
        begin_point[follows],
        None,
        HOST_WORK,
        rank=row,
        stage=stage[follows],
        count=recorded_between(one, thread[follows], end[follows - 1], start[follows]),
    )
    inside = np.bincount(one.rank.ops.call[one.rank.ops.call >= 0], minlength=len(of_call))
    free = (call >= 0) & (kind != SYNC)
    free[free] &= ~blocking(one, call[free])
    graph = kind == GRAPH_LAUNCH
    for rows, edge, count in (
        (np.flatnonzero(free & graph), GRAPH_CALL, inside),
        (np.flatnonzero(free & ~graph), CALL, np.ones(len(of_call), np.int64)),
    ):
        parts.edges(
            begin_point[rows],
            end_point[rows],
            None,
            edge,
            rank=row,
            stage=stage[rows],
            count=count[call[rows]],
            item=call[rows],
        )
    return stops


def blocking(one: Attribution, call: Int) -> Bool:
    """Is each call a copy that returns only when its op has ended (from the GPU, pageable)?"""
    ops = one.rank.ops
    name = re.compile(r"DtoH.*Pageable")
    slow = np.flatnonzero(named(ops.names, name)[ops.name] & (ops.call >= 0))
    return np.isin(call, ops.call[slow])


def recorded_between(one: Attribution, thread: Int, low: Int, high: Int) -> Int:
    """Calls and ranges of the thread that begin in [low, high): a profiler took time for each."""
    total = np.zeros(len(low), np.int64)
    for of_thread, begin in (
        (one.rank.calls.thread, one.rank.calls.start),
        (one.rank.ranges.thread, one.rank.ranges.start),
    ):
        for number in np.unique(thread).tolist():
            mine = thread == number
            times = np.sort(begin[of_thread == number])
            total[mine] += np.searchsorted(times, high[mine]) - np.searchsorted(times, low[mine])
    return np.maximum(total, 0)
