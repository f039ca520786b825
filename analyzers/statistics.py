"""Medians over cycles, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]

DRAWS = 1000
SEED = 20240521
FEW = 3  # with so few cycles the interval is the range


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval; `n` values stand behind it."""

    value: float
    low: float
    high: float
    n: int


def median(values: Float) -> float:
    """The median; nan of nothing."""
    return float(np.median(values)) if len(values) else float("nan")


def estimate(values: Float, steady: Float) -> Estimate:
    """Median of all values, with the bootstrap interval of the steady ones."""
    draws = bootstrap(steady if len(steady) else values)
    low, high = interval(draws)
    return Estimate(median(values), low, high, len(values))


def interval(draws: Float) -> tuple[float, float]:
    """The middle 95 % of the draws; the range where there are as few draws as values."""
    if len(draws) == 0:
        return float("nan"), float("nan")
    if len(draws) < DRAWS:
        return float(draws.min()), float(draws.max())
    low, high = np.percentile(draws, (2.5, 97.5))
    return float(low), float(high)


def bootstrap(values: Float) -> Float:
    """Medians of 1,000 resamples; the values themselves where there are 3 or fewer.

    The median of a resample of n values is an order statistic: the value at n times the
    middle one of n uniform numbers, which follows a Beta law (David and Nagaraja, Order
    Statistics, 2.1). Drawing that number draws the same medians without the resamples, so
    the cost does not grow with n.
    """
    n = len(values)
    if n <= FEW:
        return np.asarray(values, np.float64)
    rng = np.random.default_rng(SEED)
    ordered = np.sort(values)
    if n % 2:
        middle = rng.beta((n + 1) / 2, (n + 1) / 2, DRAWS)
        return ordered[_row(middle, n)]
    lower = rng.beta(n / 2, n / 2 + 1, DRAWS)
    # Given the lower of the two middle ones, the upper is the least of n / 2 above it.
    upper = lower + (1 - lower) * rng.beta(1, n / 2, DRAWS)
    return (ordered[_row(lower, n)] + ordered[_row(upper, n)]) / 2


def _row(uniform: Float, n: int) -> npt.NDArray[np.int64]:
    return np.minimum((uniform * n).astype(np.int64), n - 1)
