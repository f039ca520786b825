"""The replay of a dependency graph against the plainest reading of it, on drawn graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.analyzers.replay import (
    OP,
    Edges,
    Float,
    Graph,
    binding,
    critical_edges,
    plan,
    replay,
)


def graph_of(times: list[float], edges: list[tuple[int, int, float]]) -> Graph:
    source, target = (np.array([e[i] for e in edges], np.int64) for i in (0, 1))
    zero = np.zeros(len(edges), np.int64)
    ns = np.array([e[2] for e in edges], np.float64)
    return Graph(np.array(times), Edges(source, target, ns, zero + OP, zero, zero, zero, zero, zero))


def plainest(graph: Graph, ns: Float) -> list[float]:
    """Every point by asking for all that it depends on."""
    into: dict[int, list[int]] = {}
    for edge, target in enumerate(graph.edges.target.tolist()):
        into.setdefault(target, []).append(edge)

    def at(point: int) -> float:
        if point not in into:
            return float(graph.time[point])
        return max(at(int(graph.edges.source[e])) + float(ns[e]) for e in into[point])

    return [at(point) for point in range(len(graph.time))]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, Float]:
    """Points in an order of their own, edges from earlier to later ones, and other lengths."""
    n = draw(st.integers(1, 12))
    names = draw(st.permutations(range(n)))
    length = st.integers(-5, 50).map(float)
    edges = [
        (names[source], names[target], draw(length))
        for target in range(1, n)
        for source in draw(st.sets(st.integers(0, target - 1), max_size=3))
    ]
    times = [float(t) for t in draw(st.lists(st.integers(0, 100), min_size=n, max_size=n))]
    graph = graph_of(times, edges)
    other = np.array([draw(length) for _ in edges], np.float64)
    return graph, other


@given(graphs())
def test_a_replay_is_the_longest_way_to_every_point(drawn: tuple[Graph, Float]) -> None:
    graph, ns = drawn
    ready = plan(graph)
    assert replay(ready, ns).tolist() == plainest(graph, ns)
    assert replay(ready).tolist() == plainest(graph, graph.edges.ns)


@given(graphs(), st.data())
def test_nothing_is_reached_later_when_lengths_shrink(
    drawn: tuple[Graph, Float], data: st.DataObject
) -> None:
    graph, ns = drawn
    less = np.array([data.draw(st.integers(0, 20)) for _ in range(len(ns))], np.float64)
    ready = plan(graph)
    assert (replay(ready, ns - less) <= replay(ready, ns)).all()


@given(graphs())
def test_the_critical_path_leads_back_from_a_point_without_a_hole(
    drawn: tuple[Graph, Float],
) -> None:
    graph, ns = drawn
    time = replay(plan(graph), ns)
    for end in range(len(graph.time)):
        path = critical_edges(graph, time, ns, end)
        point = end
        for edge in path:
            assert graph.edges.target[edge] == point
            point = int(graph.edges.source[edge])
        assert time[end] - time[point] == sum(ns[edge] for edge in path)
        assert binding(graph, time, ns)[path].all()


def test_a_way_of_no_length_at_all_is_never_taken() -> None:
    graph = graph_of([0.0, 0.0, 0.0], [(0, 2, -np.inf), (1, 2, 4.0)])
    assert replay(plan(graph)).tolist() == [0.0, 0.0, 4.0]


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)],
        [(0, 1, 1.0), (3, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)],
    ],
)
def test_a_circle_is_refused(edges: list[tuple[int, int, float]]) -> None:
    with pytest.raises(ValueError, match="circle"):
        plan(graph_of([0.0] * 4, edges))
