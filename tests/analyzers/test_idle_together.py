"""Idle of one rank while another works, and while nobody does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.idle_together import _union, _until
from specscope.analyzers.words import IDLE, VERIFY
from tests.analyzers.drawn_ranks import Delay, Distortion, draw
from tests.analyzers.test_ranks_drawn import places, source

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(SPANS, st.integers(0, 90))
def test_the_union_before_a_time_is_what_counting_every_nanosecond_gives(
    spans: list[tuple[int, int]], time: int
) -> None:
    start = np.array([s for s, _ in spans], np.int64)
    end = np.array([s + n for s, n in spans], np.int64)
    covered = {t for s, n in spans for t in range(s, s + n) if t < time}
    assert _until(*_union(start, end), np.array([time]))[0] == len(covered)


def idle_a_cycle(one: Attribution) -> float:
    mine = one.segments.state == IDLE
    sums = np.bincount(one.segments.cycle[mine], weights=one.segments.ns[mine])
    return float(np.median(sums))


def test_ranks_that_do_the_same_idle_together() -> None:
    group = draw(source(), [Distortion(), Distortion(300_000)]).group()
    for row, one in zip(group.idle, (source(), source()), strict=True):
        assert row.others_busy_ns == pytest.approx(0, abs=5_000)
        assert row.nobody_ns > 0.8 * idle_a_cycle(one)


def test_idle_that_only_one_rank_has_is_idle_while_others_work() -> None:
    """Rank 0 idles before a collective of verify; rank 1 is in it already, and waits."""
    ns = 150_000
    late = [Delay(i, 0, ns, False) for of in places(VERIFY) for i in of[1::4]]
    alike = draw(source(), [Distortion(), Distortion(-90_000)]).group().idle
    found = draw(source(), [Distortion(), Distortion(-90_000)], late).group().idle
    added = ns * len(places(VERIFY)[0][1::4])
    assert found[0].others_busy_ns - alike[0].others_busy_ns == pytest.approx(added, rel=0.02)
    assert found[1].others_busy_ns == pytest.approx(alike[1].others_busy_ns, abs=5_000)
