"""Ranks drawn from one real rank: the same work, late where told, seen by other clocks.

What is true is known: every rank's ops lie on one true timeline first; delays move it for all
ranks from the delayed collective on, and only then each rank's clock is distorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specscope.analyzers.activities import load_rules
from specscope.analyzers.attribution import COLLECTIVES, Attribution, attribute
from specscope.analyzers.collective_times import arrivals
from specscope.analyzers.columns import Int
from specscope.analyzers.cycles import leading
from specscope.analyzers.group_rows import Group
from specscope.analyzers.group_view import together
from specscope.analyzers.links import LAST, Ops
from specscope.traces.run import Run

RULES = load_rules()


@dataclass(frozen=True)
class Delay:
    """Rank `rank` comes `ns` late to the collective `index`, by a longer op or by idle before."""

    index: int
    rank: int
    ns: int
    by_work: bool = True


@dataclass(frozen=True)
class Distortion:
    """A rank's clock: later by `offset_ns` in the middle of the capture, and drifting."""

    offset_ns: int = 0
    drift_ppm: float = 0.0

    def seen(self, time: Int, middle: int) -> Int:
        """The times as that clock shows them."""
        drift = np.rint((time - middle) * (self.drift_ppm / 1e6)).astype(np.int64)
        return time + self.offset_ns + drift


@dataclass(frozen=True)
class Drawn:
    """The ranks as a trace would show them, and what is true of their collectives.

    `arrival` and `end` are by [rank, collective] on the true timeline.
    """

    attributed: list[Attribution]
    arrival: Int
    end: Int
    stage: Int
    cycle: Int
    middle: int  # where the clocks have their offsets

    @property
    def wait(self) -> Int:
        """True waiting."""
        return self.arrival.max(axis=0) - self.arrival

    @property
    def transfer(self) -> Int:
        """True transfer."""
        return self.end - self.arrival.max(axis=0)

    def group(self) -> Group:
        """What the analysis makes of them."""
        run = Run(tuple(one.rank.tables for one in self.attributed))
        lead = leading([one.cycles for one in self.attributed])
        found = together(run, [one.rank for one in self.attributed], self.attributed, lead, RULES)
        assert found is not None
        return found


def collectives_of(one: Attribution) -> Int:
    """The collectives of a rank in order."""
    rows = np.flatnonzero(np.isin(one.rank.activity, COLLECTIVES))
    return rows[np.argsort(one.rank.ops.start[rows], kind="stable")]


def draw(
    source: Attribution,
    clocks: list[Distortion],
    delays: list[Delay] | None = None,
    jitter_ns: int = 0,
    seed: int = 0,
) -> Drawn:
    """Ranks like `source`, one for each clock.

    `jitter_ns` bounds the heavy-tailed scatter of when each rank enters and leaves each
    collective; it is part of the truth.
    """
    random = np.random.default_rng(seed)
    rows = collectives_of(source)
    ops = source.rank.ops
    delays = sorted(delays or [], key=lambda delay: delay.index)
    at = ops.start[rows[[delay.index for delay in delays]]] if delays else np.empty(0, np.int64)
    ns = np.array([delay.ns for delay in delays], np.int64)
    late = np.array([delay.rank for delay in delays], np.int64)
    moved = np.concatenate(([0], np.cumsum(ns)))
    middle = int(np.median(ops.end[rows]))
    attributed, arrival, end = [], [], []
    for number, clock in enumerate(clocks):

        def true(time: Int) -> Int:
            return time + moved[np.searchsorted(at, time, "right")]

        start, stop = true(ops.start), true(ops.end)
        for place, delay in enumerate(delays):
            row = rows[delay.index]
            if late[place] != number:
                start[row] -= ns[place]
            elif delay.by_work:
                stop[_before(source, int(row))] = start[row]
        start[rows] += tailed(random, len(rows), jitter_ns)
        stop[rows] += tailed(random, len(rows), jitter_ns)
        real = replace(ops, start=start, end=stop)
        arrival.append(arrivals(real, rows))
        end.append(stop[rows])
        attributed.append(_seen(source, number, real, clock, middle, true))
    borders = source.cycles.borders
    cycle = np.searchsorted(borders, ops.start[rows], "right") - 1
    return Drawn(
        attributed,
        np.stack(arrival),
        np.stack(end),
        source.placed.stage_of_op[rows].astype(np.int64),
        cycle,
        middle,
    )


def _before(source: Attribution, row: int) -> int:
    """The op that ends last before the collective, on its stream."""
    ops = source.rank.ops
    mine = np.flatnonzero((ops.stream == ops.stream[row]) & (ops.start < ops.start[row]))
    return int(mine[ops.start[mine].argmax()])


def tailed(random: np.random.Generator, count: int, most: int) -> Int:
    """Mostly a tenth of `most` and less, now and then all of it."""
    if not most:
        return np.zeros(count, np.int64)
    return np.minimum(random.pareto(1.5, count) * most / 20, most).astype(np.int64)


def _seen(
    source: Attribution,
    number: int,
    real: Ops,
    clock: Distortion,
    middle: int,
    true: Callable[[Int], Int],
) -> Attribution:
    """The rank as its own clock shows it."""

    def seen(time: Int) -> Int:
        return clock.seen(time, middle)

    calls, cycles = source.rank.calls, source.cycles
    known = real.first_start != LAST
    shown = replace(
        real,
        start=seen(real.start),
        end=seen(real.end),
        first_start=np.where(known, seen(true(np.where(known, real.first_start, 0))), LAST),
    )
    calls = replace(calls, start=seen(true(calls.start)), end=seen(true(calls.end)))
    cycles = replace(
        cycles,
        start=seen(true(cycles.start)),
        end=seen(true(cycles.end)),
        host_start=seen(true(cycles.host_start)),
        host_end=seen(true(cycles.host_end)),
    )
    tables = replace(source.rank.tables, rank=number)
    rank = replace(source.rank, tables=tables, ops=shown, calls=calls)
    return attribute(rank, source.placed, cycles)
