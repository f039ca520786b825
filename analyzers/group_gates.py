"""What keeps ranks from being compared although their collectives could be matched.

A wrong sentence about the wire is worse than none: each gate is a kind of input that gave one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from specscope.analyzers.clocks import MOST_RESIDUAL_NS, Clocks
from specscope.analyzers.collective_times import Times
from specscope.analyzers.collectives import Member
from specscope.traces.run import Run

# Clocks of one machine, and of machines that keep time, drift by less.
MOST_DRIFT_PPM = 200.0
# Transfer below 0, of all transfer: beyond it the ends are not those of the same collectives.
MOST_NEGATIVE = 0.05


def before_matching(members: Sequence[Member]) -> str | None:
    """Why these ranks are not compared at all; None where they may be."""
    cut = [str(one.rank.tables.rank) for one in members if one.rank.tables.facts.get("truncated")]
    if cut:
        return (
            f"the file of rank {', '.join(cut)} ends early: its cycles are not those of the others"
        )
    return None


def after_matching(clocks: Clocks, times: Times) -> str | None:
    """Why wait and transfer are not given, by what was measured; None where they are."""
    fast = max(clocks.clocks, key=lambda clock: abs(clock.drift_ppm))
    if abs(fast.drift_ppm) > MOST_DRIFT_PPM:
        return (
            f"the clock of rank {fast.rank} drifts by {fast.drift_ppm:,.0f} ppm, "
            f"{MOST_DRIFT_PPM:.0f} are believed: the times of its trace are not its GPU's"
        )
    transfer = times.transfer
    slack = max(MOST_RESIDUAL_NS, 4 * clocks.residual_ns)
    short = np.minimum(transfer + slack, 0).sum()
    if -short > MOST_NEGATIVE * np.maximum(transfer, 0).sum():
        count = int((transfer < -slack).any(axis=0).sum())
        worst = -int(transfer.min()) / 1e3
        return (
            f"{count} collectives end on a rank up to {worst:,.0f} us before they begin on "
            "another: they are not the same ones, as in traces of two different runs, or their "
            "ends are not theirs (Nsight Systems ends a kernel where one that overlaps it begins)"
        )
    return None


def missing_of(expected: Iterable[int], numbers: Sequence[int]) -> list[int]:
    """Ranks of a group that were not read; as many as were expected more, where numbers differ."""
    ranks = list(islice(expected, 1 << 16))
    if len(ranks) <= len(numbers):
        return []
    return [rank for rank in ranks if rank not in numbers]


def incomplete(missing: Sequence[int], numbers: Sequence[int]) -> str:
    """In place of who is late: ranks of the group that are not read; empty where all are."""
    if not missing:
        return ""
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    return (
        f"Rank {shown} of {len(missing) + len(numbers)} is not read: waiting for it counts as "
        "transferring here, so neither the wire nor a late rank can be named."
    )


def expected_size(run: Run) -> int | None:
    """Ranks that the group has: as the server said, else the files; None where nothing says."""
    tp = run.context.get("tp")
    said = [tp] if tp is not None else [one.facts.get("world_size") for one in run.ranks]
    sizes = [int(size) for size in said if size is not None]
    return max(sizes, default=None)
