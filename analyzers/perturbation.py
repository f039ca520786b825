"""What the profiler added to the cycle, and the cycle without it.

A profiler takes its time on the host: for every node of a graph launch, for every kernel launch,
then for everything it records. The replay takes that away in this order, only as much as brings
the cycle to the length that was measured without a profiler:

1. graph launches, down to what a launch takes without a profiler;
2. the same amount from every kernel launch (the call and the host's way to it), no way below a
   quarter of itself;
3. everything the host does, evenly.

The GPU's work is left as it is: the profiler hardly changes it (design 7). What the ranks wait
for one another follows from the replay. Docs: docs/whatif.md, with what it was held against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specscope.analyzers.columns import Bool
from specscope.analyzers.links import GRAPH_LAUNCH, LAUNCH
from specscope.analyzers.replay import (
    CALL,
    GRAPH_CALL,
    HOST_TRANSFER,
    HOST_WORK,
    LAUNCH_LAG,
    SYNC_CALL,
    Float,
    replay,
    replay_each,
)
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.replay_stages import StageTime, stage_times, waiting_ns
from specscope.analyzers.words import percent

# A graph launch, and the way to its first op, takes about so long without a profiler.
GRAPH_LAUNCH_NS = 20_000.0
# The most that is taken for one kernel launch, and what is left of the host's way to it. The
# call itself is a quarter of what a launch costs there, the rest is the framework's own.
MOST_OF_LAUNCH_NS = 200_000.0
LEAST_LEFT = 0.25
_CALL_PART = 0.25
# A reference that is longer by more is of another server or state.
MOST_LONGER = 0.03
# Agreement of the corrected cycle with the reference.
_CLOSE = 1e-4
_ROUNDS, _AT_ONCE = 20, 7
OTHER_SERVER = "other_server"  # state: the reference is not of this run
_PARTS = ("graph launches", "kernel launches", "other host work")

_Cycles = Callable[[Sequence[float]], list[float]]


@dataclass(frozen=True)
class Taken:
    """What was taken out: by how much the cycle grew for it."""

    what: str
    ns: float


@dataclass(frozen=True)
class Corrected:
    """The cycle that predictions are made on.

    `state`: `corrected`, `agrees` (the reference is hardly longer: as recorded), `profiled` (no
    reference), `other_server` (the reference cannot be of this run: as recorded, said so).
    """

    state: str
    text: str
    profiled_ns: float
    cycle_ns: float
    reference_ns: float | None
    source: str
    profiled: tuple[StageTime, ...]
    stages: tuple[StageTime, ...]
    taken: tuple[Taken, ...] = ()
    waiting_ns: tuple[float, float] = (0.0, 0.0)  # recorded, corrected: a cycle of a rank
    lengths: Float = field(repr=False, default_factory=lambda: np.empty(0))

    @property
    def stretch(self) -> float | None:
        """The recorded cycle over the reference."""
        return None if self.reference_ns is None else self.profiled_ns / self.reference_ns

    def stage_ns(self, stage: str) -> float | None:
        """The stage in the cycle that predictions are made on."""
        return next((one.ns for one in self.stages if one.stage == stage), None)


def correct(one: Replay, reference: tuple[float, str] | None) -> Corrected:
    """The cycle without the profiler, from its measured length and where that comes from."""
    time = replay(one.plan)
    profiled = one.cycle_ns(time)
    stages, waiting = stage_times(one, time), waiting_ns(one, time)
    recorded = Corrected(
        state="profiled",
        text="no cycle without a profiler is known, so every prediction is of the profiled cycle; "
        "give --cycle-ms or --tokens-per-second",
        profiled_ns=profiled,
        cycle_ns=profiled,
        reference_ns=None,
        source="",
        profiled=stages,
        stages=stages,
        waiting_ns=(waiting, waiting),
        lengths=one.graph.edges.ns,
    )
    if reference is None:
        return recorded
    wanted, source = reference
    recorded = replace(recorded, reference_ns=wanted, source=source)
    if no_need := needless(profiled, wanted, source):
        return replace(recorded, state=no_need[0], text=no_need[1])
    lengths = cost_taken(one)

    def cycles(amounts: Sequence[float]) -> list[float]:
        return [one.cycle_ns(t) for t in replay_each(one.plan, [lengths(at) for at in amounts])]

    (shortest,) = cycles([3.0])
    if shortest > wanted:
        text = (
            f"the cycle of {source} ({wanted / 1e6:.2f} ms) is shorter than the GPU's work alone "
            f"({shortest / 1e6:.2f} ms): another server or state; nothing is corrected"
        )
        return replace(recorded, state=OTHER_SERVER, text=text)
    amount = _amount(cycles, wanted)
    corrected = lengths(amount)
    time = replay(one.plan, corrected)
    stretch = profiled / wanted - 1
    taken = _taken(cycles, amount, profiled)
    most = max(taken, key=lambda part: part.ns)
    text = (
        f"the profiler stretched the cycle by {percent(stretch)}: {profiled / 1e6:.2f} ms against "
        f"{wanted / 1e6:.2f} ms ({source}), most of it by {most.what} ({most.ns / 1e6:.2f} ms)"
    )
    return replace(
        recorded,
        state="corrected",
        text=text,
        cycle_ns=one.cycle_ns(time),
        stages=stage_times(one, time),
        taken=taken,
        waiting_ns=(waiting, waiting_ns(one, time)),
        lengths=corrected,
    )


def needless(profiled: float, wanted: float, source: str) -> tuple[str, str] | None:
    """State and sentence where the reference is no shorter than the profiled cycle; else None."""
    if wanted > profiled * (1 + MOST_LONGER):
        return OTHER_SERVER, (
            f"the cycle of {source} ({wanted / 1e6:.2f} ms) is {percent(wanted / profiled - 1)} "
            f"longer than the profiled one ({profiled / 1e6:.2f} ms): another server or state; "
            "nothing is corrected"
        )
    if wanted >= profiled:
        return "agrees", (
            f"the profiled cycle ({profiled / 1e6:.2f} ms) is no longer than that of {source} "
            f"({wanted / 1e6:.2f} ms): nothing is to be corrected"
        )
    return None


def cost_taken(one: Replay) -> Callable[[float], Float]:
    """Lengths of the edges with an amount of the profiler's cost taken out.

    0 to 1: of graph launches; to 2: of kernel launches as well; to 3: of all that the host does.
    Each length falls with the amount.
    """
    edges = one.graph.edges
    graph = (edges.kind == GRAPH_CALL) | _graph_lag(one)
    over = np.where(graph, np.maximum(edges.ns - GRAPH_LAUNCH_NS, 0.0), 0.0)
    before = _before_kernel_launch(one)
    call = edges.kind == CALL
    host = np.isin(edges.kind, (HOST_WORK, CALL, SYNC_CALL, HOST_TRANSFER))

    def lengths(amount: float) -> Float:
        first, second, third = (min(max(amount - step, 0.0), 1.0) for step in range(3))
        ns = edges.ns - first * over
        cost = second * MOST_OF_LAUNCH_NS
        ns[before] = np.maximum(ns[before] - cost, LEAST_LEFT * ns[before])
        ns[call] = np.maximum(ns[call] - _CALL_PART * cost, LEAST_LEFT * ns[call])
        ns[host] *= 1 - third
        return ns

    return lengths


def _graph_lag(one: Replay) -> Bool:
    """Ways from a graph launch to its first op."""
    edges = one.graph.edges
    found = np.zeros(len(edges), dtype=bool)
    for row, rank in enumerate(one.ranks):
        mine = np.flatnonzero((edges.kind == LAUNCH_LAG) & (edges.rank == row))
        kind = rank.attribution.rank.calls.kind
        found[mine] = kind[edges.item[mine]] == GRAPH_LAUNCH
    return found


def _before_kernel_launch(one: Replay) -> Bool:
    """The host's ways to the calls that launch a kernel."""
    edges = one.graph.edges
    leads = np.zeros(len(one.graph.time), dtype=bool)
    for rank in one.ranks:
        kind = rank.attribution.rank.calls.kind
        stops = rank.stops
        kernel = stops.call >= 0
        kernel[kernel] = kind[stops.call[kernel]] == LAUNCH
        leads[stops.begin_point[kernel]] = True
    found: Bool = (edges.kind == HOST_WORK) & leads[edges.target]
    return found


def _amount(cycles: _Cycles, wanted: float) -> float:
    """The amount at which the cycle has the wanted length; the cycle falls with it."""
    low, high = 0.0, 3.0
    for _ in range(_ROUNDS):
        amounts = np.linspace(low, high, _AT_ONCE + 2)[1:-1].tolist()
        found = cycles(amounts)
        best = min(range(len(found)), key=lambda row: abs(found[row] - wanted))
        if abs(found[best] / wanted - 1) < _CLOSE:
            return float(amounts[best])
        too_long = [at for at, ns in zip(amounts, found, strict=True) if ns > wanted]
        low = max([low, *too_long])
        high = min([at for at in (*amounts, high) if at > low])
    return high


def _taken(cycles: _Cycles, amount: float, profiled: float) -> tuple[Taken, ...]:
    """By how much each part lengthened the cycle, in the order in which they were taken out."""
    ends = [min(amount, end) for end in (1.0, 2.0, 3.0) if amount > end - 1]
    parts = []
    before = profiled
    for what, after in zip(_PARTS, cycles(ends), strict=False):
        parts.append(Taken(what, before - after))
        before = after
    return tuple(parts)
