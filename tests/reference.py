"""Attribution of one rank, written for reading: the slow twin of the fast algorithms.

Every function follows one paragraph of the design (5.1 links, 5.4 ownership, 5.3 cycles,
5.5 partition, 5.6 causes) on plain lists, instant by instant, with no thought for speed. It
shares no code with `specscope.analyzers`, so that a fault there cannot hide here. All
intervals are half-open, all times integer nanoseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

UNPLACED = "unplaced"
SCHEDULE = "schedule"

# Between streams the lower number keeps the instant.
CLASS_ORDER = {"compute": 0, "collective": 1, "fused_collective": 1, "copy": 2, "set": 3}

T = TypeVar("T")


class Op(NamedTuple):
    """One piece of GPU work; `what` is its class, a key of CLASS_ORDER."""

    start: int
    end: int
    stream: int = 7
    correlation: int | None = None
    what: str = "compute"
    name: str = ""


class Call(NamedTuple):
    """One runtime call of a host thread; `kind` launch, graph_launch, copy, set, sync, other.

    `blocks` tells that the thread waits for the GPU inside it.
    """

    start: int
    end: int
    thread: int = 1
    correlation: int | None = None
    kind: str = "launch"
    blocks: bool = False


class StageRange(NamedTuple):
    """One host range that names a stage."""

    start: int
    end: int
    stage: str
    thread: int = 1
    cycle: int | None = None


class Segment(NamedTuple):
    """A stretch of one cycle with one owner: a running op, or the op that ends the gap."""

    cycle: int
    start: int
    end: int
    stage: str
    state: str
    what: str
    op: int


Window = tuple[int, int]


def link(ops: Sequence[Op], calls: Sequence[Call]) -> list[int | None]:
    """Per op its launch call: same correlation, able to launch, not after the op's start.

    A correlation used again belongs to the latest call that the op can have come from.
    """
    launchers = ("launch", "graph_launch", "copy", "set")
    links: list[int | None] = []
    for op in ops:
        fitting = [
            i
            for i, call in enumerate(calls)
            if op.correlation is not None
            and call.correlation == op.correlation
            and call.kind in launchers
            and call.start <= op.start
        ]
        links.append(max(fitting, key=lambda i: calls[i].start, default=None))
    return links


def own(
    links: Sequence[int | None], calls: Sequence[Call], ranges: Sequence[StageRange]
) -> list[int | None]:
    """Per op the stage range around the start of its launch call, or None.

    Innermost is the range that opened last; of two that opened together the shorter.
    """
    owners: list[int | None] = []
    for call_id in links:
        call = None if call_id is None else calls[call_id]
        around = [
            i
            for i, r in enumerate(ranges)
            if call is not None and r.thread == call.thread and r.start <= call.start < r.end
        ]
        owners.append(max(around, key=lambda i: (ranges[i].start, -ranges[i].end, i), default=None))
    return owners


def stages(
    links: Sequence[int | None], owners: Sequence[int | None], ranges: Sequence[StageRange]
) -> list[str]:
    """Per op its stage: that of its range; schedule without one; unplaced without a call."""
    return [
        UNPLACED if call is None else SCHEDULE if owner is None else ranges[owner].stage
        for call, owner in zip(links, owners, strict=True)
    ]


def openings(ranges: Sequence[StageRange], stage: str = "draft") -> list[list[int]]:
    """The ranges that open a cycle, those of one opening together, in time order.

    One opening: the same cycle number; without numbers, ranges of the stage with no other
    stage between them (draft steps).
    """
    found: list[list[int]] = []
    numbered: dict[int, list[int]] = {}
    previous: StageRange | None = None
    for i in sorted(range(len(ranges)), key=lambda i: (ranges[i].start, -ranges[i].end)):
        this = ranges[i]
        if this.stage == stage:
            if this.cycle is not None:
                if this.cycle not in numbered:
                    numbered[this.cycle] = []
                    found.append(numbered[this.cycle])
                numbered[this.cycle].append(i)
            elif previous is not None and previous.stage == stage and previous.cycle is None:
                found[-1].append(i)
            else:
                found.append([i])
        previous = this
    return found


def windows(
    ops: Sequence[Op], owners: Sequence[int | None], opened_by: Sequence[Sequence[int]]
) -> list[Window]:
    """The cycles on the GPU: from the first op of one opening to that of the next.

    An opening without any op opens nothing; the last cycle has no end and is dropped.
    """
    starts = []
    for opening in opened_by:
        mine = [op.start for op, owner in zip(ops, owners, strict=True) if owner in opening]
        if mine:
            starts.append(min(mine))
    return list(pairwise(starts))


def partition(
    ops: Sequence[Op],
    links: Sequence[int | None],
    stage_of: Sequence[str],
    calls: Sequence[Call],
    cycles: Sequence[Window],
) -> list[Segment]:
    """Every instant of every cycle with its one owner, in time order.

    An op of no length owns no instant, but it ends the gap before it: the device did
    something there.
    """
    found = []
    for cycle, (start, end) in enumerate(cycles):
        for t, until in _instants(ops, calls, start, end):
            running = [i for i, op in enumerate(ops) if op.start <= t < op.end]
            if running:
                op = _keeper(running, ops, links, calls)
                state, what = "work", ops[op].what
            else:
                following = min(op.start for op in ops if op.start > t)
                enders = [i for i, op in enumerate(ops) if op.start == following]
                op = _keeper(enders, ops, links, calls)
                state, what = "idle", _cause(t, op, ops, links, calls)
            found.append(Segment(cycle, t, until, stage_of[op], state, what, op))
    return found


def _instants(
    ops: Sequence[Op], calls: Sequence[Call], start: int, end: int
) -> Iterable[tuple[int, int]]:
    """The cycle cut wherever anything starts or ends: inside one piece nothing changes."""
    borders = {t for op in ops for t in (op.start, op.end)}
    borders |= {t for call in calls for t in (call.start, call.end)}
    inside = sorted({start, end} | {t for t in borders if start < t < end})
    return pairwise(inside)


def _keeper(
    candidates: Sequence[int],
    ops: Sequence[Op],
    links: Sequence[int | None],
    calls: Sequence[Call],
) -> int:
    """Of the ops that claim an instant the one that keeps it.

    First on each stream (the earlier start; at equal starts the earlier launch call, an
    unlinked op last, then the lower correlation, then the order in the file), then between
    the streams (class, earlier start, lower stream).
    """

    def on_stream(i: int) -> tuple[int, bool, int, int, int]:
        call = links[i]
        correlation = ops[i].correlation
        return (
            ops[i].start,
            call is None,
            0 if call is None else calls[call].start,
            -1 if correlation is None else correlation,
            i,
        )

    per_stream = [
        min(group, key=on_stream)
        for group in _grouped(candidates, lambda i: ops[i].stream).values()
    ]
    return min(per_stream, key=lambda i: (CLASS_ORDER[ops[i].what], ops[i].start, ops[i].stream))


def _cause(
    t: int,
    ender: int,
    ops: Sequence[Op],
    links: Sequence[int | None],
    calls: Sequence[Call],
) -> str:
    """Why the device was idle at instant `t`, in a gap that op `ender` ends."""
    call_id = links[ender]
    if call_id is None or _kernels_missing(ops, links, calls):
        return "unknown"
    call = calls[call_id]
    if call.kind == "graph_launch":
        replayed = [i for i, link_ in enumerate(links) if link_ == call_id]
        first = min(ops[i].start for i in replayed)
        if ops[ender].start > first:
            return "graph"
    if t >= call.end:
        return "queue"
    if t >= call.start:
        return "launch_call"
    waiting = any(c.blocks and c.thread == call.thread and c.start <= t < c.end for c in calls)
    return "sync" if waiting else "host"


def _kernels_missing(ops: Sequence[Op], links: Sequence[int | None], calls: Sequence[Call]) -> bool:
    """Are kernels, or graphs, launched, and not one kernel of such a launch on record?"""
    for kind in ("launch", "graph_launch"):
        launches = {i for i, call in enumerate(calls) if call.kind == kind}
        seen = {link for op, link in zip(ops, links, strict=True) if op.what not in ("copy", "set")}
        if launches and not launches & seen:
            return True
    return False


def parts(segments: Iterable[Segment]) -> list[dict[str, int]]:
    """Per cycle the nanoseconds of each `state/stage/what`."""
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    for s in segments:
        sums[s.cycle][f"{s.state}/{s.stage}/{s.what}"] += s.end - s.start
    return [dict(sums[cycle]) for cycle in sorted(sums)]


def _grouped(items: Iterable[T], key: Callable[[T], int]) -> dict[int, list[T]]:
    groups: dict[int, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
