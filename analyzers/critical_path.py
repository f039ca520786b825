"""What holds the end of the group's cycle back: its critical path over the ranks.

The group's cycle goes from the moment the last rank begins a cycle to the moment the last rank
begins the next. From its end the path is walked back on the rank that is last: through what that
rank did, until the end of a collective; through its transfer, to the arrival of the last rank;
there the path goes over to that rank. So it never holds waiting, and its pieces lie side by
side: they sum to the cycle to the nanosecond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specscope.analyzers.attribution import WHATS, Attribution
from specscope.analyzers.collective_times import Times
from specscope.analyzers.columns import Int, spread
from specscope.analyzers.words import IDLE, UNPLACED, WORK

# What the path holds: as segments do, and the transfer of a collective.
PATH_WHATS = (*WHATS, "transfer")
TRANSFER = len(WHATS)
_UNKNOWN = WHATS.index("unknown")


class Common(Protocol):
    """Brings the times of a rank onto one clock."""

    def common(self, row: int, times: Int) -> Int:
        """Absolute times of the rank in that row, on that clock."""


@dataclass(frozen=True)
class Paths:
    """Pieces of the critical paths in order of time; cycle i lies in [borders[i], borders[i+1])."""

    cycles: Int  # numbers of the first rank
    borders: Int
    cycle: Int  # per piece: index into `cycles`
    rank: Int  # row of the rank
    start: Int
    end: Int
    stage: Int
    state: Int
    what: Int  # index into PATH_WHATS

    @property
    def ns(self) -> Int:
        """Length of each piece."""
        return self.end - self.start


@dataclass(frozen=True)
class _Lane:
    """The segments of one rank on the common clock, side by side."""

    start: Int
    end: Int
    stage: Int
    state: Int
    what: Int


def walk(
    attributed: Sequence[Attribution],
    bases: Sequence[int],
    shift: Sequence[int],
    whole: range,
    stage: Int,
    clocks: Common,
    times: Times,
) -> Paths | None:
    """The critical path of every cycle that all ranks have; None where there is none.

    `whole` numbers those cycles by the first rank, `shift` leads from a rank's number to it;
    `stage` is that of each collective.
    """
    if not len(whole):
        return None
    lanes = [
        _lane(one, row, base, clocks)
        for row, (one, base) in enumerate(zip(attributed, bases, strict=True))
    ]
    begins = []
    for row, (one, base, more) in enumerate(zip(attributed, bases, shift, strict=True)):
        begin = clocks.common(row, one.cycles.borders + base)
        begins.append(begin[whole.start - more : whole.stop - more + 1])
    starts = np.stack(begins)
    borders, last = starts.max(axis=0), starts.argmax(axis=0)
    sorts = [np.argsort(arrival, kind="stable") for arrival in times.arrival]
    # As lists: they are looked up one by one.
    order = [rows.tolist() for rows in sorts]
    entered = [arrival[rows].tolist() for arrival, rows in zip(times.arrival, sorts, strict=True)]
    walked: list[tuple[int, int, int, int, int]] = []
    for index in range(len(whole)):
        low, high = int(borders[index]), int(borders[index + 1])
        found = _walk_one(low, high, int(last[index + 1]), times, order, entered)
        walked += [(index, *stretch) for stretch in reversed(found)]
    of, rank, since, until, collective = np.array(walked, np.int64).reshape(-1, 5).T
    pieces = [_transfers(stage, of, rank, since, until, collective)]
    for row, lane in enumerate(lanes):
        mine = (collective < 0) & (rank == row)
        place, own = _cut(lane, since[mine], until[mine])
        head = np.stack((of[mine][place], np.full(len(place), row)))
        pieces.append(np.concatenate((head, own)))
    table = np.concatenate(pieces, axis=1)
    table = table[:, np.argsort(table[2], kind="stable")]
    return Paths(np.array(whole, np.int64), borders, *table)


def _transfers(stage_of: Int, of: Int, rank: Int, since: Int, until: Int, collective: Int) -> Int:
    """The stretches inside collectives, as columns of `Paths`."""
    mine = collective >= 0
    stage = stage_of[collective[mine]]
    whats = np.full(len(stage), WORK), np.full(len(stage), TRANSFER)
    return np.stack((of[mine], rank[mine], since[mine], until[mine], stage, *whats))


def _walk_one(
    begin: int,
    end: int,
    row: int,
    times: Times,
    order: Sequence[list[int]],
    entered: Sequence[list[int]],
) -> list[tuple[int, int, int, int]]:
    """(rank, start, end, collective or -1) from the end of the cycle back to its beginning."""
    found: list[tuple[int, int, int, int]] = []
    now, jumps = end, 0
    while now > begin:
        at = bisect_left(entered[row], now) - 1
        if at < 0:
            found.append((row, begin, now, -1))
            break
        collective = order[row][at]
        left = max(int(times.end[row, collective]), begin)
        if left < now:
            found.append((row, left, now, -1))
            now = left
            continue
        last = int(times.last[collective])
        if last < now:
            stop = max(last, begin)
            found.append((row, stop, now, collective))
            now, jumps = stop, 0
        # Here the rank waits, or has just stopped waiting: the path goes over to the last one.
        jumps += 1
        if jumps > len(order):  # ranks that entered collectives in another order: no rank is last
            stop = max(int(times.arrival[row, collective]), begin)
            found.append((row, stop, now, -1))
            now, jumps = stop, 0
        elif times.arrival[row, collective] < last:
            row = int(times.arrival[:, collective].argmax())
    return found


def _lane(one: Attribution, row: int, base: int, clocks: Common) -> _Lane:
    segments = one.segments
    order = np.argsort(segments.start, kind="stable")
    return _Lane(
        clocks.common(row, segments.start[order] + base),
        clocks.common(row, segments.end[order] + base),
        one.stage[order],
        segments.state[order].astype(np.int64),
        one.what[order],
    )


def _cut(lane: _Lane, begin: Int, end: Int) -> tuple[Int, Int]:
    """The segments inside each stretch: whose they are, and their columns of `Paths`.

    Segments of whole cycles lie side by side; beyond the first and the last it is `unknown`.
    """
    never = np.iinfo(np.int64)
    blank = np.array([UNPLACED]), np.array([IDLE]), np.array([_UNKNOWN])
    start = np.concatenate(([never.min], lane.start, lane.end[-1:]))
    ends = np.append(start[1:], never.max)
    first = np.searchsorted(start, begin, "right") - 1
    count = np.searchsorted(start, end, "left") - first
    at = spread(first, count)
    place = np.repeat(np.arange(len(begin)), count)
    columns = [
        np.concatenate((unknown, own, unknown))[at]
        for own, unknown in zip((lane.stage, lane.state, lane.what), blank, strict=True)
    ]
    since = np.maximum(start[at], begin[place])
    until = np.minimum(ends[at], end[place])
    some = until > since
    return place[some], np.stack((since, until, *columns))[:, some]
