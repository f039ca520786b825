"""The ops of one rank in the replay: order on the streams, and what each waited for.

An op begins when the op before it on its stream has ended, and not before its launch reached
the device. Which of the two decided is read off: where the call had not returned when the stream
became free, the launch did. The way that decided keeps its measured length; the other gets what
such ways take when they decide (the median of the rank), at most what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.replay import LAUNCH_LAG, OP, STREAM_LAG, UNEXPLAINED, Float
from specscope.analyzers.replay_host import Stops
from specscope.analyzers.replay_parts import Parts

# A device starts what it has within microseconds; an op that begins later than this after its
# stream is free and its call has returned waits for something else.
PROMPT_NS = 20_000.0
# Where a recording never shows it: from the begin of a call to the begin of its op, and from
# the end of an op to the begin of the next.
LAUNCH_NS = 10_000.0
STREAM_NS = 1_000.0


@dataclass(frozen=True)
class Device:
    """Points of the ops of one rank, in table order; `begin_ns` and `end_ns` on its own clock.

    An op begins when it can make headway: not before what ran on its stream has ended.
    """

    begin_ns: Int
    end_ns: Int
    begin_point: Int
    end_point: Int


@dataclass(frozen=True)
class _Lanes:
    """Ops stream by stream, in order of time: per op the one before it on its stream, or -1."""

    before: Int
    begin: Int
    end: Int


def add_device(
    parts: Parts,
    one: Attribution,
    row: int,
    clock: Callable[[Int], Float],
    stops: Stops,
    joined: Int,
) -> Device:
    """Points and edges of the ops. `joined` are ops whose run `replay_join` puts in."""
    ops = one.rank.ops
    lanes = _lanes(one)
    begin_point, end_point = parts.points(clock(lanes.begin)), parts.points(clock(lanes.end))
    device = Device(lanes.begin, lanes.end, begin_point, end_point)
    stage = one.placed.stage_of_op.astype(np.int64)
    alone = np.ones(len(ops.start), dtype=bool)
    alone[joined] = False
    rows = np.flatnonzero(alone)
    parts.edges(
        begin_point[rows],
        end_point[rows],
        None,
        OP,
        rank=row,
        stage=stage[rows],
        what=one.rank.activity[rows],
        item=rows,
    )
    _add_starts(parts, one, row, stops, lanes, device, stage)
    return device


def _lanes(one: Attribution) -> _Lanes:
    ops = one.rank.ops
    order = np.lexsort((np.arange(len(ops.start)), ops.start, ops.stream, ops.device))
    before = np.full(len(order), -1, np.int64)
    begin, end = ops.start.copy(), np.maximum(ops.end, ops.start)
    stream, device = ops.stream[order], ops.device[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (stream[1:] != stream[:-1]) | (device[1:] != device[:-1])
    borders = np.append(np.flatnonzero(new), len(order))
    for low, high in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        lane = order[low:high]
        reach = np.maximum.accumulate(end[lane])
        before[lane[1:]] = lane[:-1]
        begin[lane[1:]] = np.maximum(begin[lane[1:]], reach[:-1])
        end[lane] = reach
    return _Lanes(before, begin, end)


def _add_starts(
    parts: Parts,
    one: Attribution,
    row: int,
    stops: Stops,
    lanes: _Lanes,
    device: Device,
    stage: Int,
) -> None:
    ops, calls = one.rank.ops, one.rank.calls
    n = len(ops.start)
    has_before = lanes.before >= 0
    safe_before = np.maximum(lanes.before, 0)
    stop = stops.point_of_call[ops.call] if len(calls.start) else np.full(n, -1, np.int64)
    stop = np.where(ops.call >= 0, stop, -1)
    launched = stop >= 0
    same_call = has_before & launched & (ops.call == ops.call[safe_before])
    entry = launched & ~same_call
    low = np.iinfo(np.int64).min // 2
    free = np.where(has_before, lanes.end[safe_before], low)
    call_begin = np.where(launched, stops.start[np.maximum(stop, 0)], low)
    call_end = np.where(launched, stops.end[np.maximum(stop, 0)], low)
    by_launch = entry & (call_end >= free)
    late = (lanes.begin - np.maximum(free, call_end)).astype(np.float64)
    late = np.where(has_before | launched, late, 0.0)
    waits = entry & (late > PROMPT_NS)
    other = _awaited_elsewhere(one, lanes, np.flatnonzero(waits))
    by_other = np.zeros(n, dtype=bool)
    by_other[list(other)] = True
    unclear = (waits & ~by_other) | (~entry & has_before & (late > PROMPT_NS) & ~same_call)
    prompt = ~by_other & ~unclear
    launch_ns = _usual_launch(one, lanes.begin - call_begin, by_launch & prompt)
    gap = (lanes.begin - free).astype(np.float64)
    sample = gap[has_before & ~by_launch & prompt]
    stream_ns = float(np.median(sample)) if len(sample) else STREAM_NS
    # The target of the ways: the op's begin, or a point before it where something is unclear.
    target = device.begin_point.copy()
    rows = np.flatnonzero(unclear)
    if len(rows):
        base = np.maximum(
            np.where(has_before, parts.time(device.end_point[safe_before]) + stream_ns, -np.inf),
            np.where(
                launched,
                parts.time(stops.begin_point[np.maximum(stop, 0)]) + launch_ns,
                -np.inf,
            ),
        )[rows]
        early = parts.points(np.minimum(base, parts.time(device.begin_point[rows])))
        parts.edges(early, target[rows], None, UNEXPLAINED, rank=row, stage=stage[rows], item=rows)
        target[rows] = early
    _add_stream(parts, row, lanes, device, target, stage, stream_ns, by_launch | by_other)
    rows = np.flatnonzero(entry)
    length = np.where(by_launch & ~by_other, np.inf, launch_ns)[rows]
    parts.edges(
        stops.begin_point[stop[rows]],
        target[rows],
        length,
        LAUNCH_LAG,
        rank=row,
        stage=stage[rows],
        count=np.bincount(ops.call[ops.call >= 0], minlength=max(len(calls.start), 1))[
            ops.call[rows]
        ],
        item=ops.call[rows],
    )
    if other:
        rows = np.array(list(other), np.int64)
        awaited = np.array(list(other.values()), np.int64)
        parts.edges(
            device.end_point[awaited],
            target[rows],
            None,
            STREAM_LAG,
            rank=row,
            stage=stage[rows],
            item=rows,
        )


def _add_stream(
    parts: Parts,
    row: int,
    lanes: _Lanes,
    device: Device,
    target: Int,
    stage: Int,
    usual_ns: float,
    elsewhere: Bool,
) -> None:
    """From the op before on the stream; `elsewhere` are ops for which another way decided."""
    rows = np.flatnonzero(lanes.before >= 0)
    moved = target[rows] != device.begin_point[rows]
    length = np.where(elsewhere[rows] | moved, usual_ns, np.inf)
    parts.edges(
        device.end_point[lanes.before[rows]],
        target[rows],
        length,
        STREAM_LAG,
        rank=row,
        stage=stage[rows],
        item=rows,
    )


def _usual_launch(one: Attribution, lag: Int, decided: Bool) -> Float:
    """Per op: what the way from call to op takes for launches like its own.

    Graph launches with the same number of ops are alike; else all of one kind of call.
    """
    ops, calls = one.rank.ops, one.rank.calls
    usual = np.full(len(ops.start), LAUNCH_NS)
    if not len(calls.start):
        return usual
    safe = np.maximum(ops.call, 0)
    size = np.bincount(ops.call[ops.call >= 0], minlength=len(calls.start))[safe]
    kind = calls.kind[safe].astype(np.int64)
    alike = np.where(kind == GRAPH_LAUNCH, size + len(calls.start), kind)
    for number in np.unique(alike).tolist():
        members = alike == number
        sample = lag[members & decided]
        if len(sample):
            usual[members] = float(np.median(sample))
    return usual


def _awaited_elsewhere(one: Attribution, lanes: _Lanes, rows: Int) -> dict[int, int]:
    """Per op that begins late: the op of another stream that ended just before, launched before."""
    ops, calls = one.rank.ops, one.rank.calls
    if not len(rows):
        return {}
    order = np.argsort(ops.end, kind="stable")
    ends = ops.end[order]
    found = {}
    for row in rows.tolist():
        at = int(np.searchsorted(ends, lanes.begin[row], "right"))
        low = int(np.searchsorted(ends, lanes.begin[row] - PROMPT_NS, "left"))
        for place in range(at - 1, low - 1, -1):
            candidate = int(order[place])
            call = int(ops.call[candidate])
            same = ops.stream[candidate] == ops.stream[row]
            if call < 0 or (same and ops.device[candidate] == ops.device[row]):
                continue
            if calls.start[call] < calls.start[ops.call[row]]:
                found[row] = candidate
                break
    return found
