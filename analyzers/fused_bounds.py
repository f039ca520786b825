"""How much of an all-reduce fused with norm is the wire's, as far as a bound exists.

Nothing records the split. At most all of its transfer is the wire's. At least as much is as the
quickest all-reduce of the same library that carries as many bytes in the same run, or, where sizes
are not known, of the same stage, whose all-reduces all carry its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collective_times import Times
from specscope.analyzers.columns import ABSENT, Bool, Int
from specscope.analyzers.message_sizes import Sizes
from specscope.analyzers.words import ACCEPT, STAGES, VERIFY


@dataclass(frozen=True)
class FusedBound:
    """The fused all-reduces of one stage, a cycle: medians over the counted cycles and ranks."""

    stage: str
    calls: float
    transfer_ns: float  # the most that the wire takes
    wire_ns: float | None  # the least that it takes; None: nothing says
    reason: str
    group: str | None = None


def bounds(matched: Matched, times: Times, sizes: Sizes, steady: Int) -> list[FusedBound]:
    """A row for each stage that holds fused all-reduces."""
    counted = np.isin(matched.cycle[0], steady)
    stage = np.where(matched.stage == ACCEPT, VERIFY, matched.stage)
    found = []
    for code in sorted(set(stage[counted & matched.fused].tolist())):
        mine = np.flatnonzero(counted & matched.fused & (stage == code))
        least, by_size = _least(matched, times, sizes, stage, mine, counted)
        transfer = np.maximum(times.transfer[:, mine], 0)
        calls = np.bincount(np.searchsorted(steady, matched.cycle[0][mine]), minlength=len(steady))
        known = least != ABSENT
        wire = None
        if known.any():
            wire = _a_cycle(matched, mine, np.minimum(transfer, np.where(known, least, 0)), steady)
        found.append(
            FusedBound(
                stage=STAGES[code],
                calls=float(np.median(calls)),
                transfer_ns=_a_cycle(matched, mine, transfer, steady),
                wire_ns=wire,
                reason=_reason(known, by_size),
            )
        )
    return found


def _least(
    matched: Matched, times: Times, sizes: Sizes, stage: Int, fused: Int, counted: Bool
) -> tuple[Int, Bool]:
    """Per fused all-reduce the least transfer of a plain one like it, and whether sizes say so."""
    library = np.array([kind.rpartition(".")[0] for kind in matched.kind], dtype=object)
    plain = np.array([kind.endswith(".allreduce") for kind in matched.kind], dtype=bool)
    plain &= counted & ~matched.fused
    # Of the rank that arrived last: no clock enters it.
    last = times.arrival.argmax(axis=0)
    own = np.maximum(times.transfer[last, np.arange(len(matched))], 0)
    least = np.full(len(fused), ABSENT, np.int64)
    by_size = np.zeros(len(fused), dtype=bool)
    known: dict[tuple[str, bool, int], int] = {}
    for place, row in enumerate(fused.tolist()):
        sized = bool(sizes.bytes[row] != ABSENT)
        key = str(library[row]), sized, int(sizes.bytes[row] if sized else stage[row])
        if key not in known:
            alike = plain & (library == key[0])
            alike &= (sizes.bytes if sized else stage) == key[2]
            known[key] = int(own[alike].min()) if alike.any() else ABSENT
        least[place], by_size[place] = known[key], sized
    return least, by_size


def _a_cycle(matched: Matched, rows: Int, values: Int, steady: Int) -> float:
    """The median over ranks of each rank's median sum a cycle."""
    at = np.searchsorted(steady, matched.cycle[0][rows])
    sums = [np.bincount(at, weights=own, minlength=len(steady)) for own in values]
    return float(np.median([np.median(own) for own in sums]))


def _reason(known: Bool, by_size: Bool) -> str:
    if not known.any():
        return (
            "no plain all-reduce of its library and size in this run tells how long the wire takes"
        )
    of = "size" if by_size[known].all() else "stage"
    some = "" if known.all() else f", known for {int(known.sum()):,} of {len(known):,}"
    return f"the quickest plain all-reduce of its library and {of} takes as long{some}"
