"""Acceptance that cannot be: which sources are refused, and which are only doubted.

A cycle gives at most k draft tokens and the bonus token. Without k nothing is certain, yet no
engine drafts hundreds of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from specscope.analyzers.acceptance import Acceptance
from specscope.traces.context import MOST_DRAFT_TOKENS
from specscope.traces.run import Note

# Figures are printed with two decimals.
ROUNDING: Final = 0.0051
# More draft tokens than any published chain or tree is deep.
_DOUBTFUL: Final = 33.0
_MEND: Final = "give the figure of this server: tokens a sequence and cycle, bonus token included"


def checked(found: Sequence[Acceptance], k: int | None) -> tuple[list[Acceptance], list[Note]]:
    """The sources that can be meant, best first as before; and a note on each other one."""
    kept, notes = [], []
    for one in found:
        if why := impossible(one.accept_length, k):
            text = f"{one.source}: accept length {one.accept_length:,.2f} is not used, {why}"
            notes.append(Note("acceptance_impossible", text, _MEND))
            continue
        if k is None and one.accept_length > _DOUBTFUL:
            text = (
                f"{one.source}: an accept length of {one.accept_length:,.2f} is higher than any "
                "engine's; k, the number of draft tokens, is not known to check it"
            )
            notes.append(Note("acceptance_doubtful", text, "give k in run.json"))
        kept.append(one)
    return kept, notes


def impossible(length: float, k: int | None) -> str:
    """Why a cycle cannot give so many tokens; empty where it can."""
    if k is not None and length > k + 1 + ROUNDING:
        return f"{k} draft tokens give at most {k + 1}"
    if length > MOST_DRAFT_TOKENS + 1:
        return f"no engine gives more than {MOST_DRAFT_TOKENS + 1}"
    return ""
