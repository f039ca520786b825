"""Which stage every launch belongs to, by the best evidence the trace holds (design 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from specscope.analyzers import (
    evidence_engine,
    evidence_frames,
    evidence_host,
    evidence_log,
    evidence_specscope,
    evidence_structure,
)
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.evidence import Placement, with_batches
from specscope.analyzers.evidence_engine import Marked
from specscope.analyzers.rank import Rank
from specscope.analyzers.spans import Span, innermost
from specscope.analyzers.words import (
    DECODE,
    DRAFT,
    DRAFT_EXTEND,
    EVIDENCE,
    PREFILL,
    SCHEDULE,
    UNPLACED,
    VERIFY,
)


@dataclass(frozen=True)
class Placed:
    """Every call and op of one rank with its stage."""

    placement: Placement
    span_of_call: Int  # innermost span of each call, -1: none
    stage_of_call: npt.NDArray[np.int8]
    sure: Bool  # per call: does its stage rest on more than the order of launches?
    stage_of_op: npt.NDArray[np.int8]  # UNPLACED when unlinked
    prefill_marks: Int  # host times at which the engine says a prefill forward begins


def place(
    rank: Rank, use: Sequence[str] = EVIDENCE, log_clock: str = evidence_log.HOST
) -> Placed | None:
    """Stages by the kinds of evidence in `use`, best first; None when there is none at all.

    A cycle log is read by `log_clock`.
    """
    marked = evidence_engine.marked_ranges(rank) if "engine" in use else []
    placement = (
        evidence_log.place(rank, log_clock)
        if rank.tables.cycle_log is not None
        else _best(rank, use, marked)
    )
    if placement is None:
        return None
    placement = _with_prefill(placement, marked)
    forwards = [
        (m.start, m.mark.batch)
        for m in marked
        if m.mark.role == "forward" and m.mark.stage in (VERIFY, DECODE)
    ]
    placement = replace(placement, openings=with_batches(placement.openings, forwards))
    spans = placement.spans
    owner = innermost(spans, rank.calls.thread, rank.calls.start)
    stage = np.array([s.stage for s in spans] + [SCHEDULE], np.int8)
    sure = np.array([s.sure for s in spans] + [True], dtype=bool)
    stage_of_call = stage[owner]
    linked = rank.ops.call >= 0
    stage_of_op = np.where(
        linked, stage_of_call[np.maximum(rank.ops.call, 0)] if len(stage_of_call) else 0, UNPLACED
    ).astype(np.int8)
    prefills = [
        m.start
        for m in marked
        if (m.mark.role == "forward" and m.mark.stage == PREFILL)
        or (m.mark.role == "step" and m.mark.kind in ("prefill", "mixed"))
    ]
    return Placed(
        placement,
        owner,
        stage_of_call,
        sure[owner],
        stage_of_op,
        np.array(sorted(prefills), np.int64),
    )


def _best(rank: Rank, use: Sequence[str], marked: list[Marked]) -> Placement | None:
    if "specscope" in use and (ours := evidence_specscope.place(rank)):
        return ours
    if scopes := evidence_engine.place(marked):
        return scopes
    named = {m.mark.stage for m in marked if m.mark.role == "stage"}
    if (
        not {DRAFT, DRAFT_EXTEND} <= named
        and "frames" in use
        and (frames := evidence_frames.place(rank))
    ):
        sources = ("engine", *frames.sources) if marked else frames.sources
        return replace(frames, sources=sources)
    if not len(rank.ops.start):
        return evidence_host.place(marked)
    if "structure" in use:
        return evidence_structure.place(rank, marked)
    return None


def _with_prefill(placement: Placement, marked: list[Marked]) -> Placement:
    """Prefill forwards that the engine names are `prefill` where no stage range holds them."""
    prefills = [m for m in marked if m.mark.role == "forward" and m.mark.stage == PREFILL]
    if not prefills or "structure" in placement.sources:
        return placement
    thread = np.array([m.thread for m in prefills], np.int32)
    start = np.array([m.start for m in prefills], np.int64)
    held = innermost(placement.spans, thread, start) >= 0
    extra = [
        Span(m.thread, m.start, m.end, PREFILL, evidence_engine.NAME, batch=m.mark.batch)
        for m, inside in zip(prefills, held.tolist(), strict=True)
        if not inside
    ]
    if not extra:
        return placement
    sources = tuple(dict.fromkeys((*placement.sources, evidence_engine.NAME)))
    return replace(placement, spans=[*placement.spans, *extra], sources=sources)
