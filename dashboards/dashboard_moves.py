"""How a click, a choice or a link changes what is looked at: from one state to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specscope.dashboards.app_state import (
    SIDES,
    Run,
    Side,
    State,
    at_cycle,
    at_rank,
    at_stretch,
    kept,
    opened,
    restored,
    whole,
    zoomed,
)


def moved(
    runs: Sequence[Run], trigger: str | None, given: Mapping[str, Any], before: Mapping[str, Any]
) -> State:
    """The next state. `trigger` is the id of what moved; `given` holds the values of all such ids.

    `before` are the stores of each side. A link, and the first look, make all of it anew.
    """
    name, _, end = (trigger or "url").partition("-")
    if name not in SIDES:
        return restored(str(given.get("url") or ""), runs)
    sides = {
        side: kept(runs, before.get(f"{side}-pick"), before.get(f"{side}-window")) for side in SIDES
    }
    sides[name] = _moved(runs, sides[name], name, end, given)
    return State(sides["a"] or opened(runs), sides["b"])


def _moved(
    runs: Sequence[Run], side: Side | None, name: str, end: str, given: Mapping[str, Any]
) -> Side | None:
    value = given.get(f"{name}-{end}")
    if end == "run":
        number = whole(value)
        if number is None or number >= len(runs):
            return None
        return side if side is not None and side.run == number else opened(runs, number)
    if side is None:
        return None
    run = runs[side.run]
    if end == "rank":
        return at_rank(side, run, whole(value))
    if end == "cycle":
        return side if whole(value) in (None, side.cycle) else at_cycle(side, run, whole(value))
    if end in ("back", "on"):
        step = 1 if end == "on" else -1
        return at_cycle(side, run, (side.cycle or 0) + step)
    if end == "here":
        return at_cycle(side, run, side.cycle)
    if end == "whole":
        return at_stretch(side, run, 0, run.length_ns)
    if end == "cycles":
        return at_cycle(side, run, _clicked(value))
    return zoomed(side, run, value)


def _clicked(value: Any) -> int | None:
    """The cycle of the point that was clicked."""
    try:
        return whole(value["points"][0]["customdata"])
    except (TypeError, KeyError, IndexError):
        return None
