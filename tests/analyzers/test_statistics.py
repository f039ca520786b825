"""Medians and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from specscope.analyzers.statistics import DRAWS, bootstrap, estimate


@pytest.mark.parametrize("n", [5, 8, 31, 100])
def test_order_statistics_draw_the_same_medians_as_resampling(n: int) -> None:
    """The plain bootstrap, written out, has the same quantiles within its own noise."""
    rng = np.random.default_rng(1)
    values = rng.gamma(3.0, 2.0, n)
    resampled = np.median(values[rng.integers(0, n, (20_000, n))], axis=1)
    drawn = bootstrap(values)
    assert len(drawn) == DRAWS
    for q in (10, 25, 50, 75, 90):
        spread = np.percentile(resampled, min(q + 6, 100)) - np.percentile(resampled, max(q - 6, 0))
        assert abs(np.percentile(drawn, q) - np.percentile(resampled, q)) <= spread


def test_three_cycles_give_their_range() -> None:
    found = estimate(np.array([0.3, 0.1, 0.2]), np.array([0.3, 0.1, 0.2]))
    assert (found.value, found.low, found.high) == (0.2, 0.1, 0.3)


def test_the_median_is_over_all_and_the_interval_over_the_steady_ones() -> None:
    found = estimate(np.array([9.0, 1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert (found.value, found.low, found.high, found.n) == (1.0, 1.0, 1.0, 5)


def test_the_same_values_give_the_same_interval_again() -> None:
    values = np.linspace(0, 1, 17)
    assert estimate(values, values) == estimate(values, values)
