"""What the rows of a sweep say together: speed-up, break-even, and the best row of each batch.

Rows are those of sweep.json (docs/sweep.md). A difference counts only where every repetition of
one row lies beyond every repetition of the other, and by chance that would happen in at most one
of twenty cases: with n and m repetitions it happens in 2 n! m! / (n + m)!, so with three each
(1 in 10) nothing is told apart, with four (1 in 35) it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

Row = dict[str, Any]
BASELINE, SPECULATION = "baseline", "speculation"
YES, NO, NEVER, UNCLEAR = "yes", "no", "never", "unclear"
_MOST_CHANCE: Final = 0.05
_DIGITS: Final = 4


def measured(row: Row) -> bool:
    """Whether the row has figures."""
    return row["tokens_per_second"] is not None


def enough(first: int, second: int) -> bool:
    """Whether so many repetitions can tell two rows apart at all."""
    return 2 / math.comb(first + second, first) <= _MOST_CHANCE


def with_comparisons(rows: Sequence[Row]) -> list[Row]:
    """The rows with `speedup`, `break_even_accept_length` and `pays`, against their baseline."""
    plain = {row["batch"]: row for row in rows if row["kind"] == BASELINE and measured(row)}
    out = []
    for row in rows:
        base = plain.get(row["batch"])
        if row["kind"] == BASELINE or base is None or not _comparable(row, base):
            out.append({**row, "speedup": None, "break_even_accept_length": None, "pays": None})
        else:
            out.append({**row, **_against(row, base)})
    return out


def _comparable(row: Row, base: Row) -> bool:
    """A server that counts no verifications has neither cycle nor accept length."""
    return None not in (row["cycle_ms"], row["accept_length"], base["step_ms"])


def _against(row: Row, base: Row) -> Row:
    """Speed-up = accept length x baseline step / cycle; it breaks even at cycle / baseline step."""
    cycle, step, accept = row["cycle_ms"], base["step_ms"], row["accept_length"]
    even = cycle["value"] / step["value"]
    speedup = accept["value"] / even
    # Each repetition has its own cycle and accept length.
    own = [a / c for a, c in zip(accept["values"], cycle["values"], strict=True)]
    low = min(*own, accept["value"] / cycle["value"]) * min(step["values"])
    high = max(*own, accept["value"] / cycle["value"]) * max(step["values"])
    told = enough(len(own), len(step["values"]))
    # Even with every draft accepted, in the best of the repetitions.
    if told and min(cycle["values"]) > (row["steps"] + 1) * max(step["values"]):
        pays = NEVER
    elif told and low > 1:
        pays = YES
    elif told and high < 1:
        pays = NO
    else:
        pays = UNCLEAR
    return {
        "speedup": {
            "value": round(speedup, _DIGITS),
            "low": round(low, _DIGITS),
            "high": round(high, _DIGITS),
        },
        "break_even_accept_length": round(even, _DIGITS),
        "pays": pays,
    }


def best(rows: Sequence[Row]) -> list[Row]:
    """For each batch the row of most tokens/s, and those that it cannot be told apart from.

    `steps` 0 is the server without speculation. Batches with fewer than two measured rows have
    nothing to choose from and are left out.
    """
    out = []
    for batch in sorted({row["batch"] for row in rows}):
        those = [row for row in rows if row["batch"] == batch and measured(row)]
        if len(those) < 2:
            continue
        first = max(those, key=lambda row: float(row["tokens_per_second"]["value"]))
        near = [row for row in those if row is not first and not _apart(first, row)]
        few = any(not _told(first, row) for row in near)
        out.append(
            {
                "batch": batch,
                "steps": first["steps"],
                "tokens_per_second": {
                    key: first["tokens_per_second"][key] for key in ("value", "low", "high")
                },
                "told_apart": not near,
                "not_told_apart_from": sorted(row["steps"] for row in near),
                "too_few_repetitions": few,
            }
        )
    return out


def _told(first: Row, second: Row) -> bool:
    return enough(*(len(row["tokens_per_second"]["values"]) for row in (first, second)))


def _apart(first: Row, second: Row) -> bool:
    """Whether the first row is faster beyond what its repetitions and the other's leave open."""
    one, other = first["tokens_per_second"], second["tokens_per_second"]
    return _told(first, second) and bool(one["low"] > other["high"])
