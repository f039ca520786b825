"""Cycles of one rank, cut on the GPU, and which of them a statistic may use (design 5.3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.evidence import Opening
from specscope.analyzers.links import LAST as _NEVER
from specscope.analyzers.rank import Rank
from specscope.analyzers.stages import Placed
from specscope.analyzers.words import DECODE, PREFILL, VERIFY

WARMUP, OUTLIER = 1, 2


@dataclass(frozen=True)
class Cycles:
    """Whole cycles of one rank in order; cycle i lies in [start[i], end[i])."""

    start: Int
    end: Int
    host_start: Int
    host_end: Int
    number: list[int | None]  # as the range grammar counts them
    kind: list[str]
    batch: list[int | None]
    tokens: list[int | None]
    k: list[int | None]
    mark: npt.NDArray[np.int8]  # 0, WARMUP, OUTLIER

    def __len__(self) -> int:
        return len(self.start)

    @property
    def ns(self) -> Int:
        """Length of each cycle."""
        return self.end - self.start

    @property
    def borders(self) -> Int:
        """Borders on the GPU: every start, and the last end. Cycles follow each other."""
        return np.append(self.start, self.end[-1:])

    def of(self, kind: str, batch: int | None) -> Bool:
        """Cycles of that kind and batch size."""
        return np.array(
            [k == kind and b == batch for k, b in zip(self.kind, self.batch, strict=True)],
            dtype=bool,
        )


def cut(rank: Rank, placed: Placed) -> Cycles:
    """Whole cycles: from the first op of each opening to that of the next; the last is open."""
    openings = placed.placement.openings
    begin = _first_op(rank, placed, openings) if len(rank.ops.start) else _host_begin(openings)
    found = np.flatnonzero(begin != _NEVER)
    # An opening without any op is no border; neither is one that does not come later.
    keep: list[int] = []
    for index in found.tolist():
        if not keep or begin[index] > begin[keep[-1]]:
            keep.append(index)
    start = begin[keep]
    host = np.array([openings[i].start for i in keep], np.int64)
    whole = [openings[i] for i in keep[:-1]]
    cycles = Cycles(
        start=start[:-1],
        end=start[1:],
        host_start=host[:-1],
        host_end=host[1:],
        number=[o.cycle for o in whole],
        kind=["" for _ in whole],
        batch=[o.batch for o in whole],
        tokens=[o.tokens for o in whole],
        k=[o.k for o in whole],
        mark=np.zeros(len(whole), np.int8),
    )
    return replace(cycles, kind=_kinds(rank, placed, cycles, whole))


def _host_begin(openings: list[Opening]) -> Int:
    return np.array([o.start for o in openings], np.int64)


def _first_op(rank: Rank, placed: Placed, openings: list[Opening]) -> Int:
    """Per opening the start of its first op on the GPU; _NEVER when it has none."""
    if not openings:
        return np.empty(0, np.int64)
    starts = np.array([o.start for o in openings], np.int64)
    stage = np.array([-1 if o.stage is None else o.stage for o in openings], np.int64)
    thread = np.array([o.thread for o in openings], np.int64)
    launched = np.flatnonzero(rank.ops.first_start != _NEVER)
    opening = np.searchsorted(starts, rank.calls.start[launched], "right") - 1
    safe = np.maximum(opening, 0)
    inside = (opening >= 0) & (rank.calls.thread[launched] == thread[safe])
    right = inside & ((stage[safe] == -1) | (placed.stage_of_call[launched] == stage[safe]))
    begin = rank.ops.first_start[launched]
    first = np.full(len(openings), _NEVER, np.int64)
    np.minimum.at(first, opening[right], begin[right])
    # The stage that opens may do nothing on the GPU (n-gram drafts): then whatever comes first.
    anything = np.full(len(openings), _NEVER, np.int64)
    np.minimum.at(anything, opening[inside], begin[inside])
    return np.where(first == _NEVER, anything, first)


def _kinds(rank: Rank, placed: Placed, cycles: Cycles, whole: list[Opening]) -> list[str]:
    """Kind of each cycle: as the engine's mark says, else by the stages launched in it."""
    n = len(whole)
    if n == 0:
        return []
    holds = {stage: np.zeros(n, dtype=bool) for stage in (VERIFY, PREFILL, DECODE)}
    if len(rank.ops.start):
        at = np.searchsorted(cycles.host_start, rank.calls.start, "right") - 1
        inside = (
            (rank.ops.first_start != _NEVER) & (at >= 0) & (rank.calls.start < cycles.host_end[-1])
        )
        for stage, row in holds.items():
            row[at[inside & (placed.stage_of_call == stage)]] = True
    else:
        for span in placed.placement.spans:
            at_span = int(np.searchsorted(cycles.host_start, span.start, "right")) - 1
            if span.stage in holds and at_span >= 0 and span.start < cycles.host_end[-1]:
                holds[span.stage][at_span] = True
    for time in placed.prefill_marks.tolist():
        at_mark = int(np.searchsorted(cycles.host_start, time, "right")) - 1
        if at_mark >= 0 and time < cycles.host_end[-1]:
            holds[PREFILL][at_mark] = True
    default = "speculation" if placed.placement.speculates else "decode"
    kinds = []
    for index, opening in enumerate(whole):
        verify, prefill, decode = (bool(holds[s][index]) for s in (VERIFY, PREFILL, DECODE))
        settled = opening.kind in ("prefill", "mixed", "empty")
        if opening.kind and (settled or not placed.placement.speculates):
            kinds.append(opening.kind)
        elif prefill:
            kinds.append("mixed" if verify or decode else "prefill")
        elif opening.kind:
            kinds.append(opening.kind)
        else:
            kinds.append("speculation" if verify else "decode" if decode else default)
    return kinds


def leading(cycles: list[Cycles]) -> tuple[str, int | None] | None:
    """Kind and batch of the cycles that the headline speaks of, over all ranks.

    Speculation before plain decode before prefill; within that the most frequent.
    """
    count: Counter[tuple[str, int | None]] = Counter()
    for one in cycles:
        count.update(zip(one.kind, one.batch, strict=True))
    for kind in ("speculation", "decode", "prefill", "mixed"):
        rows = [(n, key) for key, n in count.items() if key[0] == kind]
        if rows:
            return max(rows, key=lambda row: (row[0], -(row[1][1] or 0)))[1]
    return None


def marked(cycles: list[Cycles], bases: list[int]) -> list[Cycles]:
    """Mark warm-up and outliers of every kind and batch; marked on one rank is so on all.

    `bases` are the clock bases of the ranks, so that cycles of one moment are found.
    """
    marks = [_own_marks(one) for one in cycles]
    if len(cycles) > 1:
        marks = _spread(cycles, marks, bases)
    return [replace(one, mark=mark) for one, mark in zip(cycles, marks, strict=True)]


def _own_marks(cycles: Cycles) -> npt.NDArray[np.int8]:
    """Marks of one rank: warm-up leads the capture, outliers are anywhere."""
    mark = np.zeros(len(cycles), np.int8)
    # Prefill steps do not end a warm-up; a cycle that may enter a statistic does.
    steady = np.array([kind in ("speculation", "decode") for kind in cycles.kind], dtype=bool)
    for kind, batch in dict.fromkeys(zip(cycles.kind, cycles.batch, strict=True)):
        rows = np.flatnonzero(cycles.of(kind, batch))
        ns = cycles.ns[rows]
        if len(rows) < 3:
            continue
        warm = 0
        while (
            warm < len(rows) - 2
            and ns[warm] > 1.5 * np.median(ns[warm + 1 :])
            and not (steady & (mark == 0))[: rows[warm]].any()
        ):
            mark[rows[warm]] = WARMUP
            warm += 1
        rest = ns[warm:]
        median = float(np.median(rest))
        spread = float(np.median(np.abs(rest - median)))
        mark[rows[warm:][rest > median + max(5 * spread, 0.1 * median)]] = OUTLIER
    return mark


def _spread(
    cycles: list[Cycles], marks: list[npt.NDArray[np.int8]], bases: list[int]
) -> list[npt.NDArray[np.int8]]:
    """A mark on one rank holds for the cycle of the same moment on every rank."""
    spread = [mark.copy() for mark in marks]
    for a, (one, own) in enumerate(zip(cycles, marks, strict=True)):
        for b, other in enumerate(cycles):
            if a == b or not len(other):
                continue
            for row in np.flatnonzero(own).tolist():
                twin = _twin(one, row, bases[a], other, bases[b])
                # The first cycle waits on one rank and is merely long on another: warm-up.
                if twin is not None and spread[b][twin] != WARMUP:
                    spread[b][twin] = own[row]
    return spread


def _twin(one: Cycles, row: int, base: int, other: Cycles, other_base: int) -> int | None:
    """The cycle of `other` that is the same round: by number, by place, else by time."""
    if one.number[row] is not None and one.number[row] in other.number:
        return other.number.index(one.number[row])
    if len(one) == len(other):
        return row
    middle = int(one.start[row] + one.end[row]) // 2 + base - other_base
    twin = int(np.searchsorted(other.start, middle, "right")) - 1
    return twin if twin >= 0 and middle < other.end[twin] else None
