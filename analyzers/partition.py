"""The exclusive partition: each instant of a cycle on a rank has exactly one owner.

Design 5.5. All on sorted arrays, no loop over ops:

1. On each stream the earlier op keeps an overlap, so each stream becomes disjoint pieces.
2. Pieces of several streams that overlap form crowds; few ops are in one. In a crowd the
   instant goes to the lowest (class, start, stream).
3. What nothing covers is idle: the op that ends it owns it, and `idle` explains it.

An op of no length owns no instant, but it ends the idle before it: the device did something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int, Small, distinct, spread
from specscope.analyzers.idle import Blocking, explain
from specscope.analyzers.links import Calls, Ops
from specscope.analyzers.words import IDLE, WORK

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Segments:
    """Pieces of cycles, all work, then all idle: `what` is an activity code or a cause."""

    cycle: Int
    start: Int
    end: Int
    op: Int  # the op that runs, or that ends the idle; -1: none does
    state: npt.NDArray[np.int8]
    what: npt.NDArray[np.int16]

    @property
    def ns(self) -> Int:
        """Length of each segment."""
        return self.end - self.start


def partition(
    ops: Ops, calls: Calls, op_class: Small, activity: Small, borders: Int, blocking: Blocking
) -> Segments:
    """Cut [borders[0], borders[-1]) into segments; cycle i is [borders[i], borders[i + 1]).

    `op_class` is the order between streams (compute 0, collective 1, copy 2, set 3).
    `borders` are sorted. Cost: O(n log n) in ops, plus their overlaps.
    """
    if len(borders) < 2 or len(ops.start) == 0:
        nothing = np.empty(0, np.int64)
        return Segments(
            nothing, nothing, nothing, nothing, nothing.astype(np.int8), nothing.astype(np.int16)
        )
    tiles = _cut(_tiles(ops, calls, op_class, borders), borders)
    cycle = np.repeat(
        np.arange(len(borders) - 1), np.diff(np.searchsorted(tiles.start, borders, "left"))
    )
    work = tiles.work
    gaps = np.flatnonzero(~work)
    idle = explain(ops, calls, tiles.start[gaps], tiles.end[gaps], tiles.op[gaps], blocking)
    owner = tiles.op[work]
    return Segments(
        cycle=np.concatenate((cycle[work], cycle[gaps[idle.gap]])),
        start=np.concatenate((tiles.start[work], idle.start)),
        end=np.concatenate((tiles.end[work], idle.end)),
        op=np.concatenate((owner, tiles.op[gaps[idle.gap]])),
        state=np.repeat(np.array([WORK, IDLE], np.int8), (len(owner), len(idle.gap))),
        what=np.concatenate((activity[owner].astype(np.int16), idle.cause)),
    )


@dataclass(frozen=True)
class _Tiles:
    """Work and gaps side by side, sorted, with nothing between them."""

    start: Int
    end: Int
    op: Int
    work: Bool


def _tiles(ops: Ops, calls: Calls, op_class: Small, borders: Int) -> _Tiles:
    """The whole of [borders[0], borders[-1]) and all ops around it."""
    order = _ordered(ops, calls)
    begin, end = _disjoint(ops, order)
    # Pieces with any length, and instants that nothing of their stream covers.
    real = (end > begin) | ((ops.end <= ops.start) & (begin == ops.start))
    row = order.on_device[real[order.on_device]]
    row = row[np.argsort(begin[row], kind="stable")]
    b, reach = begin[row], np.maximum.accumulate(end[row])
    # A crowd ends where all its pieces have ended and the next one begins later.
    new = np.concatenate(([True], (b[1:] >= reach[:-1]) & (b[1:] > b[:-1])))
    first = np.flatnonzero(new)
    busy_start, busy_end = b[first], reach[np.append(first[1:], len(row)) - 1]
    alone = np.diff(np.append(first, len(row))) == 1
    head = row[first].copy()
    lone = head[alone]
    lone = lone[end[lone] > begin[lone]]
    crowd = row[np.repeat(~alone, np.diff(np.append(first, len(row))))]
    start, until, owner = _crowds(ops, op_class, crowd, begin, end)
    if len(crowd):
        starts, winner = _first_to_start(ops, op_class, crowd)
        # A crowd that touches the stretch before it may begin with the rest of an op; no gap
        # asks who began it.
        at = np.searchsorted(starts, busy_start[~alone])
        head[~alone] = winner[np.minimum(at, len(winner) - 1)]
    # Gaps: before the first op, between the busy stretches, after the last.
    gap_start = np.concatenate((borders[:1], busy_end))
    gap_end = np.concatenate((busy_start, borders[-1:]))
    ender = np.append(head, -1)
    gap = gap_end > gap_start
    all_start = np.concatenate((begin[lone], start, gap_start[gap]))
    by_time = np.argsort(all_start, kind="stable")
    return _Tiles(
        start=all_start[by_time],
        end=np.concatenate((end[lone], until, gap_end[gap]))[by_time],
        op=np.concatenate((lone, owner, ender[gap]))[by_time],
        work=(np.arange(len(all_start)) < len(lone) + len(start))[by_time],
    )


def _cut(tiles: _Tiles, borders: Int) -> _Tiles:
    """The tiles inside the borders; one that reaches over a border is cut there."""
    at = np.searchsorted(tiles.start, borders, "right") - 1
    inside = (at >= 0) & (tiles.start[at] < borders) & (borders < tiles.end[at])
    at, border = at[inside], borders[inside]
    start = np.insert(tiles.start, at + 1, border)
    end = np.insert(tiles.end, at, border)
    keep = (start >= borders[0]) & (end <= borders[-1])
    return _Tiles(
        start=start[keep],
        end=end[keep],
        op=np.insert(tiles.op, at + 1, tiles.op[at])[keep],
        work=np.insert(tiles.work, at + 1, tiles.work[at])[keep],
    )


@dataclass(frozen=True)
class _Order:
    """Orders of the ops that differ only where ops start together, so one sort serves all.

    `on_stream`: start, the earlier launch call (an unlinked op last), the lower correlation,
    file order. `on_device`: start, stream, then as on the stream."""

    on_stream: Int
    on_device: Int


def _ordered(ops: Ops, calls: Calls) -> _Order:
    by_start = np.argsort(ops.start, kind="stable")
    start = ops.start[by_start]
    same = start[1:] == start[:-1]
    on_stream = on_device = by_start
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        row = by_start[tied]
        launched = np.full(len(row), _LAST, np.int64)
        linked = ops.call[row] >= 0
        launched[linked] = calls.start[ops.call[row[linked]]]
        keys = (row, ops.correlation[row], launched, ops.start[row])
        on_stream = by_start.copy()
        on_stream[tied] = row[np.lexsort(keys)]
        row = on_stream[tied]
        on_device = on_stream.copy()
        on_device[tied] = row[np.lexsort((ops.stream[row], ops.start[row]))]
    return _Order(on_stream, on_device)


def _disjoint(ops: Ops, order: _Order) -> tuple[Int, Int]:
    """Per op the piece [begin, end) that no earlier op of its stream covers (empty: equal)."""
    begin, end = ops.start.copy(), np.maximum(ops.end, ops.start)
    for lane in _lanes(ops, order.on_stream):
        covered = np.maximum.accumulate(end[lane])
        begin[lane[1:]] = np.maximum(begin[lane[1:]], covered[:-1])
    return begin, np.maximum(end, begin)


def _lanes(ops: Ops, order: Int) -> list[Int]:
    """The ops of each stream of each device, in `order`."""
    streams = distinct(ops.stream)
    lane = np.searchsorted(streams, ops.stream)
    count = len(streams)
    if (ops.device != ops.device[0]).any():
        devices = distinct(ops.device)
        lane = np.searchsorted(devices, ops.device) * count + lane
        count *= len(devices)
    if count == 1:
        return [order]
    lane = lane[order]
    small = lane.astype(np.uint16) if count < 1 << 16 else lane  # few streams: a radix sort
    by_lane = order[np.argsort(small, kind="stable")]
    edges = np.cumsum(np.bincount(lane, minlength=count))[:-1]
    return [rows for rows in np.split(by_lane, edges) if len(rows)]


def _first_to_start(ops: Ops, op_class: Small, rows: Int) -> tuple[Int, Int]:
    """Each distinct start of `rows`, and the op that ends the idle before it.

    `rows` hold ops of one stream in their order on it.

    Of several that start together: the first of each stream, then the lowest (class, stream).
    """
    row = rows[np.argsort(ops.start[rows], kind="stable")]
    start = ops.start[row]
    new = np.concatenate(([True], start[1:] != start[:-1]))
    if new.all():
        return start, row
    tied = np.flatnonzero(~new | ~np.append(new[1:], True))
    some = row[tied]
    lead = np.concatenate(
        (
            [True],
            (ops.start[some[1:]] != ops.start[some[:-1]])
            | (ops.stream[some[1:]] != ops.stream[some[:-1]]),
        )
    )
    some = some[lead]
    some = some[np.lexsort((ops.stream[some], op_class[some], ops.start[some]))]
    first = np.concatenate(([True], ops.start[some[1:]] != ops.start[some[:-1]]))
    winner = row[new].copy()
    winner[np.searchsorted(start[new], ops.start[some[first]])] = some[first]
    return start[new], winner


def _crowds(ops: Ops, op_class: Small, crowd: Int, begin: Int, end: Int) -> tuple[Int, Int, Int]:
    """Start, end and owner of every stretch of the ops that overlap others."""
    row = crowd[end[crowd] > begin[crowd]]
    if len(row) == 0:
        return row, row, row
    times = distinct(np.concatenate((begin[row], end[row])))
    first = np.searchsorted(times, begin[row], "left")
    count = np.searchsorted(times, end[row], "left") - first
    at, op = spread(first, count), np.repeat(row, count)
    # Lower is stronger: class, then true start, then stream.
    strongest = np.lexsort((ops.stream[op], ops.start[op], op_class[op], at))
    at, op = at[strongest], op[strongest]
    lead = np.concatenate(([True], at[1:] != at[:-1]))
    at, op = at[lead], op[lead]
    # One owner over several stretches that touch is one stretch.
    new = np.concatenate(([True], (op[1:] != op[:-1]) | (at[1:] != at[:-1] + 1)))
    last = np.append(np.flatnonzero(new)[1:], len(at)) - 1
    return times[at[new]], times[at[last] + 1], op[new]
