"""What an accept rate means, by engine and version.

SGLang: until 0.5.10 the rate counts the bonus token in its numerator, so it is never 0; from
0.5.11 on it is accepted drafts over proposed drafts. Rates across that border do not compare
until they are converted.
"""

from __future__ import annotations

import re
from typing import Final

SGLANG_BORDER: Final = (0, 5, 11)  # from here on without the bonus token
_BY_VERIFIED_FROM: Final = (0, 5, 9)  # divides by the tokens verified, before by steps + 1
_BY_STEPS_UNTIL: Final = (0, 5, 4)
_VERSION: Final = re.compile(r"\s*v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?")


def version_of(text: str | None) -> tuple[int, int, int] | None:
    """The first three numbers of a version.

    >>> version_of("0.5.12.post1"), version_of("v0.6"), version_of("main")
    ((0, 5, 12), (0, 6, 0), None)
    """
    match = _VERSION.match(text or "")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def rate_of_drafts(
    rate: float, version: str | None, k: int | None, draft_tokens: int | None
) -> float | None:
    """SGLang's accept rate as accepted over proposed drafts; None: cannot be said.

    >>> rate_of_drafts(0.5, "0.5.11", 3, 4)
    0.5
    >>> round(rate_of_drafts(0.5, "0.5.9", 3, 4), 4)  # 2 of 4 with the bonus token: 1 of 3
    0.3333
    """
    known = version_of(version)
    if known is None:
        return None
    if known >= SGLANG_BORDER:
        return rate
    width = _width(known, k, draft_tokens)
    if width is None or width < 2:
        return None
    return (rate * width - 1) / (width - 1) if rate * width >= 1 else None


def _width(version: tuple[int, int, int], k: int | None, draft_tokens: int | None) -> int | None:
    """What the old rates divide by: the same for a chain, another for a tree."""
    steps = None if k is None else k + 1
    if steps is not None and draft_tokens in (None, steps):
        return steps
    if version >= _BY_VERIFIED_FROM:
        return draft_tokens
    return steps if version <= _BY_STEPS_UNTIL else None
