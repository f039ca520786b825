"""Stages from the cycle log of specscope's hooks: by CUDA events, else by the host's times.

By events, the sampled cycles are laid end to end: the log has every N-th, and a cycle reaches
from its first event to the first of the next. What no stage's events hold is `schedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.evidence import Opening, Placement
from specscope.analyzers.evidence_specscope import NAME, placed
from specscope.analyzers.rank import Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, SCHEDULE, STAGES, VERIFY
from specscope.traces.run import RankTables, Run

HOST, CUDA_EVENTS = "host", "cuda_events"
MIN_SAMPLED = 3
# A log may hold days; the newest cycles of it are analysed.
MOST_CYCLES = 20_000
# Rows looked at where the log numbers no cycle.
MOST_ROWS = 200_000


def clock_of(run: Run) -> str | None:
    """Whose times the shares rest on; None when the run is no cycle log."""
    logs = [rank.cycle_log for rank in run.ranks if rank.cycle_log is not None]
    if not logs:
        return None
    enough = all(len(_sampled(log)[0]) > MIN_SAMPLED for log in logs)
    return CUDA_EVENTS if enough else HOST


def place(rank: Rank, clock: str) -> Placement | None:
    """Spans and openings by that clock, or None when the log names no stage."""
    log = rank.tables.cycle_log
    assert log is not None
    return _by_events(log) if clock == CUDA_EVENTS else _by_host(log)


def left_out(tables: RankTables) -> int:
    """How many of the oldest cycles are not analysed."""
    log = tables.cycle_log
    if log is None:
        return 0
    return max(0, len(pc.unique(log["cycle"].drop_null())) - MOST_CYCLES)


@dataclass(frozen=True)
class Accepted:
    """Accept lengths of a log: by cycle number, and over all."""

    by_cycle: dict[int, float]
    mean: float | None


def accepted(tables: RankTables) -> Accepted:
    """The accept lengths of a log; nothing where there are none."""
    if tables.cycle_log is None:
        return Accepted({}, None)
    rows = _rows(tables.cycle_log, "accept")
    rows = rows.filter(pc.is_valid(rows["accept_length"]))
    length = np.asarray(rows["accept_length"].to_numpy())
    weight = np.asarray(rows["batch"].fill_null(1).to_numpy()).astype(np.float64)
    numbered = zip(rows["cycle"].to_pylist(), length.tolist(), strict=True)
    mean = float(np.average(length, weights=weight)) if weight.sum() > 0 else None
    return Accepted({number: one for number, one in numbered if number is not None}, mean)


def _rows(log: pa.Table, row: str) -> pa.Table:
    return log.filter(pc.equal(log["row"].cast(pa.string()), row))


def _newest(log: pa.Table) -> pa.Table:
    """The rows of the newest cycles, where there are too many; rows are in order of start."""
    numbers = pc.unique(log["cycle"].drop_null())
    if len(numbers) == 0:
        return log.slice(max(0, log.num_rows - MOST_ROWS))
    if len(numbers) <= MOST_CYCLES:
        return log
    keep = numbers.slice(len(numbers) - MOST_CYCLES)
    return log.filter(pc.is_in(log["cycle"], value_set=pa.array(keep)))


def _by_host(log: pa.Table) -> Placement | None:
    log = _newest(log)
    spans = [_span(row) for row in _rows(log, "stage").to_pylist()]
    rounds = [_span(row) for row in _rows(log, "cycle").to_pylist()]
    return placed(spans, rounds)


def _span(row: dict[str, object]) -> Span:
    stage = row["stage"]
    return Span(
        int(str(row["thread"])),
        int(str(row["start_ns"])),
        int(str(row["end_ns"])),
        SCHEDULE if stage is None else STAGES.index(str(stage)),
        NAME,
        _number(row["cycle"]),
        _number(row["draft_step"]),
        _number(row["batch"]),
        _number(row["tokens"]),
        _number(row["k"]),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _sampled(log: pa.Table) -> tuple[list[dict[str, object]], pa.Table]:
    """Cycles with GPU times in order, and the rows of stages with GPU times."""
    timed = log.filter(pc.and_(pc.is_valid(log["gpu_end_ns"]), pc.is_valid(log["cycle"])))
    cycles = _rows(timed, "cycle")
    whole = cycles.filter(pc.greater(cycles["gpu_end_ns"], 0))
    newest = whole.slice(max(0, whole.num_rows - MOST_CYCLES))
    return newest.to_pylist(), _rows(timed, "stage")


def _by_events(log: pa.Table) -> Placement | None:
    cycles, rows = _sampled(log)
    stages: dict[int, list[dict[str, object]]] = {}
    for row in rows.to_pylist():
        stages.setdefault(int(row["cycle"]), []).append(row)
    spans: list[Span] = []
    openings: list[Opening] = []
    at = int(str(cycles[0]["start_ns"])) if cycles else 0
    found: set[int] = set()
    for cycle in cycles:
        number, length = int(str(cycle["cycle"])), int(str(cycle["gpu_end_ns"]))
        inside = [_gpu_span(row, at, length) for row in stages.get(number, ())]
        spans += inside
        found.update(span.stage for span in inside)
        openings.append(_opening(at, number, [_span(cycle), *inside]))
        at += length
    if not found & {DRAFT, VERIFY, DECODE}:
        return None
    openings.append(Opening(at, 0, None))  # where the last one ends
    return Placement(
        spans,
        openings,
        (NAME,),
        speculates=bool(found & {DRAFT, VERIFY}),
        accept_apart=ACCEPT in found,
        clock=CUDA_EVENTS,
    )


def _gpu_span(row: dict[str, object], at: int, length: int) -> Span:
    """The stage's span on the laid-out clock, cut at the cycle's end."""
    span = _span(row)
    start = min(max(int(str(row["gpu_start_ns"])), 0), length)
    end = min(max(int(str(row["gpu_end_ns"])), start), length)
    return Span(
        0,
        at + start,
        at + end,
        span.stage,
        NAME,
        span.cycle,
        span.step,
        span.batch,
        span.tokens,
        span.k,
    )


def _opening(at: int, number: int, spans: Sequence[Span]) -> Opening:
    """The opening of a cycle, with what its ranges know of it."""
    batch, tokens, k = (
        next((value for span in spans if (value := getattr(span, name)) is not None), None)
        for name in ("batch", "tokens", "k")
    )
    return Opening(at, 0, None, number, batch, tokens, k)
