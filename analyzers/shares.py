"""What each stage takes of the cycle: three shares, kept apart by name (design 5.9).

* of the cycle: the stage's work and the idle that its ops end, over the cycle;
* of busy time: its work over all work;
* of the unprofiled cycle C: from work / C to (work + min(its idle, C - all work)) / C, where
  its idle is as recorded, and more by C - cycle where C is the longer of the two.

Every share is the median over whole cycles of the cycle's own share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import CODE_OF_ACTIVITY
from specscope.analyzers.attribution import COLLECTIVES, Attribution, collective_durations, sums
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.statistics import Estimate, Float, bootstrap, estimate, interval, median
from specscope.analyzers.words import ACCEPT, IDLE, STAGES, VERIFY, WORK

GRAPH_SPAN = CODE_OF_ACTIVITY["graph"]


@dataclass(frozen=True)
class StageShare:
    """One stage on one rank (`rank` None: median over the ranks), medians a cycle."""

    rank: int | None
    stage: str
    part_of: str | None  # `accept` and `verify_only` are parts of `verify`
    work_ns: float
    idle_ns: float
    total_ns: float
    collective_ns: float  # exposed: not behind compute
    hidden_collective_ns: float  # collectives behind compute, beside it
    cycle_share: Estimate
    work_share: float
    idle_share: float
    collective_share: float
    opaque_ns: float  # graph spans: what ran inside is unknown, collectives too
    busy_share: Estimate | None
    unprofiled: tuple[float, float] | None  # low and high, None: unknown or refused

    @property
    def collectives_known(self) -> bool:
        """Can collectives be told from compute in all of its work?"""
        return self.opaque_ns == 0


@dataclass(frozen=True)
class Counted:
    """The cycles of one rank that enter a statistic: [cycle, stage, state, what] sums."""

    total: Int
    collectives: Int  # [cycle, stage]: durations of collectives, exposed or not
    ns: Int
    steady: Bool


def counted(one: Attribution, kind: str, batch: int | None) -> Counted:
    """The whole cycles of that kind and batch size."""
    rows = one.cycles.of(kind, batch)
    return Counted(
        sums(one)[rows],
        collective_durations(one)[rows],
        one.cycles.ns[rows],
        one.cycles.mark[rows] == 0,
    )


def rows_of(stages: Int) -> list[tuple[str, str | None, list[int]]]:
    """(name, part of, stages) of the rows to show: those with any time, verify with accept.

    `stages` holds the nanoseconds of each stage over all cycles.
    """
    rows: list[tuple[str, str | None, list[int]]] = []
    for code, name in enumerate(STAGES):
        if code == ACCEPT:
            continue
        if code == VERIFY:
            both = [VERIFY, ACCEPT]
            if stages[both].sum():
                rows.append((name, None, both))
            if stages[ACCEPT]:
                rows.append(("verify_only", "verify", [VERIFY]))
                rows.append(("accept", "verify", [ACCEPT]))
        elif stages[code]:
            rows.append((name, None, [code]))
    return rows


def stage_share(
    one: Counted,
    rank: int,
    row: tuple[str, str | None, list[int]],
    unprofiled_ns: float | None,
    on_host: bool,
) -> tuple[StageShare, Float, Float]:
    """One row for one rank, and the bootstrap draws of its cycle and busy share."""
    name, part_of, codes = row
    total = one.total[:, codes].sum(axis=1)  # cycle, state, what
    work = total[:, WORK].sum(axis=1).astype(np.float64)
    idle = total[:, IDLE].sum(axis=1).astype(np.float64)
    collective = total[:, WORK][:, list(COLLECTIVES)].sum(axis=1).astype(np.float64)
    opaque = total[:, WORK][:, GRAPH_SPAN].astype(np.float64)
    hidden = np.maximum(one.collectives[:, codes].sum(axis=1) - collective, 0.0)
    ns = np.maximum(one.ns.astype(np.float64), 1.0)
    all_work = one.total[:, :, WORK].sum(axis=(1, 2)).astype(np.float64)
    share = (work + idle) / ns
    busy = work / np.maximum(all_work, 1.0)
    bounds = None
    if unprofiled_ns and median(all_work) <= unprofiled_ns and not on_host:
        # A cycle that was recorded shorter than C lacks time that may be this stage's.
        missing = np.maximum(unprofiled_ns - ns, 0.0)
        room = np.minimum(idle + missing, np.maximum(unprofiled_ns - all_work, 0.0))
        bounds = (median(work / unprofiled_ns), median((work + room) / unprofiled_ns))
    return (
        StageShare(
            rank,
            name,
            part_of,
            median(work),
            median(idle),
            median(work + idle),
            median(collective),
            median(hidden),
            estimate(share, share[one.steady]),
            median(work / ns),
            median(idle / ns),
            median(collective / ns),
            median(opaque),
            None if on_host else estimate(busy, busy[one.steady]),
            bounds,
        ),
        bootstrap(share[one.steady] if one.steady.any() else share),
        bootstrap(busy[one.steady] if one.steady.any() else busy),
    )


def over_ranks(rows: list[tuple[StageShare, Float, Float]]) -> StageShare:
    """The run's share of one stage: the median over its ranks."""
    shares = [share for share, _, _ in rows]
    first = shares[0]
    busy = [s.busy_share.value for s in shares if s.busy_share is not None]
    bounds = [s.unprofiled for s in shares if s.unprofiled is not None]
    n = min(s.cycle_share.n for s in shares)

    def middle(name: str) -> float:
        return float(np.median([getattr(s, name) for s in shares]))

    return StageShare(
        None,
        first.stage,
        first.part_of,
        middle("work_ns"),
        middle("idle_ns"),
        middle("total_ns"),
        middle("collective_ns"),
        middle("hidden_collective_ns"),
        _joint([s.cycle_share.value for s in shares], [d for _, d, _ in rows], n),
        middle("work_share"),
        middle("idle_share"),
        middle("collective_share"),
        max(s.opaque_ns for s in shares),
        _joint(busy, [d for _, _, d in rows], n) if len(busy) == len(shares) else None,
        # A rank that waits more has more work; the undisturbed cycle need not hold that waiting,
        # so the run's range reaches from the least to the most that a rank says.
        (min(low for low, _ in bounds), max(high for _, high in bounds))
        if len(bounds) == len(shares)
        else None,
    )


def _joint(values: list[float], draws: list[Float], n: int) -> Estimate:
    """Median over ranks; its interval from the ranks' draws, or their range when few."""
    size = min(len(d) for d in draws)
    if size == 0:
        return Estimate(float(np.median(values)), float("nan"), float("nan"), n)
    if any(len(d) != len(draws[0]) for d in draws):
        together = np.concatenate(draws)
        return Estimate(float(np.median(values)), float(together.min()), float(together.max()), n)
    low, high = interval(np.median(np.stack(draws), axis=0))
    return Estimate(float(np.median(values)), low, high, n)
