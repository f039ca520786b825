"""The same answers as the batch grows: what a cycle and a plain step cost by the measured line.

A cycle at batch b: that of the run, with its verify replaced by the line at b x width tokens. The
rest of the cycle (draft, scheduling) is kept, so larger batches look a little better than they
are. A plain step at batch b: the line at b tokens, where a plain step is among its points. Nothing
is said outside the measured tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from specscope.analyzers.verify_cost import Line

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Growth:
    """At one batch; `break_even` and `speed_up` need the plain step within the line."""

    batch: int
    tokens: int
    verify_ns: float
    cycle_ns: float
    tokens_per_second: float | None
    break_even: float | None
    speed_up: float | None


def growth_of(
    line: Line,
    width: int,
    cycle_ns: float,
    verify_ns: float,
    accept_length: float | None,
    batches: Iterable[int] = BATCHES,
) -> tuple[Growth, ...]:
    """Every batch whose verify lies within what was measured."""
    rows = []
    for batch in batches:
        verify = line.at(batch * width)
        if verify is None:
            continue
        cycle = cycle_ns - verify_ns + verify
        plain = line.at(batch) if line.with_plain else None
        break_even = None if plain is None or plain <= 0 else cycle / plain
        rate = None if accept_length is None else batch * accept_length / cycle * 1e9
        known = accept_length is not None and break_even is not None
        rows.append(
            Growth(
                batch,
                batch * width,
                verify,
                cycle,
                rate,
                break_even,
                (accept_length or 0.0) / (break_even or 1.0) if known else None,
            )
        )
    return tuple(rows)
