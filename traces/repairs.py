"""GPU times that cannot be true, and begin/end pairs: found, mended, counted.

All functions are vectorised; none looks at events one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .events import ABSENT

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# An op that starts this much before its own launch call has a time from another clock. In 77 real
# traces no op starts before its call; where clocks are badly aligned it can, by microseconds.
EARLY_START_NS = 1_000_000

# An op that ends this much after a *later launch* on its stream has ended carries a late
# completion stamp. Kernels of one stream do overlap (programmatic dependent launch: up to 79 ms
# in our recordings, where the later kernel waits for the earlier one), but in the same traces no
# op at all ends after the end of one that started later on its stream. Branches of one graph
# launch may share a stream number and do end in any order, so ops of the same launch are never
# held against each other.
LATE_END_NS = 1_000_000


def earliest_call(op_correlation: Ints, call_correlation: Ints, call_start: Ints) -> Ints:
    """Start of the earliest call with each op's correlation; ABSENT where there is none."""
    known = call_correlation != ABSENT
    if not known.any() or not len(op_correlation):
        return np.full(len(op_correlation), ABSENT, dtype=np.int64)
    ids, starts = call_correlation[known], call_start[known]
    order = np.lexsort((starts, ids))
    ids, starts = ids[order], starts[order]
    first = np.r_[True, ids[1:] != ids[:-1]]
    ids, starts = ids[first], starts[first]
    # The ops of a graph launch stand together: one look for all of them.
    heads = np.flatnonzero(np.r_[True, op_correlation[1:] != op_correlation[:-1]])
    wanted = op_correlation[heads]
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    found = np.where(ids[place] == wanted, starts[place], ABSENT)
    return np.repeat(found, np.diff(np.r_[heads, len(op_correlation)]))


def invalid_op_times(start: Ints, dur: Ints, has_time: Bools, call_start: Ints) -> Bools:
    """Ops without a time, with time and length 0, or far before their own launch call."""
    early = (call_start != ABSENT) & (start < call_start - EARLY_START_NS)
    bad: Bools = ~has_time | ((start == 0) & (dur == 0)) | early
    return bad


def equal_starts(start: Ints) -> Ints:
    """Places of the rows whose start another row has too.

    None where all times are whole microseconds: there two short ops of one graph can look alike.
    """
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any() or not (start % 1000).any():
        return _NONE
    tied: Ints = order[np.r_[same, False] | np.r_[False, same]]
    return tied


def written_twice(*columns: npt.NDArray[np.integer]) -> Bools:
    """Rows that equal an earlier row in every one of `columns`."""
    count = len(columns[0])
    order = np.lexsort((np.arange(count), *columns))
    alike = [column[order[1:]] == column[order[:-1]] for column in columns]
    twice = np.zeros(count, dtype=bool)
    twice[order[1:][np.logical_and.reduce(alike)]] = True
    return twice


@dataclass(frozen=True)
class Clipped:
    """Ops whose end was taken back: their index, their end as recorded, and the repaired one."""

    index: Ints
    raw_end: Ints
    end: Ints


def clip_late_ends(device: Ints, stream: Ints, start: Ints, end: Ints, launch: Ints) -> Clipped:
    """Ops that run on beyond a later launch of their stream, clipped to the next start there.

    `launch` is the correlation; an op without one (ABSENT) is a launch of its own. The inputs
    are not changed.
    """
    suspects = _may_run_late(device, stream, start, end)
    order = suspects[
        np.lexsort((end[suspects], start[suspects], stream[suspects], device[suspects]))
    ]
    changed = (np.diff(device[order]) != 0) | (np.diff(stream[order]) != 0)
    found = [_NONE]
    ends = [_NONE]
    for track in np.split(order, np.flatnonzero(changed) + 1):
        if len(track) < 2:
            continue
        late, new_end = _late_on_track(start[track], end[track], launch[track])
        found.append(track[late])
        ends.append(new_end)
    index = np.concatenate(found)
    return Clipped(index, end[index], np.concatenate(ends))


def _may_run_late(device: Ints, stream: Ints, start: Ints, end: Ints) -> Ints:
    """All ops of the streams where an op may have a late end: mostly none, at little cost.

    Such an op is longer than LATE_END_NS, and another of its stream starts in it and ends that
    long before it.
    """
    long_ops = np.flatnonzero(end - start > LATE_END_NS)
    if not len(long_ops):
        return _NONE
    long_ops = long_ops[np.argsort(start[long_ops], kind="stable")]
    reach = np.maximum.accumulate(end[long_ops])
    place = np.searchsorted(start[long_ops], start, side="right") - 1
    early = np.flatnonzero((place >= 0) & (end + LATE_END_NS < reach[place]))
    streams = set(zip(device[early].tolist(), stream[early].tolist(), strict=True))
    streams &= set(zip(device[long_ops].tolist(), stream[long_ops].tolist(), strict=True))
    found = [np.flatnonzero((device == on) & (stream == lane)) for on, lane in sorted(streams)]
    return np.concatenate([_NONE, *found])


_NONE: Ints = np.zeros(0, dtype=np.int64)


def _late_on_track(start: Ints, end: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Positions with a late end among the ops of one stream in start order, and their mend."""
    count = len(start)
    smallest_end = np.minimum.accumulate(end[::-1])[::-1]
    if not (end[:-1] > smallest_end[1:] + LATE_END_NS).any():
        return _NONE, _NONE
    _, group = np.unique(launch, return_inverse=True)
    last_of_group = np.zeros(group.max() + 1, dtype=np.int64)
    last_of_group[group] = np.arange(count)  # the last assignment stays
    after = np.where(launch == ABSENT, np.arange(count), last_of_group[group]) + 1
    bound = smallest_end[np.minimum(after, count - 1)] + LATE_END_NS
    late = np.flatnonzero((after < count) & (end > bound))
    nearest = np.searchsorted(start, start[late], side="right")
    new_end = start[np.minimum(nearest, count - 1)]
    usable = (nearest < count) & (new_end < end[late])
    return late[usable], new_end[usable]


@dataclass(frozen=True)
class Pairs:
    """Begin and end events that belong together, by index, and those without a partner."""

    begin: Ints
    end: Ints
    alone: Ints


def join_begin_end(begin: Bools, end: Bools, pid: Ints, tid: Ints, ts: Ints) -> Pairs:
    """Pairs ph B with ph E as a stack per thread: by time, equal times in file order."""
    events = np.flatnonzero(begin | end)
    if not len(events):
        return Pairs(_NONE, _NONE, _NONE)
    order = events[np.lexsort((events, ts[events], tid[events], pid[events]))]
    opens = begin[order]
    new_thread = np.r_[True, (np.diff(pid[order]) != 0) | (np.diff(tid[order]) != 0)]
    thread = np.cumsum(new_thread) - 1
    depth = np.cumsum(np.where(opens, 1, -1))
    level = depth - np.where(opens, 1, 0)  # a pair stands on the same level
    rows = np.lexsort((np.arange(len(order)), level, thread))
    first, second = rows[:-1], rows[1:]
    match = (
        opens[first]
        & ~opens[second]
        & (thread[first] == thread[second])
        & (level[first] == level[second])
    )
    paired = np.concatenate([first[match], second[match]])
    alone = np.ones(len(order), dtype=np.bool_)
    alone[paired] = False
    return Pairs(order[first[match]], order[second[match]], order[alone])
