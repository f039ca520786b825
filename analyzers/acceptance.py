"""How many tokens a cycle gives: accept length and acceptance by position.

One convention everywhere: the accept length is tokens a sequence and cycle, the bonus token
included; the acceptance of position i is the share of cycles in which draft token i and all
before it were accepted (i from 1). What other conventions mean is settled where they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of one run, and where it comes from."""

    accept_length: float
    source: str  # as shown: `--accept-length`, `run.json`, `server log serve.log`, `cycle log`
    simulated: bool = False  # drawn by the server, not earned by a draft
    by_position: tuple[float, ...] = ()  # P(position i accepted), i = 1..k; empty: unknown
    cycles: float | None = None  # verify passes of a sequence that it was counted over
    rate: float | None = None  # accepted over proposed draft tokens; no bonus token in it
    convention: str = ""  # what the source counts, where it is not plain

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """P(position i accepted, given i - 1); None after a position that was never accepted."""
        before = (1.0, *self.by_position)
        pairs = zip(self.by_position, before, strict=False)  # the last has none behind it
        return tuple(own / last if last > 0 else None for own, last in pairs)

    @property
    def name(self) -> str:
        """The accept length with its source, and that it was simulated where it was."""
        how = ", simulated by the server" if self.simulated else ""
        return f"{self.accept_length:.2f} ({self.source}{how})"


def length_of_counts(cycles: float, accepted: float) -> float:
    """Accept length: one bonus token a cycle, and the draft tokens that were accepted.

    >>> round(length_of_counts(87, 167), 2)
    2.92
    """
    return 1 + accepted / cycles


def length_of_probability(p: float, k: int) -> float:
    """Accept length of a chain of k where each token is accepted with `p`, given the one before.

    (1 - p^(k+1)) / (1 - p): Leviathan et al. 2023 (arXiv 2211.17192).

    >>> round(length_of_probability(0.65, 5), 3), length_of_probability(1.0, 5)
    (2.642, 6.0)
    """
    return sum(p**i for i in range(k + 1)) * 1.0


def length_at(by_position: Sequence[float], k: int) -> float:
    """Accept length with the first k positions only."""
    return 1 + sum(by_position[:k])


def by_position_of(histogram: Sequence[float], k: int | None = None) -> tuple[float, ...]:
    """Acceptance by position from how many cycles accepted exactly 0, 1, 2, ... draft tokens.

    SGLang ends its histogram at the longest run it saw; with `k` the positions behind it are 0.

    >>> by_position_of([10, 20, 10], 3)
    (0.75, 0.25, 0.0)
    """
    whole = sum(histogram)
    if whole <= 0:
        return ()
    count = max(len(histogram) - 1, k or 0)
    return tuple(sum(histogram[i:]) / whole for i in range(1, count + 1))
