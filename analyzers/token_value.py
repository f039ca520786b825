"""What each draft token is worth: the rate with one step fewer against the rate with it.

With i draft tokens a cycle gives L(i) = 1 + P(1) + ... + P(i) tokens and takes
C(i) = C - (k - i) x (draft step + verify of one more token a sequence). Token i pays where
L(i) / C(i) > L(i - 1) / C(i - 1). The first token is held against the plain step, where that is
known. What a step costs is a range, so every figure is one. Holds for a chain; for a tree the
rates of its depths are not those of one token.

Costs are added up as if nothing of a step was hidden behind the host, so no best number is named
here: that is the replay's to say (levers_tokens.curve).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """What one more draft token takes of the cycle: a forward of the draft, and its verify."""

    draft_ns: float
    verify_ns: Range
    basis: str  # what the range of the verify rests on

    @property
    def ns(self) -> Range:
        """Both."""
        return self.draft_ns + self.verify_ns[0], self.draft_ns + self.verify_ns[1]


@dataclass(frozen=True)
class TokenValue:
    """Draft token `i` of a chain, as the last one: the rate with it, and its worth."""

    i: int
    accepted: float
    accept_length: float
    per_second: Range  # tokens of a sequence
    gain: Range | None  # rate with it over the rate without it, less 1


def values_of(
    by_position: Sequence[float], cycle_ns: float, step: Step, plain_step_ns: float | None
) -> tuple[TokenValue, ...]:
    """The draft tokens 1..k; nothing where so many steps are longer than the cycle."""
    ends = [_rates(by_position, cycle_ns, ns, plain_step_ns) for ns in step.ns]
    if not all(ends):
        return ()
    found = []
    for i, accepted in enumerate(by_position, 1):
        rates = [rate[i] for rate in ends]
        gains = [now / before - 1 for rate in ends if (now := rate[i]) and (before := rate[i - 1])]
        found.append(
            TokenValue(
                i,
                accepted,
                1 + sum(by_position[:i]),
                (min(rates), max(rates)),
                (min(gains), max(gains)) if gains else None,
            )
        )
    return tuple(found)


def _rates(
    by_position: Sequence[float], cycle_ns: float, step_ns: float, plain_step_ns: float | None
) -> list[float]:
    """Tokens a second of a sequence with 0, 1, ... k draft tokens; 0: not known."""
    k = len(by_position)
    if cycle_ns - (k - 1) * step_ns <= 0:
        return []
    rates = [1e9 / plain_step_ns if plain_step_ns else 0.0]
    for i in range(1, k + 1):
        rates.append((1 + sum(by_position[:i])) / (cycle_ns - (k - i) * step_ns) * 1e9)
    return rates
