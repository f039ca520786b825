"""The sentence of a verdict laid out in lines; its words stay as they are."""

from __future__ import annotations

import re
from typing import Final

# Where a sentence may be broken: between clauses, outside parentheses.
_BREAKS: Final = re.compile(r"(?:; |\. )(?![^()]*\))")


def clauses(sentence: str) -> tuple[str, list[str]]:
    """The first clause, and the others; what explains the first in parentheses comes second.

    >>> clauses("Verify takes 90 % of the cycle (its work; 8 cycles); 94 % of busy time.")
    ('Verify takes 90 % of the cycle', ['its work; 8 cycles', '94 % of busy time.'])
    """
    first, *rest = _BREAKS.split(sentence)
    head, bracket, inside = first.partition(" (its ")
    if not bracket:
        return first, rest
    return head, ["its " + inside.removesuffix(")"), *rest]
