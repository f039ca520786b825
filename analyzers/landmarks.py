"""What decides a stage in the order of launches: anchors and bookkeeping kernels.

An anchor (a forward that the engine named, or a graph launch) says what it is itself. Where
eager launches between two anchors belong is said by the bookkeeping kernels between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.columns import Int
from specscope.analyzers.evidence_engine import NAME as ENGINE
from specscope.analyzers.evidence_engine import Marked
from specscope.analyzers.launches import Launches
from specscope.analyzers.words import DECODE, DRAFT, DRAFT_EXTEND, VERIFY

STRUCTURE = "structure"

# Kinds of landmarks, in the order they act at one launch: what opens at it, what it is, what
# it ends.
OPENS_DRAFT, OPENS_EXTEND, STAGE, FORWARD, GRAPH, DRAFTS, ACCEPTS, ENDS_DRAFT, ENDS_VERIFY = range(
    9
)
ANCHORS = (STAGE, FORWARD, GRAPH)


@dataclass(frozen=True)
class Landmark:
    """Rows [first, last) of the launches; `stage` is None for a graph that nothing names."""

    first: int
    kind: int
    last: int
    stage: int | None = None
    evidence: str = STRUCTURE


def target_rows(rows: Launches, forwards: Sequence[Marked]) -> Int:
    """Graph launches of the target: those in its named forwards, else those with most layers."""
    graphs = np.flatnonzero(rows.is_graph)
    named = [
        graphs[(rows.start[graphs] >= m.start) & (rows.start[graphs] < m.end)]
        for m in forwards
        if m.mark.role == "forward" and m.mark.stage in (VERIFY, DECODE)
    ]
    found = np.concatenate(named) if named else np.empty(0, np.int64)
    if len(found):
        alike: Int = graphs[np.isin(rows.signature[graphs], rows.signature[found])]
        return alike
    if len(graphs) == 0:
        return graphs
    layers = rows.layers[graphs]
    if layers.max() == 0:  # kernels of an unknown attention: the longest graph is the target
        layers = rows.gpu_ns[graphs]
    # Graphs of one model for several batch sizes have about as many layers.
    biggest: Int = graphs[layers * 2 > layers.max()]
    return biggest


def named_forwards(rows: Launches, forwards: Sequence[Marked], speculates: bool) -> list[Landmark]:
    """The engine's own forwards and stages as rows; of nested ones the outer counts."""
    found: list[Landmark] = []
    covered = np.zeros(len(rows.call), dtype=bool)
    for m in forwards:
        stage = m.mark.stage
        first, last = np.searchsorted(rows.start, (m.start, m.end), "left").tolist()
        if stage is None or last <= first or covered[first:last].all():
            continue
        if stage == DECODE and speculates:
            stage = DRAFT  # an eager draft step calls itself a decode
        covered[first:last] = True
        found.append(
            Landmark(first, STAGE if m.mark.role == "stage" else FORWARD, last, stage, ENGINE)
        )
    return found


def graphs(rows: Launches, target: Int, covered: Sequence[Landmark]) -> list[Landmark]:
    """Graph launches outside named forwards; a role inside one names its stage."""
    free = rows.is_graph.copy()
    for mark in covered:
        free[mark.first : mark.last] = False
    is_target = np.zeros(len(rows.call), dtype=bool)
    is_target[target] = True
    free &= is_target | (rows.layers > 0) | (rows.roles > 0)
    inside = np.where(is_target, VERIFY, -1)
    for role, stage in (("draft", DRAFT), ("verify", VERIFY), ("draft_extend", DRAFT_EXTEND)):
        inside[rows.has(role)] = stage
    return [
        Landmark(row, GRAPH, row + 1, stage if stage >= 0 else None)
        for row, stage in zip(np.flatnonzero(free).tolist(), inside[free].tolist(), strict=True)
    ]


def kernels(rows: Launches) -> list[Landmark]:
    """Bookkeeping kernels that were launched eagerly."""
    extends = rows.has("opens_draft_extend") | rows.has("draft_extend")
    opens, ends = rows.has("opens_draft"), rows.has("ends_draft")
    verified = rows.has("ends_verify") & ~extends
    table = (
        (OPENS_DRAFT, opens),
        (OPENS_EXTEND, extends),
        (DRAFTS, rows.has("draft") & ~opens & ~ends),
        (ACCEPTS, rows.has("accept") & ~verified & ~extends),
        (ENDS_DRAFT, ends),
        (ENDS_VERIFY, verified),
    )
    return [
        Landmark(row, kind, row + 1)
        for kind, here in table
        for row in np.flatnonzero(here & ~rows.is_graph).tolist()
    ]
