"""Do two runs differ? One test over all rows at once, exact where the cycles are few.

The cycles of each side are cut, in order, into blocks of equal length: 4 at least, as many as
the root of the cycles of the shorter side, so that cycles that resemble their neighbours do not
count as so many witnesses. A row's statistic is the difference of the sides' means over its
standard error: by the scatter of cycles or by that of blocks, whichever is larger, plus a
constant, for a row that never varies must not win by dividing by nothing (Tusher, Tibshirani and
Chu 2001). The blocks are dealt anew to the two sides in every possible way (above 5,000 ways in
2,000 of them, with a fixed seed), and each time the largest statistic over all rows is kept
(Westfall and Young 1993, single step). A row differs when its own exceeds that largest one in all
but 5 % of the ways: so the chance of naming any row of two equal runs is 5 % at most, however the
rows hang together. It has to exceed as well what comes out when each side's own mean is taken off
first: else the smallest change that could be shown would look smaller beside a large one.
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
_STUDENT_BEYOND = 2.0
_ROUNDING = 1e-6  # of nanoseconds, counts and shares: less scatter is that of the arithmetic


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
    starts = np.concatenate([_starts(len(a), blocks[0]), len(a) + _starts(len(b), blocks[1])])
    dealt, exact = _dealings(*blocks)
    recorded = _Blocks(np.concatenate([a, b]), starts)
    difference, statistic, error = _statistics(recorded, dealt, error_floor)
    largest = np.sort(statistic.max(axis=1))[::-1]
    allowed = math.floor(LEVEL * len(dealt) + 1e-9)
    edge = math.inf
    if allowed >= _equal_ways(blocks):
        centred = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
        _, apart, _ = _statistics(_Blocks(centred, starts), dealt, error_floor)
        # A hair above: equal dealings give equal statistics up to rounding.
        edge = (1 + 1e-9) * max(largest[allowed], np.sort(apart.max(axis=1))[::-1][allowed])
    own = statistic[0]
    p = (largest[None, :] >= own[:, None] * (1 - 1e-9)).mean(axis=1)
    noise = _student(sum(blocks) - 2) * (error - error_floor)
    noise[noise < _ROUNDING] = 0.0
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


def _starts(cycles: int, blocks: int) -> Int:
    """First cycle of each block, as even as whole cycles allow."""
    return np.linspace(0, cycles, blocks + 1).round().astype(np.int64)[:-1]


def _dealings(a: int, b: int) -> tuple[Float, bool]:
    """Ways to deal the blocks, the first as recorded: [way, block], 1 where it goes to side A."""
    exact = math.comb(a + b, a) <= MOST_EXACT
    if exact:
        chosen = np.array(list(itertools.combinations(range(a + b), a)), np.int64)
    else:
        rng = np.random.default_rng(SEED)
        chosen = rng.random((DRAWS, a + b)).argsort(axis=1)[:, :a]
        chosen[0] = np.arange(a)
    dealt = np.zeros((len(chosen), a + b))
    np.put_along_axis(dealt, chosen, 1.0, axis=1)
    return dealt, exact


class _Blocks:
    """Sums of each block, by [block, row]: all that a dealing needs."""

    def __init__(self, cycles: Float, starts: Int) -> None:
        # Less the mean of all: sums of squares then keep their digits.
        values = cycles - cycles.mean(axis=0)
        self.size = np.diff(np.append(starts, len(cycles))).astype(np.float64)
        self.sum = np.add.reduceat(values, starts, axis=0)
        self.squares = np.add.reduceat(values**2, starts, axis=0)

    def side(self, dealt: Float) -> tuple[Float, Float]:
        """Mean of a side and its squared error, by [way, row]."""
        count = (dealt @ self.size)[:, None]
        blocks = dealt.sum(axis=1)[:, None]
        mean = dealt @ self.sum / count
        of_cycles = (dealt @ self.squares - count * mean**2) / np.maximum(count - 1, 1) / count
        # Scatter of the blocks' sums about what the mean makes of their sizes.
        size = self.size[:, None]
        apart = (
            dealt @ self.sum**2
            - 2 * mean * (dealt @ (size * self.sum))
            + mean**2 * (dealt @ size**2)
        )
        of_blocks = apart / count**2 * blocks / np.maximum(blocks - 1, 1)
        return mean, np.maximum(np.maximum(of_cycles, of_blocks), 0.0)


def _statistics(of: _Blocks, dealt: Float, error_floor: Float) -> tuple[Float, Float, Float]:
    """Difference and error as recorded, by row; the statistic by [way, row]."""
    mean_a, squared_a = of.side(dealt)
    mean_b, squared_b = of.side(1 - dealt)
    error = np.sqrt(squared_a + squared_b) + error_floor
    difference = mean_b - mean_a
    return difference[0], np.abs(difference) / error, error[0]


def _student(freedom: int) -> float:
    if freedom < 1:
        return math.inf
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _STUDENT_BEYOND
