"""The run with the transfer times of another run: link against link."""

from __future__ import annotations

import numpy as np

from specscope.analyzers import replay_graph
from specscope.analyzers.lever_bench import Bench, Prediction
from specscope.analyzers.replay import TRANSFER, Float
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.replay_stages import cycle_of_op
from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES, percent

NAME = "transfers-from"
# The runs must hold as many collectives a stage and cycle, but for so much.
_ALIKE = 0.05


def put_in(bench: Bench, other: Report, name: str) -> Prediction:
    """The cycle with every collective as long as those of its stage in the other run.

    Transfers of a stage are scaled to the other run's median: their spread stays this run's.
    """
    title = f"the transfer times of {name}"
    built = replay_graph.build(other)
    if isinstance(built, str):
        return _refused(title, f"{name} cannot be replayed: {built}")
    if not bench.replay.joined or not built.joined:
        return _refused(title, "transfers are known only where the ranks are on one clock: give all ranks of both runs")
    own, theirs = stage_transfers(bench.replay), stage_transfers(built)
    if why := _differ(own, theirs, name) or _other_run(bench.report, other, name):
        return _refused(title, why)
    edges = bench.replay.graph.edges
    ns: Float = bench.lengths.copy()
    for stage, (_, median) in own.items():
        which = (edges.kind == TRANSFER) & (edges.stage == stage) & (ns > 0)
        ns[which] *= theirs[stage][1] / median if median > 0 else 1.0
    cycle = bench.cycle_with(ns)
    return Prediction(
        NAME,
        name,
        title,
        (cycle, cycle),
        bench.rate((cycle, cycle)),
        None,
        "kernels, host and waiting by cause stay as in this run",
        "replay with the transfers of each stage x (median of the other run / own median)",
    )


def stage_transfers(one: Replay) -> dict[int, tuple[float, float]]:
    """Per stage: collectives a cycle of a rank, and the mean of their transfers, median over cycles."""
    edges = one.graph.edges
    found: dict[int, list[tuple[float, float]]] = {}
    for row, rank in enumerate(one.ranks):
        mine = np.flatnonzero((edges.kind == TRANSFER) & (edges.rank == row))
        cycle = cycle_of_op(rank)[edges.item[mine]]
        inside = (cycle >= 0) & rank.counted[cycle]
        mine, cycle = mine[inside], cycle[inside]
        for stage in np.unique(edges.stage[mine]).tolist():
            of = edges.stage[mine] == stage
            count = np.bincount(cycle[of], minlength=len(rank.counted))[rank.counted]
            total = np.bincount(cycle[of], edges.ns[mine[of]], minlength=len(rank.counted))
            mean = total[rank.counted] / np.maximum(count, 1)
            found.setdefault(stage, []).append((float(np.median(count)), float(np.median(mean))))
    return {
        stage: (float(np.mean([n for n, _ in of])), float(np.mean([ns for _, ns in of])))
        for stage, of in found.items()
    }


def _differ(
    own: dict[int, tuple[float, float]], theirs: dict[int, tuple[float, float]], name: str
) -> str:
    """Where the two runs do not hold the same collectives; empty where they do."""
    for stage, (count, _) in own.items():
        other = theirs.get(stage, (0.0, 0.0))[0]
        if abs(other - count) > _ALIKE * count:
            return (
                f"{STAGES[stage]} holds {count:g} collectives a cycle here and {other:g} in "
                f"{name} (more than {percent(_ALIKE, 0)} apart): the runs do not correspond"
            )
    return "" if own else "no collective is on record"


def _other_run(here: Report, there: Report, name: str) -> str:
    """What sets the runs apart beside the link; empty where nothing does."""
    for key, word in (("model", "model"), ("batch", "batch"), ("tp", "ranks"), ("k", "draft steps")):
        one, other = here.facts.get(key), there.facts.get(key)
        if one is not None and other is not None and one != other:
            return f"{word} differ: {one} here, {other} in {name}; only the link may"
    return ""


def _refused(title: str, why: str) -> Prediction:
    return Prediction(NAME, "", title, refused=why)
