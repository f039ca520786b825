"""Wait and transfer of every matched collective, who was late, and what it did before.

Arrival is when a rank could begin: not before its kernel starts, nor before what ran before it
on its stream has ended. Wait is until the last rank arrives, transfer from then until the rank's
own end; both on the common clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import ACTIVITIES, CLASS_OF_CODE, COMPUTE
from specscope.analyzers.attribution import COLLECTIVES, Attribution
from specscope.analyzers.clocks import Clocks
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collectives import Member
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import Ops
from specscope.analyzers.words import HOST, LAUNCH_CALL, SYNC

# What made a rank late: the largest of the parts of its way from the end of the collective before.
LATE_CAUSES = ("previous", "compute", "copy", "host", "device", "unknown")
PREVIOUS, LONGER_COMPUTE, LONGER_COPY, LATE_HOST, LATE_DEVICE, UNKNOWN_CAUSE = range(
    len(LATE_CAUSES)
)
CAUSE_MEANINGS = {
    "previous": "its part of the collective before ended later: the wire's doing",
    "compute": "its compute took longer",
    "copy": "its copies took longer",
    "host": "its host came later with the launch",
    "device": "its GPU idled longer between ops that were launched",
    "unknown": "what it did before lies outside of whole cycles",
}


@dataclass(frozen=True)
class Times:
    """By [rank, collective] on the common clock, absolute; `late` by collective.

    `cause` and `cause_ns` speak of the late rank: the part of its way that exceeded the other
    ranks' median most, and by how much.
    """

    start: Int
    end: Int
    arrival: Int
    last: Int  # arrival of the last rank
    late: Int  # row of the rank that arrived last; -1 where ranks arrived together
    late_ns: Int  # its arrival less the median of the others'
    cause: Int
    cause_ns: Int

    @property
    def wait(self) -> Int:
        """Until the last rank arrived."""
        return self.last - self.arrival

    @property
    def transfer(self) -> Int:
        """From then to the rank's own end."""
        return self.end - self.last


def before_on_stream(ops: Ops, rows: Int) -> tuple[Int, Int]:
    """Per op of `rows`: the op that started before it on its stream, and when all such had ended.

    -1 and the smallest integer where there is none.
    """
    lowest = np.iinfo(np.int64).min
    before = np.full(len(rows), -1, np.int64)
    ended = np.full(len(rows), lowest, np.int64)
    streams = ops.stream[rows]
    devices = ops.device[rows]
    for device, stream in set(zip(devices.tolist(), streams.tolist(), strict=True)):
        lane = np.flatnonzero((ops.stream == stream) & (ops.device == device))
        lane = lane[np.argsort(ops.start[lane], kind="stable")]
        reach = np.maximum.accumulate(ops.end[lane])
        place = np.empty(len(ops.start), np.int64)
        place[lane] = np.arange(len(lane))
        mine = np.flatnonzero((streams == stream) & (devices == device))
        at = place[rows[mine]] - 1
        before[mine] = np.where(at >= 0, lane[at], -1)
        ended[mine] = np.where(at >= 0, reach[at], lowest)
    return before, ended


def arrivals(ops: Ops, rows: Int) -> Int:
    """When each op could begin, on the rank's own clock; never after its own end."""
    begun = np.maximum(ops.start[rows], before_on_stream(ops, rows)[1])
    return np.minimum(begun, np.maximum(ops.end[rows], ops.start[rows]))


def measure(
    members: Sequence[Member],
    attributed: Sequence[Attribution | None],
    matched: Matched,
    clocks: Clocks,
) -> Times:
    """Arrival, wait, transfer, late rank and its cause of every matched collective."""
    start, end, arrival = [], [], []
    for row, (one, ops) in enumerate(zip(members, matched.op, strict=True)):
        table = one.rank.ops
        start.append(clocks.common(row, table.start[ops] + one.base))
        end.append(clocks.common(row, table.end[ops] + one.base))
        arrival.append(clocks.common(row, arrivals(table, ops) + one.base))
    at, left = np.stack(arrival), np.stack(end)
    last = at.max(axis=0)
    late = at.argmax(axis=0)
    late_ns = last - _others_median(at, late)
    # Closer together than clocks are known, nobody is late.
    late = np.where(late_ns > clocks.residual_ns, late, -1)
    cause, cause_ns = _causes(members, attributed, matched, clocks, at, left, late)
    return Times(np.stack(start), left, at, last, late, late_ns, cause, cause_ns)


def _others_median(values: Int, row: Int) -> Int:
    """Per column the median over all rows but one."""
    ranks, columns = values.shape
    others = np.ones((ranks, columns), dtype=bool)
    others[row, np.arange(columns)] = False
    rest = values.T[others.T].reshape(columns, ranks - 1)
    # The middle of two is halved as integers: absolute times do not fit a double.
    ordered = np.sort(rest, axis=1)
    low, high = ordered[:, (ranks - 2) // 2], ordered[:, (ranks - 1) // 2]
    return low + (high - low) // 2


def _causes(
    members: Sequence[Member],
    attributed: Sequence[Attribution | None],
    matched: Matched,
    clocks: Clocks,
    arrival: Int,
    end: Int,
    late: Int,
) -> tuple[Int, Int]:
    """Which part of the late rank's way from the collective before was longer, and by how much."""
    columns = len(late)
    unknown = np.full(columns, UNKNOWN_CAUSE, np.int64), np.zeros(columns, np.int64)
    if any(one is None or one.on_host for one in attributed) or columns < 2:
        return unknown
    ways, covered = [], np.ones(columns, dtype=bool)
    before = np.concatenate((end[:, :1], end[:, :-1]), axis=1)
    for row, (one, ops) in enumerate(zip(attributed, matched.op, strict=True)):
        assert one is not None
        table = one.rank.ops
        own = arrivals(table, ops)
        left = np.concatenate((own[:1], table.end[ops][:-1]))
        left = np.minimum(left, own)
        way, inside = _way(one, left, own)
        # In the rank's own time; the end of the collective before on the common clock.
        previous = np.minimum(before[row], arrival[row]) - before.min(axis=0)
        ways.append(np.concatenate((previous[np.newaxis], way)))
        covered &= inside
    covered[0] = False
    ways_of_ranks = np.stack(ways)  # rank, part, collective
    who = np.maximum(late, 0)
    each = np.arange(columns)
    longer = np.stack(
        [
            ways_of_ranks[who, part, each] - _others_median(ways_of_ranks[:, part], who)
            for part in range(ways_of_ranks.shape[1])
        ]
    )
    cause = longer.argmax(axis=0)
    ns = longer.max(axis=0)
    known = covered & (late >= 0) & (ns > 0)
    return np.where(known, cause, UNKNOWN_CAUSE), np.where(known, ns, 0)


def _way(one: Attribution, begin: Int, end: Int) -> tuple[Int, Bool]:
    """Compute, copies, idle by the host and by the device between two times, from segments.

    Also whether both times lie inside whole cycles.
    """
    segments = one.segments
    if not len(segments.start):
        return np.zeros((4, len(begin)), np.int64), np.zeros(len(begin), dtype=bool)
    order = np.argsort(segments.start, kind="stable")
    start, length = segments.start[order], segments.ns[order]
    part = _PART_OF_WHAT[one.what[order]]
    # The segment that each time lies in; they lie side by side.
    first, last = (
        np.maximum(np.searchsorted(start, time, "right") - 1, 0) for time in (begin, end)
    )
    sums = []
    for number in range(4):
        mine = part == number
        total = np.concatenate(([0], np.cumsum(np.where(mine, length, 0))))
        until = total[last] + np.where(mine[last], np.maximum(end - start[last], 0), 0)
        since = total[first] + np.where(mine[first], np.maximum(begin - start[first], 0), 0)
        sums.append(until - since)
    inside = (begin >= one.cycles.borders[0]) & (end <= one.cycles.borders[-1])
    return np.stack(sums), inside


def _part_of_what() -> Int:
    """Part of the way by code of `what`: work by class, idle by cause; -1 for collectives."""
    work = [
        -1 if code in COLLECTIVES else 0 if CLASS_OF_CODE[code] == COMPUTE else 1
        for code in range(len(ACTIVITIES))
    ]
    idle = [2 if cause in (SYNC, HOST, LAUNCH_CALL) else 3 for cause in range(6)]
    return np.array([*work, *idle], np.int64)


_PART_OF_WHAT = _part_of_what()
