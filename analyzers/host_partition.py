"""The partition of a run on the CPU: host ranges of the main thread, no GPU (design 5.3).

Also of a cycle log, by whichever clock its stages were placed.

Innermost stage range owns the instant, none is `schedule`; inside, a collective operator is
`collective`, the rest is `host`. There is no idle and no busy share: a host thread that is
between ranges is not known to be idle.
"""

from __future__ import annotations

import re

import numpy as np

from specscope.analyzers.activities import ACTIVITIES, CODE_OF_ACTIVITY
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.idle import union
from specscope.analyzers.partition import Segments
from specscope.analyzers.rank import Rank
from specscope.analyzers.spans import innermost
from specscope.analyzers.stages import Placed
from specscope.analyzers.words import HOST, SCHEDULE, WORK

# Host operators that talk to other ranks: c10d and the engines' own.
_COLLECTIVE = re.compile(
    r"^(?:c10d::|nccl:|gloo:|_C::shm_|vllm::all_|sglang::.*all_reduce|record_param_comms)"
)


def partition(rank: Rank, placed: Placed, cycles: Cycles) -> tuple[Segments, Int, Int]:
    """Segments of all whole cycles, with stage and what (index into attribution.WHATS)."""
    openings = placed.placement.openings
    thread = openings[0].thread if openings else -1
    borders = cycles.borders
    spans = [s for s in placed.placement.spans if s.thread == thread]
    edges = [borders, *(np.array([s.start, s.end], np.int64) for s in spans)]
    low, high = _collectives(rank, thread)
    times = np.unique(np.concatenate([*edges, low, high]))
    inside = (times >= borders[:1]) & (times <= borders[-1:]) if len(borders) > 1 else slice(0)
    times = times[inside]
    start, end = times[:-1], times[1:]
    owner = innermost(spans, np.full(len(start), thread, np.int32), start)
    stage = np.array([s.stage for s in spans] + [SCHEDULE], np.int64)[owner]
    communicates = _inside(start, low, high)
    # Of what the GPU does inside a stage, events say nothing.
    by_host = placed.placement.clock == "host"
    host = len(ACTIVITIES) + HOST if by_host else CODE_OF_ACTIVITY["other"]
    what = np.where(communicates, CODE_OF_ACTIVITY["collective"], host).astype(np.int64)
    segments = Segments(
        cycle=np.searchsorted(borders, start, "right") - 1,
        start=start,
        end=end,
        op=np.full(len(start), -1, np.int64),
        state=np.full(len(start), WORK, np.int8),
        what=what.astype(np.int16),
    )
    return segments, stage, what


def _collectives(rank: Rank, thread: int) -> tuple[Int, Int]:
    """Union of the collective operators on that thread."""
    ranges = rank.ranges
    named = np.array([bool(_COLLECTIVE.match(n[:256])) for n in ranges.names] + [False], dtype=bool)
    mine = named[ranges.name] & (ranges.thread == thread) & (ranges.end > ranges.start)
    return union(ranges.start[mine], ranges.end[mine])


def _inside(time: Int, low: Int, high: Int) -> Bool:
    """Is each time inside one of the disjoint intervals?"""
    if len(low) == 0:
        return np.zeros(len(time), dtype=bool)
    at = np.searchsorted(low, time, "right") - 1
    return (at >= 0) & (time < high[np.maximum(at, 0)])
