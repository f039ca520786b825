"""What a pass of the target costs by the tokens it reads: measured points, and a line through them.

A pass has a fixed part (weights are read, kernels are launched) and a part for each token. The
line is the least-squares one; it is asked for nothing outside the points that were measured, as
the cost bends where the pass becomes bound by compute, or where other kernels take over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Two starts of one server differ by so much and more: what two recordings do not show of a slope.
STARTS_APART = 0.03


@dataclass(frozen=True)
class Point:
    """A measured pass over `tokens` (of all sequences): a verify, or a plain step."""

    tokens: float
    ns: float
    source: str
    plain: bool = False  # a plain step: without accept, and by other kernels than a verify's


@dataclass(frozen=True)
class Line:
    """fixed + per token x tokens; errors are None with two points, which any line meets."""

    fixed_ns: float
    per_token_ns: float
    points: tuple[Point, ...]
    error_ns: float | None  # standard deviation of the points about the line; of two: None
    per_token_error_ns: float | None  # standard error of the slope

    @property
    def with_plain(self) -> bool:
        """Does it rest on a plain step? Then what sets a verify apart is counted as tokens."""
        return any(point.plain for point in self.points)

    @property
    def per_token_range_ns(self) -> tuple[float, float]:
        """What one more token costs: 0 to the slope with a plain step, else by its error."""
        slope = max(self.per_token_ns, 0.0)
        if self.with_plain:
            return 0.0, slope
        error = self.per_token_error_ns or 0.0
        return max(self.per_token_ns - error, 0.0), max(self.per_token_ns + error, 0.0)

    @property
    def measured(self) -> tuple[float, float]:
        """Fewest and most tokens measured."""
        tokens = [point.tokens for point in self.points]
        return min(tokens), max(tokens)

    def between(self, tokens: float) -> tuple[float, float] | None:
        """Least and greatest cost of the measured points on both sides; None outside of them.

        A pass over more tokens of the same sequences costs no less: between its neighbours the
        line is not asked, as the cost bends.
        """
        below = [point for point in self.points if point.tokens <= tokens]
        above = [point for point in self.points if point.tokens >= tokens]
        if not below or not above:
            return None
        ends = max(below, key=lambda p: p.tokens).ns, min(above, key=lambda p: p.tokens).ns
        return min(ends), max(ends)

    def at(self, tokens: float) -> float | None:
        """Cost of a pass over so many tokens; None outside of what was measured."""
        low, high = self.measured
        return self.fixed_ns + self.per_token_ns * tokens if low <= tokens <= high else None


def line_through(points: Iterable[Point]) -> Line | None:
    """The line; None with fewer than two distinct numbers of tokens.

    Plain steps take part only where verify was measured with one number of tokens.
    """
    every = sorted(points, key=lambda point: point.tokens)
    found = tuple(point for point in every if not point.plain)
    if len({point.tokens for point in found}) < 2:
        found = tuple(every)
    if len({point.tokens for point in found}) < 2:
        return None
    x, y = [point.tokens for point in found], [point.ns for point in found]
    mean_x, mean_y = _mean(x), _mean(y)
    spread = sum((one - mean_x) ** 2 for one in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    fixed = mean_y - slope * mean_x
    if len(found) < 3:
        return Line(fixed, slope, found, None, _error_of_two(found))
    squares = sum((b - fixed - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    error = math.sqrt(squares / (len(found) - 2))
    return Line(fixed, slope, found, error, error / math.sqrt(spread))


def _error_of_two(points: Sequence[Point]) -> float | None:
    """Standard error of a slope that any two points meet; None against a plain step."""
    first, last = points
    if first.plain or last.plain:
        return None
    return STARTS_APART * math.hypot(first.ns, last.ns) / (last.tokens - first.tokens)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
