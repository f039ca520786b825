"""Values as the JSON report writes them: rounded, finite, of bounded length."""

from __future__ import annotations

import math
from typing import Final

SHARE_DECIMALS: Final = 6
FIGURE_DIGITS: Final = 9
_LONGEST_TEXT: Final = 10_000


def text(value: object) -> str:
    """A text, cut where it is longer than anybody reads."""
    return str(value)[:_LONGEST_TEXT]


def ns(value: float | None) -> int | None:
    """A time in whole nanoseconds."""
    return round(value) if value is not None and math.isfinite(value) else None


def figure(value: float | None) -> float | None:
    """A figure with 9 significant digits."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{FIGURE_DIGITS}g}")


def share(value: float | None) -> float | None:
    """A share with 6 decimals."""
    return round(value, SHARE_DECIMALS) if value is not None and math.isfinite(value) else None


def shares(pair: tuple[float, float] | None) -> list[float | None] | None:
    """A range of shares; null when an end is not known."""
    ends = [share(value) for value in pair or (None, None)]
    return None if None in ends else ends


def interval_ns(pair: tuple[float, float]) -> list[int | None] | None:
    """A range of times; null when an end is not known."""
    ends = [ns(value) for value in pair]
    return None if None in ends else ends
