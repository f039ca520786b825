"""Graph replays with rows missing: a CUDA graph launches the same ops every time.

A replay that holds less than another of the same graph, and hardly anything else, has lost rows.
The same graph is told by its stage and its place among the graph launches of that stage in the
cycle, and by its id where the trace has one. Draft graphs of fewer steps are a part of those
with more, so without an id two sizes of draft that are both common are taken for two graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import ABSENT, Int, distinct, ints
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.rank import Rank
from specscope.analyzers.words import DRAFT, STAGES

# Without a graph id: a size that this share of the draft launches has is a graph of its own.
COMMON = 0.2
# So much of a smaller replay is in the largest when it is the same graph with rows lost.
ALIKE = 0.95


@dataclass(frozen=True)
class Short:
    """Replays with fewer ops than others of the same graph."""

    launches: int
    of: int  # graph launches looked at
    ops: int  # in the shortest
    whole: int  # in a whole one


def short_replays(
    rank: Rank, stage_of_call: npt.NDArray[np.int8], cycle_of_call: Int
) -> Short | None:
    """Replays in the cycles of `cycle_of_call` (-1: none) that lost rows; None: none did."""
    calls = rank.calls
    graphs = np.flatnonzero((cycle_of_call >= 0) & (calls.kind == GRAPH_LAUNCH))
    size = np.bincount(rank.ops.call[rank.ops.call >= 0], minlength=len(calls.start))
    graphs = graphs[size[graphs] > 0]
    if len(graphs) < 2:
        return None
    key, drafts = _same_graph(rank, graphs, stage_of_call, cycle_of_call)
    contents: _Contents | None = None
    short = whole = 0
    least = int(size[graphs].max())
    for one in distinct(key).tolist():
        members = graphs[key == one]
        sizes, counts = np.unique(size[members], return_counts=True)
        suspect = sizes[:-1]
        if one in drafts:
            suspect = suspect[counts[:-1] < COMMON * len(members)]
        if len(suspect) == 0:
            continue
        contents = contents or _Contents(rank)
        full = contents.of(int(members[size[members] == sizes[-1]][0]))
        for call in members[np.isin(size[members], suspect)].tolist():
            alike = int(np.minimum(contents.of(call), full).sum())
            if alike >= ALIKE * size[call]:
                short += 1
                whole, least = int(sizes[-1]), min(least, int(size[call]))
    return Short(short, len(graphs), least, whole) if short else None


def _same_graph(
    rank: Rank, graphs: Int, stage_of_call: npt.NDArray[np.int8], cycle_of_call: Int
) -> tuple[Int, set[int]]:
    """A number per graph launch, equal for the same graph; and which of them are draft's."""
    graph = _graph_ids(rank)[graphs]
    stage = stage_of_call[graphs].astype(np.int64)
    order = np.lexsort((rank.calls.start[graphs], stage, cycle_of_call[graphs]))
    group = (cycle_of_call[graphs] * len(STAGES) + stage)[order]
    first = np.concatenate(([True], group[1:] != group[:-1]))
    begin = np.maximum.accumulate(np.where(first, np.arange(len(group)), 0))
    place = np.empty(len(graphs), np.int64)
    place[order] = np.arange(len(group)) - begin
    known = distinct(graph)
    here = place * len(STAGES) + stage
    key = np.searchsorted(known, graph) * (int(here.max()) + 1) + here
    drafts = set(key[(stage == DRAFT) & (graph == ABSENT)].tolist())
    return key, drafts


def _graph_ids(rank: Rank) -> Int:
    """The graph of each call's ops, the upper half of a node's id; ABSENT without one."""
    graph = np.full(len(rank.calls.start), ABSENT, np.int64)
    node = ints(rank.tables.ops, "graph_node")
    linked = np.flatnonzero((rank.ops.call >= 0) & (node != ABSENT))
    graph[rank.ops.call[linked]] = node[linked] >> 32
    return graph


class _Contents:
    """How many ops of each name a call launched; sorted once for many calls."""

    def __init__(self, rank: Rank) -> None:
        self._names = len(rank.ops.names)
        order = np.argsort(rank.ops.call, kind="stable")
        self._call = rank.ops.call[order]
        self._name = rank.ops.name[order]

    def of(self, call: int) -> Int:
        """Count per name."""
        low, high = np.searchsorted(self._call, (call, call + 1), "left")
        return np.bincount(self._name[low:high], minlength=self._names)
