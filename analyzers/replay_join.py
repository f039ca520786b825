"""What joins the ranks in the replay: collectives on the GPU and messages between hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Int
from specscope.analyzers.replay import (
    ALONE,
    ARRIVE,
    HOST_TRANSFER,
    TRANSFER,
)
from specscope.analyzers.replay_device import Device
from specscope.analyzers.replay_host import Stops
from specscope.analyzers.replay_parts import Parts
from specscope.analyzers.words import SCHEDULE

# All ranks leave a host message within so much of one another.
_MESSAGE_NS = 2_000_000.0


def add_collectives(
    parts: Parts, attributed: Sequence[Attribution], devices: Sequence[Device], op: Int
) -> None:
    """Collectives `op` by [rank, collective]: nobody transfers before the last has arrived."""
    arrival = np.stack([parts.time(d.begin_point[of]) for d, of in zip(devices, op, strict=True)])
    join = parts.points(arrival.max(axis=0))
    for row, (one, device, of) in enumerate(zip(attributed, devices, op, strict=True)):
        stage = one.placed.stage_of_op[of].astype(np.int64)
        what = one.rank.activity[of].astype(np.int64)
        zero = np.zeros(len(of))
        parts.edges(
            device.begin_point[of], join, zero, ARRIVE, rank=row, stage=stage, what=what, item=of
        )
        parts.edges(
            join, device.end_point[of], None, TRANSFER, rank=row, stage=stage, what=what, item=of
        )
        never = np.full(len(of), -np.inf)
        parts.edges(
            device.begin_point[of],
            device.end_point[of],
            never,
            ALONE,
            rank=row,
            stage=stage,
            what=what,
            item=of,
        )


def add_messages(parts: Parts, stops: Sequence[Stops]) -> int:
    """Host messages of all ranks: done when the last rank has begun, and its way. Their number.

    A message is matched by when the ranks leave it. One that not every rank has is the thread's
    own work.
    """
    rows = [np.flatnonzero(one.message >= 0) for one in stops]
    ends = [parts.time(one.end_point[of]) for one, of in zip(stops, rows, strict=True)]
    together: list[list[int]] = []
    for place, end in enumerate(ends[0].tolist()):
        found = [place]
        for other in ends[1:]:
            if not len(other):
                break
            nearest = int(np.abs(other - end).argmin())
            if abs(other[nearest] - end) > _MESSAGE_NS:
                break
            found.append(nearest)
        if len(found) == len(stops):
            together.append(found)
    together = [one for one in together if _once(one, together)]
    matched = np.array(together, np.int64).reshape(-1, len(stops)).T
    if matched.shape[1]:
        pairs = list(zip(stops, rows, matched, strict=True))
        begin = np.stack([parts.time(one.begin_point[of[at]]) for one, of, at in pairs])
        join = parts.points(begin.max(axis=0))
        for row, (one, of, at) in enumerate(pairs):
            stop = of[at]
            parts.edges(
                one.begin_point[stop],
                join,
                np.zeros(len(stop)),
                ARRIVE,
                rank=row,
                stage=SCHEDULE,
            )
            parts.edges(
                join, one.end_point[stop], None, HOST_TRANSFER, rank=row, stage=SCHEDULE
            )
    for row, (one, of, used) in enumerate(zip(stops, rows, matched, strict=True)):
        add_own_messages(parts, row, one, of[~np.isin(np.arange(len(of)), used)])
    return int(matched.shape[1])


def add_own_messages(parts: Parts, row: int, stops: Stops, alone: Int) -> None:
    """Host messages that keep their length, whatever the other ranks do."""
    parts.edges(
        stops.begin_point[alone],
        stops.end_point[alone],
        None,
        HOST_TRANSFER,
        rank=row,
        stage=SCHEDULE,
    )


def _once(one: list[int], every: list[list[int]]) -> bool:
    """Is no member matched twice?"""
    return all(
        sum(other[rank] == member for other in every) == 1 for rank, member in enumerate(one)
    )
