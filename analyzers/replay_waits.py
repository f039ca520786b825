"""What a synchronising call waits for.

A trace names neither the event nor the stream. A stream's synchronise waits for what its thread
launched last. An event's waits for what was launched before the event was recorded; which of the
recorded events it is, is told by its place: the same call of every cycle waits for the same
event, so that event's work must have ended before the call returns, in every cycle. Of those
that qualify it is the one whose work ends last.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Int
from specscope.analyzers.links import SYNC
from specscope.analyzers.replay import RETURN, SYNC_CALL, UNEXPLAINED
from specscope.analyzers.replay_device import Device
from specscope.analyzers.replay_host import EVENT_RECORD, Stops, blocking, named
from specscope.analyzers.replay_parts import Parts

EVENT_SYNC = re.compile(r"EventSynchronize")
WHOLE_SYNC = re.compile(r"(Device|Ctx)Synchronize")
# A waiting call returns within so much after the end of the work it waits for.
PROMPT_RETURN_NS = 50_000.0
RETURN_NS = 5_000.0
# A waiting call that finds its work done takes so long or less.
FREE_SYNC_NS = 5_000.0
# Cycles that an event may be older than the call that waits for it.
CYCLES_BACK = 2
# Clocks of host and device agree to about so much.
_SLACK_NS = 2_000


def add_waits(parts: Parts, one: Attribution, row: int, stops: Stops, device: Device) -> None:
    """Edges from the awaited op's end to the end of the call that waits for it."""
    calls = one.rank.calls
    if not len(calls.start):
        return
    kept = np.flatnonzero(stops.call >= 0)
    sync = kept[calls.kind[stops.call[kept]] == SYNC]
    event = named(calls.names, EVENT_SYNC)[calls.name[stops.call[sync]]]
    last = last_launched(one, stops)
    awaited = np.full(len(stops.call), -1, np.int64)
    awaited[sync[~event]] = last[sync[~event]]
    awaited[sync[event]] = _events(one, stops, device, sync[event], last)
    whole = named(calls.names, WHOLE_SYNC)[calls.name[stops.call[sync]]]
    awaited[sync[whole]] = _everything(one, stops, device, sync[whole])
    copies = kept[blocking(one, stops.call[kept])]
    ops = one.rank.ops
    op_of_call = np.full(len(calls.start), -1, np.int64)
    linked = np.flatnonzero(ops.call >= 0)
    op_of_call[ops.call[linked]] = linked
    awaited[copies] = op_of_call[stops.call[copies]]
    waiting = np.concatenate((sync, copies))
    known = waiting[awaited[waiting] >= 0]
    after = stops.end[known] - device.end_ns[awaited[known]]
    known = known[after >= -_SLACK_NS]
    after = (stops.end[known] - device.end_ns[awaited[known]]).astype(np.float64)
    blocked = device.end_ns[awaited[known]] > stops.start[known]
    prompt = blocked & (after <= PROMPT_RETURN_NS)
    usual = float(np.median(after[prompt])) if prompt.any() else RETURN_NS
    stage = one.placed.stage_of_call[stops.call[known]].astype(np.int64)
    parts.edges(
        device.end_point[awaited[known]],
        stops.end_point[known],
        np.where(prompt, np.inf, usual),
        RETURN,
        rank=row,
        stage=stage,
        item=stops.call[known],
    )
    # What took long and waited for nothing that is known keeps its length, by its own name.
    explained = np.zeros(len(stops.call), dtype=bool)
    explained[known[prompt]] = True
    for rows, least in ((sync, FREE_SYNC_NS), (copies, 2 * FREE_SYNC_NS)):
        length = (stops.end[rows] - stops.start[rows]).astype(np.float64)
        for which, kind, ns in (
            (explained[rows] | (length <= PROMPT_RETURN_NS), SYNC_CALL, None),
            (~explained[rows] & (length > PROMPT_RETURN_NS), UNEXPLAINED, None),
        ):
            of = rows[which]
            free = explained[of]
            parts.edges(
                stops.begin_point[of],
                stops.end_point[of],
                np.where(free, least, np.inf) if ns is None else ns,
                kind,
                rank=row,
                stage=one.placed.stage_of_call[stops.call[of]].astype(np.int64),
                count=1,
                item=stops.call[of],
            )


def _everything(one: Attribution, stops: Stops, device: Device, sync: Int) -> Int:
    """Per call: of all ops launched before it the one that ends last; -1 of none."""
    ops, calls = one.rank.ops, one.rank.calls
    linked = np.flatnonzero(ops.call >= 0)
    launched = calls.start[ops.call[linked]]
    found = np.full(len(sync), -1, np.int64)
    for index, stop in enumerate(sync.tolist()):
        before = linked[launched < stops.start[stop]]
        if len(before):
            found[index] = before[device.end_ns[before].argmax()]
    return found


def last_launched(one: Attribution, stops: Stops) -> Int:
    """Per stop: the op that its thread launched last before it, the latest on its stream; -1."""
    ops = one.rank.ops
    last_of_call = np.full(len(one.rank.calls.start), -1, np.int64)
    linked = np.flatnonzero(ops.call >= 0)
    linked = linked[np.argsort(ops.start[linked], kind="stable")]
    last_of_call[ops.call[linked]] = linked
    own = np.where(stops.call >= 0, last_of_call[np.maximum(stops.call, 0)], -1)
    place = np.where(own >= 0, np.arange(len(own)), -1)
    new = np.ones(len(own), dtype=bool)
    new[1:] = stops.thread[1:] != stops.thread[:-1]
    # A thread begins with nothing launched.
    floor = np.maximum.accumulate(np.where(new, np.arange(len(own)), 0)) if len(own) else place
    latest = np.maximum.accumulate(place) if len(own) else place
    before = np.concatenate(([-1], latest[:-1])) if len(own) else place
    return np.where(before >= floor, own[np.maximum(before, 0)], -1)


def _events(one: Attribution, stops: Stops, device: Device, sync: Int, last: Int) -> Int:
    """Per event synchronise: the op it waits for, by its place in the cycle; -1 unknown."""
    calls = one.rank.calls
    found = np.full(len(sync), -1, np.int64)
    is_record = named(calls.names, EVENT_RECORD)[calls.name[np.maximum(stops.call, 0)]]
    record = np.flatnonzero((stops.call >= 0) & is_record & (last >= 0))
    if not len(sync) or not len(record):
        return found
    recorded = {
        role: (int(last[stop]), int(stops.start[stop]))
        for role, stop in zip(_roles(one, stops, record), record.tolist(), strict=True)
        if role[1] >= 0
    }
    places = sorted({(thread, place) for thread, _, place in recorded})
    members_of: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for index, (thread, cycle, place) in enumerate(_roles(one, stops, sync)):
        # Before the first cycle the capture begins in the middle: places there mean nothing.
        if cycle >= 0:
            members_of[thread, place].append((index, cycle))
    for (thread, _), members in members_of.items():
        rows = sync[[index for index, _ in members]]
        best: tuple[float, Int] | None = None
        for back in range(CYCLES_BACK + 1):
            for other, place in places:
                if other != thread:
                    continue
                events = [recorded.get((thread, cycle - back, place)) for _, cycle in members]
                fit = _fit(stops, device, rows, events)
                if fit is not None and (best is None or fit[0] > best[0]):
                    best = fit
        if best is not None:
            found[[index for index, _ in members]] = best[1]
    return found


def _fit(
    stops: Stops, device: Device, sync: Int, events: list[tuple[int, int] | None]
) -> tuple[float, Int] | None:
    """How long after the call's begin the work ends, and the ops; None where it cannot be it."""
    op = np.array([-1 if event is None else event[0] for event in events], np.int64)
    when = np.array([0 if event is None else event[1] for event in events], np.int64)
    known = op >= 0
    # A capture begins in the middle: the first cycles may lack their event.
    if known.sum() < max(1, len(events) - CYCLES_BACK):
        return None
    ends = device.end_ns[op[known]]
    if (when[known] > stops.start[sync[known]]).any():
        return None
    if (ends > stops.end[sync[known]] + _SLACK_NS).any():
        return None
    return float(np.median(ends - stops.start[sync[known]])), op


def _roles(one: Attribution, stops: Stops, rows: Int) -> list[tuple[int, int, int]]:
    """Thread, host cycle, and number within the cycle of each stop."""
    begins = np.append(one.cycles.host_start, one.cycles.host_end[-1:])
    cycle = np.searchsorted(begins, stops.start[rows], "right") - 1
    seen: dict[tuple[int, int], int] = defaultdict(int)
    roles = []
    for thread, number in zip(stops.thread[rows].tolist(), cycle.tolist(), strict=True):
        roles.append((thread, number, seen[thread, number]))
        seen[thread, number] += 1
    return roles
