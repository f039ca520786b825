"""Do two runs differ? One test over all rows at once, exact where the cycles are few.

The cycles of each side are cut, in order, into blocks of equal length: 4 at least, as many as
the root of the cycles of the shorter side, so that cycles that resemble their neighbours do not
count as so many witnesses. A row's statistic is the difference of the sides' means over its
standard error (Welch), with a constant added to the error: rows that never vary must not win by
dividing by nothing (Tusher, Tibshirani and Chu 2001). The blocks are dealt anew to the two sides
in every possible way (above 5,000 ways 2,000 of them, with a fixed seed), and each time the
largest statistic over all rows is kept (Westfall and Young 1993, single step). A row differs
when its own exceeds that largest one in all but 5 % of the ways: so the chance of naming any row
of two equal runs is 5 % at most, however the rows hang together.

Before, values beyond the pooled median by more than 5 MAD are drawn in to there: one long cycle
must not hide, nor make, a difference. That bound is the same for every dealing, so the test stays
exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

LEVEL = 0.05  # chance of naming any row of two equal runs
FEWEST_BLOCKS = 4
MOST_EXACT = 5_000
DRAWS = 2_000
SEED = 20240521
# 97.5 % of Student's t by degrees of freedom, from 1 on; beyond the last a little under it.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_MADS = 5.0
_MAD_OF_NORMAL = 1.4826


@dataclass(frozen=True)
class Tested:
    """By row. `least` is the smallest difference of means that would have been named."""

    difference: Float  # of the means, as tested
    noise: Float  # 95 % half-width of the difference, each row for itself (Student's t)
    least: Float  # infinite where the cycles are too few to name any
    p: Float  # chance of so large a statistic in any row of equal runs
    named: Bool
    blocks: tuple[int, int]
    ways: int  # dealings that were looked at
    exact: bool


def test(a: Float, b: Float, error_floor: Float) -> Tested:
    """Compare the cycles of two runs: `a` and `b` are [cycle, row], floors by row."""
    blocks = _blocks(len(a), len(b))
    pooled = _drawn_in(np.concatenate([a, b]))
    means = np.concatenate(
        [_block_means(pooled[: len(a)], blocks[0]), _block_means(pooled[len(a) :], blocks[1])]
    )
    dealt, exact = _dealings(*blocks)
    difference, statistic, error = _statistics(means, dealt, blocks[0], error_floor)
    largest = np.sort(statistic.max(axis=1))[::-1]
    allowed = math.floor(LEVEL * len(dealt) + 1e-9)
    # A hair above: equal dealings give equal statistics up to rounding.
    edge = largest[allowed] * (1 + 1e-9) if allowed < len(largest) else math.inf
    if allowed < _equal_ways(blocks):
        edge = math.inf
    own = statistic[0]
    p = (largest[None, :] >= own[:, None] * (1 - 1e-9)).mean(axis=1)
    noise = _student(sum(blocks) - 2) * (error - error_floor)
    return Tested(difference, noise, edge * error, p, own > edge, blocks, len(dealt), exact)


def can_name(a: int, b: int) -> bool:
    """Are so many cycles on either side enough to name any difference?"""
    if min(a, b) < 2:
        return False
    blocks = _blocks(a, b)
    return math.floor(LEVEL * math.comb(sum(blocks), blocks[0]) + 1e-9) >= _equal_ways(blocks)


def _equal_ways(blocks: tuple[int, int]) -> int:
    """Dealings that say the same: the sides exchanged, where they are equally many."""
    return 2 if blocks[0] == blocks[1] else 1


def _blocks(a: int, b: int) -> tuple[int, int]:
    """Blocks of each side, of one length."""
    few = min(a, b)
    of_few = min(few, max(FEWEST_BLOCKS, math.isqrt(few)))
    length = few / of_few
    return max(round(a / length), 1), max(round(b / length), 1)


def _block_means(values: Float, blocks: int) -> Float:
    edges = np.linspace(0, len(values), blocks + 1).round().astype(np.int64)
    sums = np.add.reduceat(values, edges[:-1], axis=0)
    out: Float = sums / np.diff(edges)[:, None]
    return out


def _drawn_in(values: Float) -> Float:
    """Values beyond 5 MAD of their row's median, drawn in to there."""
    middle = np.median(values, axis=0)
    reach = _MADS * _MAD_OF_NORMAL * np.median(np.abs(values - middle), axis=0)
    out: Float = np.clip(values, middle - reach, middle + reach)
    return out


def _dealings(a: int, b: int) -> tuple[Int, bool]:
    """Ways to deal the blocks, the first as recorded: [way, block], side A's first."""
    whole = np.arange(a + b)
    if math.comb(a + b, a) <= MOST_EXACT:
        rows = []
        for first in itertools.combinations(range(a + b), a):
            rows.append([*first, *np.setdiff1d(whole, first).tolist()])
        return np.array(rows, np.int64), True
    rng = np.random.default_rng(SEED)
    dealt = rng.random((DRAWS, a + b)).argsort(axis=1)
    dealt[0] = whole
    return dealt, False


def _statistics(
    means: Float, dealt: Int, of_a: int, error_floor: Float
) -> tuple[Float, Float, Float]:
    """Difference and error as recorded, by row; the statistic by [way, row]."""
    # Sums by matrix products: a tensor of all dealings would not fit a small machine.
    in_a = np.zeros(dealt.shape)
    np.put_along_axis(in_a, dealt[:, :of_a], 1.0, axis=1)
    centred = means - means.mean(axis=0)
    of_b = dealt.shape[1] - of_a
    mean_a, square_a = in_a @ centred / of_a, in_a @ centred**2
    mean_b, square_b = (1 - in_a) @ centred / of_b, (1 - in_a) @ centred**2
    error = np.sqrt(_squared_error(square_a, mean_a, of_a) + _squared_error(square_b, mean_b, of_b))
    error += error_floor
    difference = mean_b - mean_a
    return difference[0], np.abs(difference) / error, error[0]


def _student(freedom: int) -> float:
    if freedom < 1:
        return math.inf
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 2.0


def _squared_error(square: Float, mean: Float, count: int) -> Float:
    """Of a mean, from the sum of squares."""
    if count < 2:
        return np.zeros_like(mean)
    out: Float = np.maximum(square - count * mean**2, 0.0) / (count - 1) / count
    return out
