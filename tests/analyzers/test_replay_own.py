"""Own recordings replayed unchanged: the cycle comes out, and nothing is left unexplained."""

from __future__ import annotations

import numpy as np
import pytest

from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.replay import HOST_TRANSFER, TRANSFER, UNEXPLAINED, replay
from specscope.analyzers.whatif import unchanged_of
from tests.analyzers import own_replays


@pytest.mark.parametrize("name", own_replays.NAMES)
def test_unchanged_it_reproduces_the_median_cycle(name: str) -> None:
    found = unchanged_of(own_replays.report_of(name), own_replays.replay_of(name))
    assert abs(found.error) < 0.01
    assert found.unexplained_ns < 0.001 * found.measured_ns


@pytest.mark.parametrize("name", own_replays.NAMES)
def test_unchanged_every_point_is_where_it_was_measured(name: str) -> None:
    one = own_replays.replay_of(name)
    assert np.abs(replay(one.plan) - one.graph.time).max() < 1


@pytest.mark.parametrize("name", own_replays.NAMES)
def test_the_ranks_wait_for_one_another_in_it(name: str) -> None:
    one = own_replays.replay_of(name)
    edges = one.graph.edges
    assert one.joined
    assert (edges.kind == TRANSFER).sum() > 100
    cycles = min(len(rank.attribution.cycles) for rank in one.ranks)
    assert one.messages >= cycles - 3  # the schedulers speak once a cycle
    assert (edges.kind == HOST_TRANSFER).any()


def test_a_wait_for_verify_is_told_from_its_place_in_the_cycle() -> None:
    """The host of this server waits over 20 ms a cycle for the event behind verify."""
    one = own_replays.replay_of("tp4-70b-eagle3-k3-shm-bs8")
    edges = one.graph.edges
    within = np.isin(edges.target, np.concatenate([rank.stops.end_point for rank in one.ranks]))
    # Before the first cycle the capture begins in the middle, and places mean nothing.
    begun = one.graph.time[edges.source] > one.graph.time[one.ranks[0].border[0]]
    assert edges.ns[(edges.kind == UNEXPLAINED) & within & begun].sum() < 2e6


def test_a_later_graph_launch_moves_everything_behind_it() -> None:
    one = own_replays.replay_of("tp2-8b-eagle3-k3-nvlink-bs1")
    rank = one.ranks[0]
    calls = rank.attribution.rank.calls
    graph = np.flatnonzero(calls.kind == GRAPH_LAUNCH)
    middle = graph[len(graph) // 2]
    point = rank.stops.begin_point[rank.stops.point_of_call[middle]]
    ns = one.graph.edges.ns.copy()
    ns[one.graph.edges.target == point] += 50e6
    later = replay(one.plan, ns) - one.graph.time
    assert (later > -1).all()
    ends = [later[other.border[-1]] for other in one.ranks]
    assert min(ends) > 45e6  # the other rank, too: it waits in a collective
