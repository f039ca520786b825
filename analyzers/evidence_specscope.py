"""Stages from specscope's own ranges (profiler.grammar): the best evidence there is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import replace

import numpy as np

from specscope.analyzers.columns import Bool
from specscope.analyzers.evidence import Opening, Placement, busiest_thread, merged_openings
from specscope.analyzers.rank import ANNOTATION, NVTX, Ranges, Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, SCHEDULE, STAGES, VERIFY
from specscope.profiler import grammar

NAME = "specscope"


def place(rank: Rank) -> Placement | None:
    """Spans and openings, or None when the rank holds no stage range of ours."""
    return placed(*_read(rank))


def placed(spans: list[Span], rounds: list[Span]) -> Placement | None:
    """The same from stage spans and whole-cycle spans in order of start."""
    if not any(span.stage in (DRAFT, VERIFY, DECODE) for span in spans):
        return None
    speculates = any(span.stage in (DRAFT, VERIFY) for span in spans)
    opening_stage = _opening_stage(spans, rounds) if speculates else DECODE
    thread = busiest_thread(spans, opening_stage)
    mine = [span for span in spans if span.thread == thread]
    if speculates:
        openings = _known(merged_openings(mine, opening_stage), mine, rounds)
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


def _known(openings: list[Opening], spans: list[Span], rounds: list[Span]) -> list[Opening]:
    """Openings with what the ranges of the same cycle say and the opening stage does not."""
    by_number: dict[int, list[Span]] = {}
    for span in (*rounds, *spans):
        if span.cycle is not None:
            by_number.setdefault(span.cycle, []).append(span)
    around = sorted(rounds, key=lambda one: one.start)
    starts = [one.start for one in around]
    out = []
    for opening in openings:
        at = bisect_right(starts, opening.start) - 1
        whole = around[at : at + 1] if at >= 0 and opening.start < around[at].end else []
        cycle = opening.cycle
        if cycle is None and whole:
            cycle = whole[0].cycle
        same = by_number.get(cycle, whole) if cycle is not None else whole
        batch, tokens, k = (
            next((v for one in (opening, *same) if (v := getattr(one, name)) is not None), None)
            for name in ("batch", "tokens", "k")
        )
        out.append(replace(opening, cycle=cycle, batch=batch, tokens=tokens, k=k))
    return out


def _read(rank: Rank) -> tuple[list[Span], list[Span]]:
    """Stage spans in order of start, and the whole-cycle ranges."""
    ranges = rank.ranges
    read = [grammar.read(name) for name in ranges.names]
    bare = _in_own_domain(ranges)
    if bare.any():
        # Names that are ours only in our domain stand behind the others.
        read += [grammar.read(grammar.PREFIX + name) for name in ranges.names]
    ours = np.array([name is not None for name in read] + [False], dtype=bool)
    code = ranges.name + np.where(bare, len(ranges.names), 0)
    rows = np.flatnonzero(ours[code] & np.isin(ranges.kind, (ANNOTATION, NVTX)))
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    spans: list[Span] = []
    rounds: list[Span] = []
    for row in rows.tolist():
        name = read[code[row]]
        assert name is not None
        thread = int(ranges.thread[row])
        start, end = int(ranges.start[row]), int(ranges.end[row])
        whole = name.stage == grammar.CYCLE
        (rounds if whole else spans).append(
            Span(
                thread,
                start,
                end,
                SCHEDULE if whole else STAGES.index(name.stage),
                NAME,
                name.cycle,
                name.step,
                name.batch,
                name.tokens,
                name.k,
            )
        )
    return spans, rounds


def _in_own_domain(ranges: Ranges) -> Bool:
    """Does each range stand in our NVTX domain, with a name that is not prefixed?"""
    own = np.array([domain == grammar.DOMAIN for domain in ranges.domains] + [False], dtype=bool)
    prefixed = [name.startswith(grammar.PREFIX) for name in ranges.names]
    bare: Bool = own[ranges.domain] & ~np.array([*prefixed, False], dtype=bool)[ranges.name]
    return bare


def _opening_stage(spans: list[Span], rounds: list[Span]) -> int:
    """The stage that the engine's own cycle begins with.

    The first stage inside the whole-cycle ranges where there are any, else the first stage of
    each cycle number, else draft.
    """
    first: Counter[int] = Counter()
    working = [span for span in spans if span.stage != SCHEDULE]
    starts = [span.start for span in working]
    for whole in rounds:
        for index in range(bisect_left(starts, whole.start), len(working)):
            span = working[index]
            if span.start >= whole.end or span.thread == whole.thread:
                first.update([span.stage] if span.start < whole.end else [])
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
