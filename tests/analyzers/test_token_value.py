"""The worth of each draft token, by its acceptance and its cost."""

from __future__ import annotations

import pytest

from specscope.analyzers.token_value import Step, values_of

MS = 1e6


def step(draft: float, verify: tuple[float, float] = (0.0, 0.0)) -> Step:
    return Step(draft * MS, (verify[0] * MS, verify[1] * MS), "x")


def test_each_token_is_held_against_the_rate_without_it() -> None:
    """3 tokens of 1 ms in a cycle of 13 ms: 2.2 + 0.1 tokens more, 11, 12, 13 ms."""
    values = values_of((0.8, 0.4, 0.1), 13 * MS, step(1.0), 10 * MS)
    assert [value.accept_length for value in values] == pytest.approx([1.8, 2.2, 2.3])
    rates = [value.per_second[0] for value in values]
    assert rates == pytest.approx([1.8 / 11e-3, 2.2 / 12e-3, 2.3 / 13e-3])
    assert [value.gain[0] > 0 for value in values if value.gain] == [True, True, False]
    assert values[0].gain == pytest.approx((1.8 / 1.1 - 1, 1.8 / 1.1 - 1))


def test_without_a_plain_step_the_first_token_has_nothing_to_be_held_against() -> None:
    values = values_of((0.8, 0.4), 13 * MS, step(1.0), None)
    assert values[0].gain is None
    assert values[1].gain is not None


def test_a_cost_that_is_a_range_gives_a_range() -> None:
    values = values_of((0.8, 0.4, 0.3), 13 * MS, step(1.0, (0.0, 3.0)), 10 * MS)
    last = values[-1].gain
    assert last is not None
    low, high = last
    assert low == pytest.approx((2.5 / 13) / (2.2 / 9) - 1)
    assert high == pytest.approx((2.5 / 13) / (2.2 / 12) - 1)


def test_steps_longer_than_the_cycle_have_no_values() -> None:
    assert values_of((0.8, 0.4, 0.3), 2 * MS, step(1.0), None) == ()


def test_a_published_sweep_peaks_where_the_rates_say() -> None:
    """Chains of an EAGLE head: with rates that fall as p^i a best number lies inside."""
    rates = tuple(0.7**i for i in range(1, 9))
    values = values_of(rates, 10 * MS + 8 * MS, step(1.0), None)
    top = max(values, key=lambda value: value.per_second[0]).i
    assert 1 < top < 8
    for value in values[1:]:
        assert value.gain is not None
        assert (value.gain[0] > 0) == (value.i <= top)
