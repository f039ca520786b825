"""What is looked at, as the address of the page holds it: a link restores the view.

A link is text of others: every number of it is held against the runs there are, and what does not
fit falls back to what is shown without a link. No path and no SQL stands in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

SIDES: Final = ("a", "b")
# A stretch shorter than this cannot be zoomed into any further.
SHORTEST_NS: Final = 1_000
_MOST_LETTERS: Final = 1_000


class Run(Protocol):
    """What the state must know of a run."""

    @property
    def ranks(self) -> list[int]: ...  # noqa: D102

    @property
    def length_ns(self) -> int: ...  # noqa: D102

    @property
    def middle(self) -> int | None: ...  # noqa: D102

    def span(self, rank: int | None, cycle: int | None) -> tuple[int, int]: ...  # noqa: D102

    def count(self, rank: int | None) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Side:
    """One run as it is looked at: rank (None: all), cycle, and a stretch of its axis."""

    run: int
    rank: int | None
    cycle: int | None
    low: int
    high: int


@dataclass(frozen=True)
class State:
    """One run, or two beside each other."""

    a: Side
    b: Side | None = None

    def side(self, name: str) -> Side | None:
        """The side of that name."""
        return self.a if name == "a" else self.b


def opened(runs: Sequence[Run], number: int = 0) -> Side:
    """A run as it is first shown: the cycle closest to the median, in full."""
    run = runs[number]
    low, high = run.span(None, run.middle)
    return Side(number, None, run.middle, low, high)


def fragment(state: State) -> str:
    """The part of the address behind `#`."""
    pairs = [pair for name in SIDES for pair in _pairs(name, state.side(name))]
    return "#" + "&".join(f"{key}={value}" for key, value in pairs)


def _pairs(name: str, side: Side | None) -> list[tuple[str, int]]:
    if side is None:
        return []
    values = {
        "run": side.run,
        "rank": side.rank,
        "cycle": side.cycle,
        "from": side.low,
        "to": side.high,
    }
    return [(f"{name}.{key}", value) for key, value in values.items() if value is not None]


def restored(text: str, runs: Sequence[Run]) -> State:
    """The state of a fragment, as far as it fits the runs."""
    pairs = parse_qsl(text.lstrip("#")[:_MOST_LETTERS])
    given = {key: number for key, value in pairs if (number := whole(value)) is not None}
    a = _side("a", given, runs) or opened(runs)
    return State(a, _side("b", given, runs))


def _side(name: str, given: Mapping[str, int], runs: Sequence[Run]) -> Side | None:
    number = given.get(f"{name}.run")
    if number is None or not 0 <= number < len(runs):
        return None
    side = opened(runs, number)
    run = runs[number]
    if (rank := given.get(f"{name}.rank")) in run.ranks:
        side = replace(side, rank=rank)
    cycle = given.get(f"{name}.cycle")
    if cycle is not None and 0 <= cycle < run.count(side.rank):
        side = at_cycle(side, run, cycle)
    low, high = given.get(f"{name}.from"), given.get(f"{name}.to")
    if low is not None and high is not None:
        side = at_stretch(side, run, low, high)
    return side


def kept(runs: Sequence[Run], pick: Any, window: Any) -> Side | None:
    """A side from what the page kept of it, which may have become anything."""
    found: dict[Any, Any] = {}
    for part in (pick, window):
        found |= part if isinstance(part, dict) else {}
    number = whole(found.get("run"))
    if number is None or number >= len(runs):
        return None
    run = runs[number]
    side = at_rank(opened(runs, number), run, whole(found.get("rank")))
    cycle = whole(found.get("cycle"))
    if cycle is not None and cycle < run.count(side.rank):
        side = replace(side, cycle=cycle)
    low, high = whole(found.get("low")), whole(found.get("high"))
    return side if low is None or high is None else at_stretch(side, run, low, high)


def at_cycle(side: Side, run: Run, cycle: int | None) -> Side:
    """That cycle, in full; the nearest there is."""
    count = run.count(side.rank)
    if cycle is None or not count:
        return side
    cycle = min(max(cycle, 0), count - 1)
    low, high = run.span(side.rank, cycle)
    return replace(side, cycle=cycle, low=low, high=high)


def at_stretch(side: Side, run: Run, low: int, high: int) -> Side:
    """That stretch of the axis, as far as there is one."""
    low, high = sorted((low, high))
    end = max(run.length_ns, SHORTEST_NS)
    low = min(max(low, 0), end - SHORTEST_NS)
    high = min(max(high, low + SHORTEST_NS), end)
    return replace(side, low=low, high=high)


def at_rank(side: Side, run: Run, rank: int | None) -> Side:
    """That rank, at the same place; the cycle stays where it has it."""
    side = replace(side, rank=rank if rank in run.ranks else None)
    count = run.count(side.rank)
    if side.cycle is not None and count:
        side = replace(side, cycle=min(side.cycle, count - 1))
    return side


def zoomed(side: Side, run: Run, relayout: Any) -> Side:
    """What Plotly says of the axis after a zoom or a double click."""
    if not isinstance(relayout, dict):
        return side
    if relayout.get("xaxis.autorange"):
        return at_stretch(side, run, 0, run.length_ns)
    both = relayout.get("xaxis.range") or [
        relayout.get(f"xaxis.range[{number}]") for number in (0, 1)
    ]
    if not isinstance(both, list) or len(both) != 2:
        return side
    low, high = (milliseconds(value) for value in both)
    return side if low is None or high is None else at_stretch(side, run, low, high)


def milliseconds(value: Any) -> int | None:
    """Milliseconds of the axis as nanoseconds; None for what is no such number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return round(value * 1e6)


def whole(value: Any) -> int | None:
    """A whole number of at most 18 digits."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
