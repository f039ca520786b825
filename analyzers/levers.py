"""Levers that change lengths of the replay: each a row of a table, with what decides its range.

A lever takes the bench and a value and gives the lengths of both ends of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specscope.analyzers.columns import Bool
from specscope.analyzers.lever_bench import Bench, Prediction, ordered
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.replay import Float
from specscope.analyzers.replay_select import DRAFT_STAGES, VERIFY_STAGES
from specscope.analyzers.words import DRAFT

Lengths = tuple[Float, ...]


@dataclass(frozen=True)
class Lever:
    """One lever: `lengths` gives the ends of its range, `touched` what it could make free.

    `refuse` says what is missing, empty where nothing is.
    """

    name: str  # of the option
    title: Callable[[float], str]
    lengths: Callable[[Bench, float], Lengths]
    touched: Callable[[Bench], Bool]
    refuse: Callable[[Bench], str]
    assumption: str
    formula: str
    grid: tuple[float, ...]
    usual: float | None  # the value in the list of what would help; None: not in it
    serial: bool = False  # touches what runs one after another on the GPU


def predict(bench: Bench, lever: Lever, value: float) -> Prediction:
    """What the lever would do at that value."""
    return predictions(bench, lever, (value,))[0]


def predictions(bench: Bench, lever: Lever, values: Sequence[float]) -> tuple[Prediction, ...]:
    """What the lever would do at each of these values."""
    if why := lever.refuse(bench):
        return tuple(_row(lever, value, refused=why) for value in values)
    touched = lever.touched(bench)
    free = bench.lengths.copy()
    free[touched] = np.minimum(free[touched], 0.0)
    ends = [lever.lengths(bench, value) for value in values]
    found = iter(bench.cycles_with([free, *(ns for of in ends for ns in of)]))
    shortest = next(found)
    if lever.serial:
        shortest = min(shortest, bench.cycle_ns - bench.spent(touched))
    rows = []
    for value, of in zip(values, ends, strict=True):
        cycles = ordered(*(next(found) for _ in of))
        bound = min(shortest, cycles[0])
        rows.append(_row(lever, value, cycle_ns=cycles, rate=bench.rate(cycles), bound_ns=bound))
    return tuple(rows)


def _row(lever: Lever, value: float, **more: Any) -> Prediction:
    text, title = f"{value:g}", lever.title(value)
    told = {} if "refused" in more else {"assumption": lever.assumption, "formula": lever.formula}
    return Prediction(lever.name, text, title, **told, **more)


def divided(bench: Bench, which: Bool, by: float) -> Float:
    """The lengths with some of them divided; what is below 0 (clocks) stays."""
    ns = bench.lengths.copy()
    ns[which] = np.where(ns[which] > 0, ns[which] / by, ns[which])
    return ns


def _draft_alone(bench: Bench, _: float) -> Lengths:
    """No collective in the draft; its compute as it is, and times the ranks it was split over."""
    s = bench.select
    draft = s.of(*DRAFT_STAGES)
    once = bench.lengths.copy()
    # Where ranks are joined nobody waits any more; else the run, waiting included, is gone.
    once[s.transfer & draft] = -np.inf if bench.replay.joined else 0.0
    once[s.alone & draft] = 0.0
    split = once.copy()
    split[s.compute & draft] *= bench.ranks
    return once, split


def _has_draft_collectives(bench: Bench) -> str:
    s = bench.select
    if not s.of(*DRAFT_STAGES).any():
        return "the run has no draft stage on the GPU; record a server that speculates with a draft model"
    if not (s.transfer & s.of(*DRAFT_STAGES)).any():
        return "the draft holds no collective: it runs on one GPU already, or its inside is not on record"
    return ""


def _allreduce(bench: Bench, by: float) -> Lengths:
    s = bench.select
    every = divided(bench, s.allreduce, by)
    if not s.fused.any():
        return (every,)
    # An all-reduce fused with norm: how much of it is transfer is not known.
    return every, divided(bench, s.allreduce & ~s.fused, by)


def _has_allreduce(bench: Bench) -> str:
    if bench.select.allreduce.any():
        return ""
    return "no all-reduce is on record; record with kernels inside graphs (--cuda-graph-trace=node)"


def _verify(bench: Bench, by: float) -> Lengths:
    s = bench.select
    verify = s.of(*VERIFY_STAGES)
    kernels = divided(bench, verify & s.compute, by)
    return divided(bench, verify & (s.compute | s.transfer | (s.lag & s.in_graph)), by), kernels


def _has_verify(bench: Bench) -> str:
    return "" if bench.select.of(*VERIFY_STAGES).any() else "the run has no verify stage"


def _no_gaps(bench: Bench, _: float) -> Lengths:
    s = bench.select
    ns = bench.lengths.copy()
    ns[s.host] = 0.0
    ns[s.lag] = np.minimum(ns[s.lag], 0.0)
    launches = bench.lengths.copy()
    launches[s.host] = 0.0
    return ns, launches


def _draft_graph(bench: Bench, _: float) -> Lengths:
    """One launch for the draft: at best none of the host's way between its launches is left."""
    s = bench.select
    draft = s.of(DRAFT)
    best = bench.lengths.copy()
    best[draft & s.host] = 0.0
    best[draft & s.lag] = np.minimum(best[draft & s.lag], 1_000.0)
    calls = bench.lengths.copy()
    calls[draft & s.call] = 0.0
    return best, calls


def _eager_draft(bench: Bench) -> str:
    if not bench.select.of(DRAFT).any():
        return "the run has no draft stage on the GPU"
    for rank in bench.replay.ranks:
        calls, placed = rank.attribution.rank.calls, rank.attribution.placed
        if ((calls.kind == GRAPH_LAUNCH) & (placed.stage_of_call == DRAFT)).any():
            return "the draft is launched as a graph already"
    return ""


_FASTER = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)

DRAFT_TP = Lever(
    "draft-tp",
    lambda _: "the draft on one GPU",
    _draft_alone,
    lambda b: b.select.transfer & b.select.of(*DRAFT_STAGES),
    _has_draft_collectives,
    "the draft's compute decides: as on record (it was not split), or times the ranks (it was)",
    "replay without collectives in draft and draft_extend; their compute x 1 to x ranks",
    (1.0,),
    1.0,
    serial=True,
)
ALLREDUCE = Lever(
    "allreduce-speedup",
    lambda value: f"all-reduce {value:g} times as fast",
    _allreduce,
    lambda b: b.select.allreduce,
    _has_allreduce,
    "the transfer of every all-reduce scales, latency included; waiting follows from the replay",
    "replay with the transfer of all-reduces / X",
    _FASTER,
    2.0,
    serial=True,
)
VERIFY_SPEED = Lever(
    "verify-speedup",
    lambda value: f"verify {value:g} times as fast",
    _verify,
    lambda b: b.select.of(*VERIFY_STAGES) & (b.select.compute | b.select.transfer),
    _has_verify,
    "all that verify does on the GPU scales (low end), or its compute only (high end)",
    "replay with verify's ops / X",
    _FASTER,
    1.1,
    serial=True,
)
NO_GAPS = Lever(
    "no-gaps",
    lambda _: "no host work and no launch gaps",
    _no_gaps,
    lambda b: b.select.host | b.select.lag,
    lambda _: "",
    "the host takes no time at all; gaps between ops are gone (low end) or stay (high end)",
    "replay with the lengths of host work, calls and launches at 0",
    (1.0,),
    1.0,
)
DRAFT_GRAPH = Lever(
    "draft-graph",
    lambda _: "the draft as one graph launch",
    _draft_graph,
    lambda b: b.select.of(DRAFT) & (b.select.host | b.select.lag),
    _eager_draft,
    "no host work is left inside the draft (low end), or only its calls are gone (high end)",
    "replay with the draft's host work, or its calls, at 0",
    (1.0,),
    1.0,
)

LEVERS = (NO_GAPS, ALLREDUCE, DRAFT_TP, DRAFT_GRAPH, VERIFY_SPEED)
