"""Stages from specscope's own ranges (profiler.grammar): the best evidence there is."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

import numpy as np

from specscope.analyzers.evidence import Opening, Placement, busiest_thread, merged_openings
from specscope.analyzers.rank import ANNOTATION, NVTX, Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, SCHEDULE, STAGES, VERIFY
from specscope.profiler import grammar

NAME = "specscope"


def place(rank: Rank) -> Placement | None:
    """Spans and openings, or None when the rank holds no stage range of ours."""
    spans, rounds = _read(rank)
    if not any(span.stage in (DRAFT, VERIFY, DECODE) for span in spans):
        return None
    speculates = any(span.stage in (DRAFT, VERIFY) for span in spans)
    opening_stage = _opening_stage(spans, rounds) if speculates else DECODE
    thread = busiest_thread(spans, opening_stage)
    mine = [span for span in spans if span.thread == thread]
    if speculates:
        openings = merged_openings(mine, opening_stage)
    else:
        openings = [
            Opening(s.start, s.thread, s.stage, s.cycle, s.batch, s.tokens, s.k, "decode")
            for s in mine
            if s.stage == DECODE
        ]
    return Placement(
        spans,
        openings,
        (NAME,),
        speculates,
        accept_apart=any(span.stage == ACCEPT for span in spans),
    )


def _read(rank: Rank) -> tuple[list[Span], list[tuple[int, int, int]]]:
    """Stage spans in order of start, and the whole-cycle ranges as (thread, start, end)."""
    ranges = rank.ranges
    read = [
        grammar.read(name) if name.startswith(grammar.PREFIX) else None for name in ranges.names
    ]
    ours = np.array([name is not None for name in read] + [False], dtype=bool)
    rows = np.flatnonzero(ours[ranges.name] & np.isin(ranges.kind, (ANNOTATION, NVTX)))
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    spans: list[Span] = []
    rounds: list[tuple[int, int, int]] = []
    for row in rows.tolist():
        name = read[ranges.name[row]]
        assert name is not None
        thread = int(ranges.thread[row])
        start, end = int(ranges.start[row]), int(ranges.end[row])
        if name.stage == grammar.CYCLE:
            rounds.append((thread, start, end))
            continue
        spans.append(
            Span(
                thread,
                start,
                end,
                STAGES.index(name.stage),
                NAME,
                name.cycle,
                name.step,
                name.batch,
                name.tokens,
                name.k,
            )
        )
    return spans, rounds


def _opening_stage(spans: list[Span], rounds: list[tuple[int, int, int]]) -> int:
    """The stage that the engine's own cycle begins with.

    The first stage inside the whole-cycle ranges where there are any, else the first stage of
    each cycle number, else draft.
    """
    first: Counter[int] = Counter()
    working = [span for span in spans if span.stage != SCHEDULE]
    starts = [span.start for span in working]
    for thread, start, end in rounds:
        for span in working[bisect_left(starts, start) :]:
            if span.start >= end or span.thread == thread:
                first.update([span.stage] if span.start < end else [])
                break
    if not first:
        seen: set[int] = set()
        for span in spans:
            if span.cycle is not None and span.cycle not in seen and span.stage != SCHEDULE:
                seen.add(span.cycle)
                first[span.stage] += 1
    stages = {span.stage for span in spans}
    if first:
        return first.most_common(1)[0][0]
    return DRAFT if DRAFT in stages else VERIFY
