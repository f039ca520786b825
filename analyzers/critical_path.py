"""What holds the end of the group's cycle back: its critical path over the ranks.

The group's cycle goes from the moment the last rank begins a cycle to the moment the last rank
begins the next. From its end the path is walked back on the rank that is last: through what that
rank did, until the end of a collective; through its transfer, to the arrival of the last rank;
there the path goes over to that rank. So it never holds waiting, and its pieces lie side by
side: they sum to the cycle to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.attribution import WHATS, Attribution
from specscope.analyzers.clocks import Clocks
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collective_times import Times
from specscope.analyzers.columns import Int
from specscope.analyzers.words import IDLE, UNPLACED, WORK

# What the path holds: as segments do, and the transfer of a collective.
PATH_WHATS = (*WHATS, "transfer")
TRANSFER = len(WHATS)
_UNKNOWN = WHATS.index("unknown")


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
    matched: Matched,
    clocks: Clocks,
    times: Times,
) -> Paths | None:
    """The critical path of every cycle that all ranks have; None where there is none.

    `whole` numbers those cycles by the first rank, `shift` leads from a rank's number to it.
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
    pieces: list[tuple[int, int, int, int, int, int, int]] = []
    order = [np.argsort(arrival, kind="stable") for arrival in times.arrival]
    entered = [arrival[rows] for arrival, rows in zip(times.arrival, order, strict=True)]
    for index in range(len(whole)):
        found = _walk_one(
            int(borders[index]),
            int(borders[index + 1]),
            int(last[index + 1]),
            times,
            order,
            entered,
        )
        for row, since, until, collective in reversed(found):
            if collective >= 0:
                stage = int(matched.stage[collective])
                pieces.append((index, row, since, until, stage, WORK, TRANSFER))
            else:
                pieces += [(index, row, *piece) for piece in _cut(lanes[row], since, until)]
    table = np.array(pieces, np.int64).reshape(-1, 7).T
    return Paths(np.array(whole, np.int64), borders, *table)


def _walk_one(
    begin: int, end: int, row: int, times: Times, order: Sequence[Int], entered: Sequence[Int]
) -> list[tuple[int, int, int, int]]:
    """(rank, start, end, collective or -1) from the end of the cycle back to its beginning."""
    found: list[tuple[int, int, int, int]] = []
    now, jumps = end, 0
    while now > begin:
        at = int(np.searchsorted(entered[row], now, "left")) - 1
        if at < 0:
            found.append((row, begin, now, -1))
            break
        collective = int(order[row][at])
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


def _lane(one: Attribution, row: int, base: int, clocks: Clocks) -> _Lane:
    segments = one.segments
    order = np.argsort(segments.start, kind="stable")
    return _Lane(
        clocks.common(row, segments.start[order] + base),
        clocks.common(row, segments.end[order] + base),
        one.stage[order],
        segments.state[order].astype(np.int64),
        one.what[order],
    )


def _cut(lane: _Lane, begin: int, end: int) -> list[tuple[int, int, int, int, int]]:
    """The segments inside [begin, end), and `unknown` where there are none."""
    first = max(int(np.searchsorted(lane.start, begin, "right")) - 1, 0)
    stop = int(np.searchsorted(lane.start, end, "left"))
    found = []
    now = begin
    for at in range(first, stop):
        low, high = max(int(lane.start[at]), now), min(int(lane.end[at]), end)
        if high <= low:
            continue
        if low > now:
            found.append((now, low, UNPLACED, IDLE, _UNKNOWN))
        found.append((low, high, int(lane.stage[at]), int(lane.state[at]), int(lane.what[at])))
        now = high
    if now < end:
        found.append((now, end, UNPLACED, IDLE, _UNKNOWN))
    return found
