"""Replay of a dependency graph: when everything would happen if durations were others.

A graph holds points in time (a call begins, an op ends, the last rank arrives) and edges with a
length. A point is reached when all its edges are: time = max(time of the source + length). So
the unchanged graph gives the recorded times back, and a changed one what would follow.

The method is that of Daydream, dPRO and Lumos (docs/whatif.md): build the graph from one
recording, prove the unchanged replay, then change lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int

Float = npt.NDArray[np.float64]

# From so many sets of lengths on, arrays are faster than numbers one by one.
_TOGETHER = 5

# What an edge stands for.
EDGE_KINDS = (
    "host",  # the thread's own work between two calls
    "call",  # inside a call that launches one op, or any other short call
    "graph_call",  # inside a graph launch
    "sync_call",  # the least a synchronising call takes
    "launch",  # from the begin of a launch call to the begin of its op
    "lag",  # from the end of an op to the begin of the next on its stream
    "op",  # an op's own run; of a collective of one rank alone with its waiting
    "arrive",  # to the moment the last rank has arrived
    "transfer",  # from then to a rank's own end
    "return",  # from the end of the work that a call waits for to the call's end
    "alone",  # past a collective that a rank would not take part in; of no length: not taken
    "host_transfer",  # a message between the host threads of the ranks
    "unexplained",  # measured time that no edge explains
)
(
    HOST_WORK,
    CALL,
    GRAPH_CALL,
    SYNC_CALL,
    LAUNCH_LAG,
    STREAM_LAG,
    OP,
    ARRIVE,
    TRANSFER,
    RETURN,
    ALONE,
    HOST_TRANSFER,
    UNEXPLAINED,
) = range(len(EDGE_KINDS))


@dataclass(frozen=True)
class Edges:
    """Edges as arrays. `ns` is the recorded length, the rest says what it stands for."""

    source: Int
    target: Int
    ns: Float
    kind: Int  # index into EDGE_KINDS
    rank: Int  # row of the rank
    stage: Int
    what: Int  # activity of an op or transfer, -1 elsewhere
    count: Int  # things that a profiler records on the way: calls, ranges, ops of a graph launch
    item: Int  # row of the op (op, transfer) or of the call (calls), -1 elsewhere

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Graph:
    """Points, measured, and the edges between them. `Plan` makes it ready to replay."""

    time: Float  # measured, on the common clock, from an origin of its own
    edges: Edges


@dataclass(frozen=True)
class Plan:
    """A graph with its chains folded: only points that several edges reach are walked.

    A point with one edge from a point that nothing else follows lies on a chain: its time is
    that of the chain's head plus the lengths between. Most ops inside a CUDA graph are such.
    """

    graph: Graph
    head: Int  # per point: the head of its chain, itself where it is one
    chain: Int  # points that are no heads, ordered by chain and place in it
    into: Int  # the one edge into each of `chain`
    first: Int  # place in `chain` of the first point of the own chain, for each of `chain`
    heads: Int  # the heads: those without edges, then each after all that it depends on
    free: int  # how many of them have no edges
    begin: list[int]  # per head with edges: where its edges begin in `by_head`
    by_head: Int  # edges into heads, ordered as `heads`
    starts: list[int]  # per edge of `by_head`: place of its source's head in `heads`


def plan(graph: Graph) -> Plan:
    """Fold the chains and sort the rest. Cost: one sort, and a step per edge between heads.

    Raises:
        ValueError: the edges close a circle, which no recording can.
    """
    n, edges = len(graph.time), graph.edges
    into = np.bincount(edges.target, minlength=n)
    out = np.bincount(edges.source, minlength=n)
    edge_into = np.full(n, -1, np.int64)
    edge_into[edges.target] = np.arange(len(edges))
    folded = np.flatnonzero(into == 1)
    folded = folded[out[edges.source[edge_into[folded]]] == 1]
    head, place = np.arange(n), np.zeros(n, np.int64)
    head[folded] = edges.source[edge_into[folded]]
    place[folded] = 1
    # Pointer jumping: each round doubles the way that is known.
    while True:
        further = head[head]
        if (further == head).all():
            break
        place += place[head]
        head = further
        if place.max() > n:
            raise ValueError("the dependency graph holds a circle")
    chain = folded[np.lexsort((place[folded], head[folded]))]
    owner = head[chain]
    new = np.ones(len(chain), dtype=bool)
    new[1:] = owner[1:] != owner[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(chain)), 0))
    direct = np.ones(n, dtype=bool)
    direct[folded] = False
    rest = np.flatnonzero(direct[edges.target])
    order = _sorted(n, head[edges.source[rest]], edges.target[rest])
    loose = np.flatnonzero((into == 0) & direct)
    heads = np.concatenate((loose, np.array(order, np.int64)))
    place_of = np.full(n, -1, np.int64)
    place_of[heads] = np.arange(len(heads))
    at = place_of[edges.target[rest]]
    sequence = np.argsort(at, kind="stable")
    by_head = rest[sequence]
    begin = np.searchsorted(at[sequence], np.arange(len(loose), len(heads) + 1)).tolist()
    starts = place_of[head[edges.source[by_head]]].tolist()
    return Plan(
        graph, head, chain, edge_into[chain], first, heads, len(loose), begin, by_head, starts
    )


def _sorted(n: int, source: Int, target: Int) -> list[int]:
    """Targets, each after every source that is one itself (Kahn)."""
    waits = np.bincount(target, minlength=n)
    by_source = np.argsort(source, kind="stable")
    followers = target[by_source].tolist()
    at = np.searchsorted(source[by_source], np.arange(n + 1)).tolist()
    left = waits.tolist()
    ready = np.flatnonzero(waits == 0).tolist()
    order = []
    while ready:
        point = ready.pop()
        for follower in followers[at[point] : at[point + 1]]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
                order.append(follower)
    if len(order) < int((waits > 0).sum()):
        raise ValueError("the dependency graph holds a circle")
    return order


def replay(one: Plan, ns: Float | None = None) -> Float:
    """Time of every point with the lengths `ns` of the edges; the recorded ones when left out.

    Points that no edge reaches keep their measured time. Cost: a step per edge between heads.
    """
    edges = one.graph.edges
    length = edges.ns if ns is None else ns
    inner = np.zeros(len(one.head))
    if len(one.chain):
        total = np.cumsum(length[one.into])
        before = total[one.first] - length[one.into[one.first]]
        inner[one.chain] = total - before
    lengths = (inner[edges.source[one.by_head]] + length[one.by_head]).tolist()
    time = one.graph.time[one.heads[: one.free]].tolist()
    starts, low = one.starts, 0
    for high in one.begin[1:]:
        latest = -np.inf
        for edge in range(low, high):
            reached = time[starts[edge]] + lengths[edge]
            if reached > latest:
                latest = reached
        time.append(latest)
        low = high
    found = np.empty(len(one.head))
    found[one.heads] = time
    out: Float = found[one.head] + inner
    return out


def replay_each(one: Plan, lengths: Sequence[Float]) -> list[Float]:
    """`replay` with several sets of lengths at once: hardly dearer than with one."""
    if len(lengths) < _TOGETHER:
        return [replay(one, ns) for ns in lengths]
    edges = one.graph.edges
    inner, rows = [], []
    for ns in lengths:
        place = np.zeros(len(one.head))
        if len(one.chain):
            total = np.cumsum(ns[one.into])
            place[one.chain] = total - (total[one.first] - ns[one.into[one.first]])
        inner.append(place)
        rows.append(place[edges.source[one.by_head]] + ns[one.by_head])
    length = np.stack(rows, axis=1)
    time = np.empty((len(one.heads), len(lengths)))
    time[: one.free] = one.graph.time[one.heads[: one.free], None]
    starts, low, row = one.starts, 0, one.free
    for high in one.begin[1:]:
        latest = time[starts[low]] + length[low]
        for edge in range(low + 1, high):
            np.maximum(latest, time[starts[edge]] + length[edge], out=latest)
        time[row] = latest
        low, row = high, row + 1
    found = np.empty((len(lengths), len(one.head)))
    found[:, one.heads] = time.T
    return [of[one.head] + place for of, place in zip(found, inner, strict=True)]


def binding(graph: Graph, time: Float, ns: Float) -> Bool:
    """Per edge: does it decide when its target is reached?"""
    edges = graph.edges
    return np.abs(time[edges.source] + ns - time[edges.target]) < 0.5


def critical_edges(graph: Graph, time: Float, ns: Float, end: int) -> list[int]:
    """The edges that hold `end` back, from it backwards to a point without edges."""
    edges = graph.edges
    tight = np.flatnonzero(binding(graph, time, ns))
    last = np.full(len(graph.time), -1, np.int64)
    last[edges.target[tight]] = tight
    path = []
    point = end
    while last[point] >= 0 and len(path) <= len(edges):
        edge = int(last[point])
        path.append(edge)
        point = int(edges.source[edge])
    return path
