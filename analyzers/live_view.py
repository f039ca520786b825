"""What a live view shows of the last minutes: shares, cycle, accept length and batch, and losses.

Shares are those of `analyze` (design 5.9): the median over whole cycles of the cycle's own share,
on each rank; the run's is the median over its ranks. Verify holds accept. The curves over time
are means of a few seconds, so that stages add up to the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specscope.analyzers.live_points import (
    LivePoint,
    accepts_of,
    mean_length,
    points_of,
    token_rate,
)
from specscope.analyzers.live_times import (
    LiveProcess,
    Times,
    by_events,
    by_host,
    leading_kind,
    steady,
)
from specscope.analyzers.shares import rows_of
from specscope.analyzers.statistics import median

HOST, CUDA_EVENTS = "host", "cuda_events"
MIN_SAMPLED: Final = 3
# Points of a curve over time.
MOST_POINTS: Final = 60


@dataclass(frozen=True)
class LiveShare:
    """One stage of one rank (`rank` None: median over the ranks), medians a cycle."""

    rank: int | None
    stage: str
    part_of: str | None
    ns: float
    share: float
    low: float  # the middle half of the cycles' own shares
    high: float


@dataclass(frozen=True)
class LiveRank:
    """One rank: its cycles in the window, and how its log stands."""

    rank: int | None
    pid: int
    cycles: int
    cycle_ns: float | None  # median, by the clock of the view
    cycle_p95_ns: float | None
    host_cycle_ns: float | None  # median by the host
    sampled: int  # cycles with CUDA events
    batch: tuple[int, float, int] | None  # least, median, greatest
    pauses: int
    quiet_s: float
    ended: bool
    hook_ns: float | None
    hook_share: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LiveView:
    """Everything that is shown; `clock` says whose times the shares are."""

    clock: str
    kind: str | None
    engine: str
    window_s: float
    covered_s: float  # from the first cycle of the window to the newest row
    newest_ns: int | None
    ranks: tuple[LiveRank, ...]
    shares: tuple[LiveShare, ...]
    accept_length: float | None
    accept_cycles: int
    tokens_per_second: float | None
    points: tuple[LivePoint, ...]
    point_s: float
    missing_ranks: tuple[int, ...]
    notes: tuple[str, ...]

    def share(self, stage: str, rank: int | None = None) -> LiveShare | None:
        """The row of one stage: of the run, or of one rank."""
        return next((s for s in self.shares if (s.stage, s.rank) == (stage, rank)), None)


def live_view(
    processes: Sequence[LiveProcess], window_s: float, notes: Sequence[str] = ()
) -> LiveView:
    """The view of these processes. Those without stages give accept lengths alone."""
    ranks = [one for one in processes if one.fold.cycles]
    newest = max((p.fold.newest_ns for p in processes if p.fold.newest_ns is not None), default=0)
    oldest = newest - int(window_s * 1e9)
    kind = leading_kind(ranks)
    host = [by_host(one.fold, kind, oldest) for one in ranks]
    events = [by_events(one.fold, kind, oldest) for one in ranks]
    sampled = bool(ranks) and all(len(times.length) > MIN_SAMPLED for times in events)
    chosen = events if sampled else host
    accepts = accepts_of(processes, oldest)
    first = min((int(times.start[0]) for times in host if len(times.start)), default=newest)
    covered = max(newest - first, 0) / 1e9
    step = max(window_s / MOST_POINTS, 1.0)
    world = max((one.world_size or 0 for one in processes), default=0)
    known = {one.rank for one in processes}
    return LiveView(
        clock=CUDA_EVENTS if sampled else HOST,
        kind=kind,
        engine=next((one.engine for one in processes if one.engine), ""),
        window_s=window_s,
        covered_s=covered,
        newest_ns=newest or None,
        ranks=tuple(
            _rank(one, times, on_host, len(by_gpu.length), kind, oldest)
            for one, times, on_host, by_gpu in zip(ranks, chosen, host, events, strict=True)
        ),
        shares=tuple(_shares([one.rank for one in ranks], chosen)),
        accept_length=mean_length(accepts),
        accept_cycles=len(accepts),
        tokens_per_second=token_rate(accepts, newest),
        points=tuple(points_of(ranks, chosen, accepts, kind, oldest, newest, step)),
        point_s=step,
        missing_ranks=tuple(rank for rank in range(min(world, 4096)) if rank not in known),
        notes=tuple(notes),
    )


def _shares(ranks: Sequence[int | None], times: Sequence[Times]) -> list[LiveShare]:
    """The rows of the run, then those of each rank."""
    found = [(rank, one) for rank, one in zip(ranks, times, strict=True) if len(one.length)]
    if not found:
        return []
    rows = rows_of(np.sum([one.stages.sum(axis=0) for _, one in found], axis=0))
    by_rank = [
        [_share(rank, one, name, part_of, codes) for rank, one in found]
        for name, part_of, codes in rows
    ]
    run = [
        LiveShare(
            None,
            same[0].stage,
            same[0].part_of,
            *(
                float(np.median([getattr(share, name) for share in same]))
                for name in ("ns", "share", "low", "high")
            ),
        )
        for same in by_rank
    ]
    # A process that does not know its rank is the only one: its rows are the run's.
    return run + [share for same in by_rank for share in same if share.rank is not None]


def _share(
    rank: int | None, times: Times, name: str, part_of: str | None, codes: list[int]
) -> LiveShare:
    ns = times.stages[:, codes].sum(axis=1)
    share = ns / np.maximum(times.length, 1)
    low, high = np.percentile(share, (25, 75))
    return LiveShare(
        rank, name, part_of, median(ns.astype(np.float64)), median(share), float(low), float(high)
    )


def _rank(
    one: LiveProcess, times: Times, host: Times, sampled: int, kind: str | None, oldest: int
) -> LiveRank:
    batches = [
        cycle.batch
        for cycle in one.fold.cycles.values()
        if cycle.kind == kind and cycle.batch is not None and cycle.start_ns >= oldest
    ]
    cycle = median(times.length.astype(np.float64)) if len(times.length) else None
    on_host = median(host.length.astype(np.float64)) if len(host.length) else None
    cost = one.hook_cost.ns_per_cycle if one.hook_cost is not None else None
    return LiveRank(
        rank=one.rank,
        pid=one.pid,
        cycles=len(times.length),
        cycle_ns=cycle,
        cycle_p95_ns=float(np.percentile(times.length, 95)) if len(times.length) else None,
        host_cycle_ns=on_host,
        sampled=sampled,
        batch=(min(batches), float(np.median(batches)), max(batches)) if batches else None,
        pauses=int((~steady(times)).sum()),
        quiet_s=one.quiet_s,
        ended=one.ended,
        hook_ns=cost,
        hook_share=cost / on_host if cost is not None and on_host else None,
        notes=one.notes,
    )
