"""The causes as data: `rules/causes.toml`, read and checked."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from specscope.analyzers.figures import words
from specscope.analyzers.name_rules import bundled

OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
FIGURE_IN_TEXT: Final = re.compile(r"\{([a-z_.]+)\}")


@dataclass(frozen=True)
class Condition:
    """One figure against a number or another figure."""

    figure: str
    op: str
    value: float | str
    text: str
    because: str
    refutes: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures that decide it or that its text tells: all must be known."""
        value = (self.value,) if isinstance(self.value, str) else ()
        return tuple(dict.fromkeys((self.figure, *value, *FIGURE_IN_TEXT.findall(self.text))))

    def holds(self, table: Mapping[str, float]) -> bool | None:
        """Does it hold? None where a figure is not known."""
        if any(name not in table for name in self.figures):
            return None
        value = table[self.value] if isinstance(self.value, str) else self.value
        return OPERATORS[self.op](table[self.figure], value)


# A sign: conditions of which one is enough.
Sign = tuple[Condition, ...]


@dataclass(frozen=True)
class Cause:
    """One cause with its signs."""

    id: str
    title: str
    mend: str
    asked: bool  # people suspect it first
    signs: tuple[Sign, ...]
    beside: tuple[Condition, ...]
    against: tuple[Condition, ...]
    removes: tuple[tuple[str, ...], ...]
    removes_slack: bool  # idle or waiting: what a profiler stretches
    ratio: tuple[str, str] | None

    @property
    def conditions(self) -> Iterator[Condition]:
        """All of them."""
        for sign in self.signs:
            yield from sign
        yield from self.beside
        yield from self.against


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in the order of the file."""
    return tuple(_cause(row) for row in bundled("causes.toml")["cause"])


def _cause(row: dict[str, Any]) -> Cause:
    gain = row.get("gain", {})
    ratio = gain.get("ratio")
    found = Cause(
        row["id"],
        row["title"],
        row["mend"],
        bool(row.get("asked", False)),
        tuple(_sign(sign) for sign in row["sign"]),
        tuple(_condition(one) for one in row.get("beside", ())),
        tuple(_condition(one) for one in row.get("against", ())),
        tuple(tuple(names) for names in gain.get("removes", ())),
        bool(gain.get("slack", False)),
        (ratio[0], ratio[1]) if ratio else None,
    )
    named = {name for one in found.conditions for name in one.figures}
    named |= {name for names in found.removes for name in names} | set(found.ratio or ())
    if unknown := named - set(words()):
        raise ValueError(f"{found.id}: no figures {sorted(unknown)}")
    return found


def _sign(row: dict[str, Any]) -> Sign:
    return tuple(_condition(one) for one in row.get("any", [row]))


def _condition(row: dict[str, Any]) -> Condition:
    value = row["value"]
    return Condition(
        row["figure"],
        row["op"],
        value if isinstance(value, str) else float(value),
        row["text"],
        row["because"],
        bool(row.get("refutes", False)),
    )
