"""Acceptance by position, and its sign: where the first draft token fails, length is not at fault.

The first draft token is the easiest: the draft makes it from the target's own hidden states and
last token. Drafts that work have it accepted in 0.55 to 0.95 of the cycles (published logs of
EAGLE-3 and MTP heads), and each later one, given the one before, as often or less, as the
draft then feeds on itself. Two signs therefore speak against the wiring of the draft (hidden
states, positions, its own KV cache) or the template of the prompts, and not for fewer steps:

* the first position is under FIRST_LOW: it fails more often than in any draft that works;
* it lies under the later ones, given the one before, by GAP and by more than chance would have
  it. Texts that differ make later rates rise, as only the easy ones get there; that is why the
  gap must be wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.words import percent

FIRST_LOW: Final = 0.4
GAP: Final = 0.2
# Fewer passes, where their number is known, say nothing: the error of a share is then 0.1.
FEW_CYCLES: Final = 25
_ERRORS: Final = 3.0


@dataclass(frozen=True)
class Sign:
    """What acceptance by position says of the draft, in one sentence; `wiring`: it is broken."""

    wiring: bool
    sentence: str


def sign_of(acceptance: Acceptance) -> Sign | None:
    """The sign, or None where the positions are not known, too few, or show nothing."""
    rates = acceptance.by_position
    if not rates:
        return None
    if acceptance.simulated:
        return Sign(
            False,
            "Acceptance was simulated by the server: its positions say nothing of the draft.",
        )
    if acceptance.cycles is not None and acceptance.cycles < FEW_CYCLES:
        return None
    first, later = rates[0], _later(acceptance)
    text = f"The first draft token is accepted in {percent(first)} of the cycles"
    ends = (
        "that is wiring or template (hidden states, positions, the draft's own cache, chat "
        "template), not the number of steps"
    )
    if later is not None and later - first >= GAP and later - first > _chance(acceptance, later):
        return Sign(
            True,
            f"{text}, later ones, given the one before, in {percent(later)}: {ends}.",
        )
    if first < FIRST_LOW:
        return Sign(True, f"{text}, under {percent(FIRST_LOW, 0)}: {ends}.")
    return None


def _later(acceptance: Acceptance) -> float | None:
    """Conditional rate of all later positions together: accepted there over tried there."""
    rates = acceptance.by_position
    tried = sum(rates[:-1])
    return sum(rates[1:]) / tried if tried > 0 else None


def _chance(acceptance: Acceptance, later: float) -> float:
    """Difference that chance makes: three standard errors of the two shares."""
    cycles = acceptance.cycles
    if cycles is None:
        return 0.0
    first = acceptance.by_position[0]
    tried = max(sum(acceptance.by_position[:-1]) * cycles, 1.0)
    variance = first * (1 - first) / cycles + max(later * (1 - later), 0.0) / tried
    return _ERRORS * math.sqrt(variance)
