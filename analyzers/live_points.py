"""The last minutes as a curve: means of a few seconds each, and tokens by accept lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.live_cycles import LiveAccept
from specscope.analyzers.live_times import LiveProcess, Times, means, steady
from specscope.analyzers.shares import rows_of


@dataclass(frozen=True)
class LivePoint:
    """Some seconds of the window; None where nothing is known of them."""

    time_ns: int  # their begin, since 1970
    cycle_ns: Mapping[int | None, float]  # mean by rank
    stage_ns: Mapping[str, float]  # mean a cycle over all ranks; they add up to the mean cycle
    accept_length: float | None
    batch: float | None
    tokens_per_second: float | None


def points_of(
    ranks: Sequence[LiveProcess],
    times: Sequence[Times],
    accepts: Sequence[LiveAccept],
    kind: str | None,
    oldest: int,
    newest: int,
    step_s: float,
) -> list[LivePoint]:
    """The window cut into pieces of `step_s`, from the first that has anything."""
    step = int(step_s * 1e9)
    if not ranks or step <= 0:
        return []
    begun = min((int(one.start[0]) for one in times if len(one.start)), default=newest)
    # Borders at whole multiples, so that a point stays where it is while the window moves on.
    first = max(oldest, begun) // step * step
    count = (newest - first) // step + 1
    kept = [steady(one) for one in times]
    at = [((one.start - first) // step)[keep] for one, keep in zip(times, kept, strict=True)]
    cycle = {
        rank.rank: means(index, one.length[keep].astype(np.float64), count)
        for rank, one, keep, index in zip(ranks, times, kept, at, strict=True)
    }
    together = np.concatenate(at)
    stages = np.concatenate([one.stages[keep] for one, keep in zip(times, kept, strict=True)])
    by_stage = {
        name: means(together, stages[:, codes].sum(axis=1).astype(np.float64), count)
        for name, part_of, codes in rows_of(stages.sum(axis=0))
        if part_of is None
    }
    batches = [
        (cycle.start_ns, cycle.batch)
        for cycle in ranks[0].fold.cycles.values()
        if cycle.kind == kind and cycle.batch is not None and cycle.start_ns >= oldest
    ]
    batch = means(
        np.array([(time - first) // step for time, _ in batches], np.int64),
        np.array([size for _, size in batches], np.float64),
        count,
    )
    lengths: list[list[LiveAccept]] = [[] for _ in range(count)]
    for accept in accepts:
        if accept.time_ns >= first:
            lengths[(accept.time_ns - first) // step].append(accept)
    return [
        LivePoint(
            time_ns=first + number * step,
            cycle_ns={
                rank: float(means[number])
                for rank, means in cycle.items()
                if not np.isnan(means[number])
            },
            stage_ns={
                name: float(means[number])
                for name, means in by_stage.items()
                if not np.isnan(means[number])
            },
            accept_length=mean_length(lengths[number]),
            batch=None if np.isnan(batch[number]) else float(batch[number]),
            # The last piece is not over yet.
            tokens_per_second=tokens_of(lengths[number]) / step_s
            if lengths[number] and number < count - 1
            else None,
        )
        for number in range(count)
    ]


def accepts_of(processes: Sequence[LiveProcess], oldest: int) -> list[LiveAccept]:
    """The accept lengths of one process: every rank of SGLang has the same ones."""
    with_lengths = [one.fold.accepts for one in processes if one.fold.accepts]
    if not with_lengths:
        return []
    return [one for one in with_lengths[0] if one.time_ns >= oldest]


def mean_length(accepts: Sequence[LiveAccept]) -> float | None:
    """Mean accept length, each sequence of each cycle counted once."""
    sequences = sum(one.sequences for one in accepts)
    return tokens_of(accepts) / sequences if sequences else None


def tokens_of(accepts: Sequence[LiveAccept]) -> float:
    """Tokens that these cycles gave."""
    return sum(one.length * one.sequences for one in accepts)


def token_rate(accepts: Sequence[LiveAccept], newest: int) -> float | None:
    """Tokens a second over the time that the lengths cover."""
    if len(accepts) < 2:
        return None
    seconds = (newest - accepts[0].time_ns) / 1e9
    return tokens_of(accepts[1:]) / seconds if seconds > 0 else None
