"""The dependency graph of a run: host threads, launches, streams and collectives of all ranks.

Everything on record is in it, not only whole cycles: the host runs ahead of the GPU, so a cycle
hangs on calls of the one before. Nothing is fitted to the end: every length is the measured time
between two points that one way joins (docs/whatif.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.replay import Float, Graph, Plan, plan
from specscope.analyzers.replay_device import Device, add_device
from specscope.analyzers.replay_host import Stops, add_host
from specscope.analyzers.replay_join import add_collectives, add_messages, add_own_messages
from specscope.analyzers.replay_parts import Parts
from specscope.analyzers.replay_waits import add_waits
from specscope.analyzers.report import Report
from specscope.analyzers.report_tables import Tables

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group


@dataclass(frozen=True)
class RankReplay:
    """Where one rank's cycles lie in the graph. `counted` are the cycles that speak."""

    number: int
    attribution: Attribution
    device: Device
    stops: Stops
    border: Int  # points of the borders of its cycles
    counted: Bool


@dataclass(frozen=True)
class Replay:
    """The graph of a run, ready, and its ranks. `joined`: the ranks wait for one another in it."""

    plan: Plan
    ranks: tuple[RankReplay, ...]
    joined: bool
    messages: int  # host messages that join the ranks

    @property
    def graph(self) -> Graph:
        """The graph itself."""
        return self.plan.graph

    def cycles_ns(self, time: Float) -> list[Float]:
        """Per rank the lengths of its counted cycles at these times of the points."""
        return [np.diff(time[one.border])[one.counted] for one in self.ranks if one.counted.any()]

    def cycle_ns(self, time: Float) -> float:
        """The cycle: median over the ranks of their medians, as in the report."""
        return float(np.median([np.median(ns) for ns in self.cycles_ns(time)]))


def build(report: Report) -> Replay | str:
    """The replay of a run, or why there is none."""
    tables = report.tables
    if not isinstance(tables, Tables) or not tables.attributed:
        return "no cycle could be attributed"
    attributed = [one for one in tables.attributed if not one.on_host]
    if not attributed:
        return "the run has no GPU ops: a cycle log or a run on the CPU holds no dependencies"
    if report.blind:
        return "GPU work is not on record (see the warnings), so what waits for it cannot be told"
    lead = next(((row.kind, row.batch) for row in report.cycles if row.leads), None)
    if lead is None:
        return "no whole cycle"
    return assemble(attributed, lead, report.group)


def assemble(
    attributed: Sequence[Attribution], lead: tuple[str, int | None], group: Group | None
) -> Replay | str:
    """The graph of these ranks; joined where the group has them on one clock."""
    measured = group.measured if group is not None else None
    numbers = tuple(one.number for one in attributed)
    if measured is not None and measured.matched.ranks != numbers:
        measured = None
    bases = [int(one.rank.tables.facts.get("clock_base_ns") or 0) for one in attributed]
    origin = int(attributed[0].cycles.start[0]) + bases[0] if len(attributed[0].cycles) else 0
    parts = Parts()
    stops, devices = [], []
    for row, (one, base) in enumerate(zip(attributed, bases, strict=True)):

        def clock(times: Int, row: int = row, base: int = base) -> Float:
            absolute = times + base
            common = absolute if measured is None else measured.clocks.common(row, absolute)
            return (common - origin).astype(np.float64)

        joined = np.empty(0, np.int64) if measured is None else measured.matched.op[row]
        stops.append(add_host(parts, one, row, clock))
        devices.append(add_device(parts, one, row, clock, stops[-1], joined))
        add_waits(parts, one, row, stops[-1], devices[-1])
    messages = 0
    if measured is not None:
        add_collectives(parts, attributed, devices, measured.matched.op)
        messages = add_messages(parts, stops)
    else:
        for row, of in enumerate(stops):
            add_own_messages(parts, row, of, np.flatnonzero(of.message >= 0))
    try:
        ready = plan(parts.graph())
    except ValueError as error:
        return str(error)
    ranks = []
    for one, device, of in zip(attributed, devices, stops, strict=True):
        border = _borders(one, device)
        if border is None:
            return "the borders of the cycles are not ops of the trace"
        ranks.append(RankReplay(one.number, one, device, of, border, one.cycles.of(*lead)))
    if not any(one.counted.any() for one in ranks):
        return "no whole cycle"
    return Replay(ready, tuple(ranks), measured is not None, messages)


def _borders(one: Attribution, device: Device) -> Int | None:
    """Points of the ops that begin the cycles; None where a border is no begin of an op."""
    borders = one.cycles.borders
    order = np.argsort(one.rank.ops.start, kind="stable")
    starts = one.rank.ops.start[order]
    at = np.searchsorted(starts, borders, "left")
    if not len(borders) or (at >= len(starts)).any() or (starts[at] != borders).any():
        return None
    return device.begin_point[order[at]]
