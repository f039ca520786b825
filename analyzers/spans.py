"""Stage spans: host intervals of one thread that belong to a stage, whatever says so.

Every kind of evidence ends as spans; a launch belongs to the innermost span that contains
its start on its thread, else to `schedule` (design 5.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.columns import Int, Small


@dataclass(frozen=True)
class Span:
    """One host interval [start, end) of `thread` that belongs to `stage`.

    `thread` is an index into `Calls.threads`; `sure` is False where only the order of launches
    says where the span begins.
    """

    thread: int
    start: int
    end: int
    stage: int
    evidence: str
    cycle: int | None = None
    step: int | None = None
    batch: int | None = None
    tokens: int | None = None
    k: int | None = None
    sure: bool = True


def innermost(spans: Sequence[Span], thread: Small, at: Int) -> Int:
    """Per (thread, time): index of the innermost span that contains it, or -1.

    The innermost is the one that starts last; of equal starts, the shorter. Spans that
    overlap without nesting are allowed. Cost: a step per span border, then one search.
    """
    owner = np.full(len(at), -1, np.int64)
    by_thread: dict[int, list[int]] = {}
    for index, span in enumerate(spans):
        if span.end > span.start:
            by_thread.setdefault(span.thread, []).append(index)
    for number, members in by_thread.items():
        here = np.flatnonzero(thread == number)
        if len(here) == 0:
            continue
        times, owners = timeline(spans, members)
        position = np.searchsorted(times, at[here], "right") - 1
        owner[here] = np.where(position >= 0, owners[np.maximum(position, 0)], -1)
    return owner


def timeline(spans: Sequence[Span], members: Iterable[int] | None = None) -> tuple[Int, Int]:
    """Border times of one thread and the innermost span from each border on (-1: none).

    `members` are the spans of that thread; all of `spans` when left out.
    """
    members = range(len(spans)) if members is None else list(members)
    events: list[tuple[int, int, int, int]] = []
    for index in members:
        span = spans[index]
        # Ends before starts; of equal starts the longer first, so that the shorter is on top.
        events.append((span.start, 1, -span.end, index))
        events.append((span.end, 0, 0, index))
    events.sort()
    stack: list[int] = []
    times: list[int] = []
    owners: list[int] = []
    for time, is_start, _, index in events:
        if is_start:
            stack.append(index)
        else:
            stack.remove(index)
        owner = stack[-1] if stack else -1
        if times and times[-1] == time:
            owners[-1] = owner
        else:
            times.append(time)
            owners.append(owner)
    return np.array(times, np.int64), np.array(owners, np.int64)
