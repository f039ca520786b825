"""Stages of a run on the CPU from annotations alone: no launches to follow.

Engines that name draft and draft-extend but not verify (SGLang) leave a gap between the two
that holds the target's forward: it is verify.
"""

from __future__ import annotations

from collections.abc import Sequence

from specscope.analyzers.evidence import Opening, Placement, busiest_thread, merged_openings
from specscope.analyzers.evidence_engine import NAME, Marked, steps
from specscope.analyzers.spans import Span
from specscope.analyzers.words import DECODE, DRAFT, DRAFT_EXTEND, PREFILL, VERIFY


def place(marked: Sequence[Marked]) -> Placement | None:
    """Spans and openings by stage and forward marks, or None when they name no stage."""
    if steps(list(marked)):
        return None
    named = [m for m in marked if m.mark.role in ("stage", "forward") and m.mark.stage is not None]
    stages = {m.mark.stage for m in named}
    speculates = bool(stages & {VERIFY, DRAFT})
    lead = DRAFT if DRAFT in stages else VERIFY if VERIFY in stages else DECODE
    outer = [m for m in named if m.mark.role == "stage" or m.mark.stage != DRAFT]
    spans = [_span(m, speculates) for m in outer]
    thread = busiest_thread(spans, lead)
    if thread is None:
        return None
    mine = _fill_verify([s for s in spans if s.thread == thread])
    if speculates:
        openings = merged_openings(mine, lead)
    else:
        openings = [
            Opening(s.start, s.thread, s.stage, batch=s.batch, kind="decode")
            for s in mine
            if s.stage == DECODE
        ]
    return Placement(mine, openings, (NAME,), speculates)


def _span(m: Marked, speculates: bool) -> Span:
    stage = m.mark.stage
    assert stage is not None
    if stage == DECODE and speculates:
        stage = DRAFT
    return Span(m.thread, m.start, m.end, stage, NAME, batch=m.mark.batch)


def _fill_verify(spans: list[Span]) -> list[Span]:
    """Verify from the end of draft to the start of draft-extend where its forward lies between."""
    filled = list(spans)
    top = [s for s in spans if s.stage in (DRAFT, VERIFY, DRAFT_EXTEND, PREFILL)]
    for before, forward, after in zip(top, top[1:], top[2:], strict=False):
        if (before.stage, forward.stage, after.stage) == (DRAFT, VERIFY, DRAFT_EXTEND):
            filled.append(
                Span(
                    forward.thread,
                    before.end,
                    after.start,
                    VERIFY,
                    NAME,
                    batch=forward.batch,
                    sure=False,
                )
            )
    return filled
