"""What is looked at: every click, choice and link leads to a view that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.dashboards.app_state import (
    SHORTEST_NS,
    Side,
    State,
    fragment,
    kept,
    opened,
    restored,
)
from specscope.dashboards.dashboard_app import stores_of
from specscope.dashboards.dashboard_moves import moved


@dataclass
class Drawn:
    """A run of cycles of 1 ms each."""

    ranks: list[int]
    cycles: int

    @property
    def length_ns(self) -> int:
        return self.cycles * 1_000_000

    @property
    def middle(self) -> int | None:
        return self.cycles // 2 if self.cycles else None

    def span(self, rank: int | None, cycle: int | None) -> tuple[int, int]:
        if cycle is None:
            return 0, max(self.length_ns, 1)
        return cycle * 1_000_000, (cycle + 1) * 1_000_000

    def count(self, rank: int | None) -> int:
        return self.cycles


RUNS = [Drawn([0, 1], 10), Drawn([0], 4), Drawn([], 0)]


def fits(state: State) -> bool:
    """Is everything that it names there?"""
    for side in (state.a, state.b):
        if side is None:
            continue
        run = RUNS[side.run]
        if side.rank is not None and side.rank not in run.ranks:
            return False
        if side.cycle is not None and not 0 <= side.cycle < run.cycles:
            return False
        if not (0 <= side.low < side.high <= max(run.length_ns, SHORTEST_NS)):
            return False
    return True


def test_a_run_opens_at_the_cycle_closest_to_the_median() -> None:
    assert opened(RUNS) == Side(0, None, 5, 5_000_000, 6_000_000)
    assert opened(RUNS, 2) == Side(2, None, None, 0, 1)


def test_a_link_restores_the_view() -> None:
    state = State(Side(0, 1, 3, 3_100_000, 3_200_000), Side(1, None, 2, 0, 4_000_000))
    link = fragment(state)
    assert link == (
        "#a.run=0&a.rank=1&a.cycle=3&a.from=3100000&a.to=3200000"
        "&b.run=1&b.cycle=2&b.from=0&b.to=4000000"
    )
    assert restored(link, RUNS) == state


@given(
    st.builds(
        State,
        st.builds(
            Side,
            st.just(0),
            st.sampled_from([None, 0, 1]),
            st.integers(0, 9),
            st.integers(0, 5_000_000),
            st.integers(5_001_000, 10_000_000),
        ),
    )
)
def test_every_state_comes_back_from_its_link(state: State) -> None:
    assert restored(fragment(state), RUNS) == state


@pytest.mark.parametrize(
    "link",
    [
        "#a.run=7",
        "#a.run=-1",
        "#a.run=0&a.cycle=99999999999999999999999",
        "#a.run=0&a.cycle=-3&a.rank=17",
        "#a.run=0&a.from=9999999999&a.to=1",
        "#a.run=0&a.from=NaN&a.to=inf",
        "#a.run=0&a.from=99999999990&a.to=99999999999",
        "#a.run=<script>alert(1)</script>",
        "#a.run=../../etc/passwd&b.run=0",
        "#" + "a.run=0&" * 5000,
        "#a.run=%00&&&===&b.run=1&b.from=5&b.to=5",
        "#a.run=²",
        "nothing",
    ],
)
def test_a_link_of_others_leads_to_something_that_is_there(link: str) -> None:
    assert fits(restored(link, RUNS))


@given(st.text(alphabet="#&=ab.runkcyleftom0123456789-%", max_size=200))
def test_any_text_behind_the_hash_does(link: str) -> None:
    assert fits(restored(link, RUNS))


def stores(state: State) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, side in (("a", state.a), ("b", state.b)):
        found[f"{name}-pick"], found[f"{name}-window"] = stores_of(side)
    return found


START = State(Side(0, None, 5, 5_000_000, 6_000_000))


def move(trigger: str, value: Any, state: State = START) -> State:
    return moved(RUNS, trigger, {trigger: value}, stores(state))


def test_clicks_and_choices_move_the_view() -> None:
    assert move("a-on", 1).a == Side(0, None, 6, 6_000_000, 7_000_000)
    assert move("a-back", 1).a.cycle == 4
    assert move("a-cycle", 2).a == Side(0, None, 2, 2_000_000, 3_000_000)
    assert move("a-cycle", 99).a.cycle == 9
    assert move("a-cycle", None) == START
    assert move("a-rank", "1").a == Side(0, 1, 5, 5_000_000, 6_000_000)
    assert move("a-rank", "all", move("a-rank", "1")) == START
    assert move("a-whole", 1).a == Side(0, None, 5, 0, 10_000_000)
    assert move("a-here", 1, move("a-whole", 1)) == START
    assert move("a-cycles", {"points": [{"customdata": 7}]}).a.cycle == 7
    assert move("a-run", "1").a == Side(1, None, 2, 2_000_000, 3_000_000)
    beside = move("b-run", "1")
    assert beside == State(START.a, Side(1, None, 2, 2_000_000, 3_000_000))
    assert move("b-run", "none", beside) == START
    assert move("b-on", 1) == START


def test_a_zoom_is_taken_in_the_forms_that_plotly_gives_it() -> None:
    two = {"xaxis.range[0]": 5.25, "xaxis.range[1]": 5.5}
    assert move("a-timeline", two).a == Side(0, None, 5, 5_250_000, 5_500_000)
    assert move("a-timeline", {"xaxis.range": [5.5, 5.25]}).a.low == 5_250_000
    assert move("a-timeline", {"xaxis.autorange": True}).a == Side(0, None, 5, 0, 10_000_000)
    for odd in (None, {}, {"autosize": True}, {"xaxis.range": "no"}, {"xaxis.range": [1]}):
        assert move("a-timeline", odd) == START
    for bad in (float("nan"), float("inf"), 1e300, True, "5", None):
        assert move("a-timeline", {"xaxis.range[0]": bad, "xaxis.range[1]": 9}) == START
    tiny = move("a-timeline", {"xaxis.range[0]": 5.0, "xaxis.range[1]": 5.0}).a
    assert tiny.high - tiny.low == SHORTEST_NS


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["run", "rank", "cycle", "low", "high", "points", "xaxis.range"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


@given(
    st.sampled_from(
        [f"{s}-{e}" for s in "ab" for e in ("run", "rank", "cycle", "on", "cycles", "timeline")]
    ),
    JUNK,
    st.dictionaries(st.sampled_from(["a-pick", "a-window", "b-pick"]), JUNK, max_size=3),
)
def test_whatever_a_page_sends_the_next_view_is_there(
    trigger: str, value: Any, before: dict[str, Any]
) -> None:
    assert fits(moved(RUNS, trigger, {trigger: value}, before))


@given(JUNK, JUNK)
def test_whatever_a_page_sends_no_figure_raises(pick: Any, window: Any) -> None:
    side = kept(RUNS, pick, window)
    assert side is None or (0 <= side.run < len(RUNS) and side.low < side.high)
