"""Stages from what the engines write as ranges themselves (`rules/annotations.toml`).

Two shapes. Engines that name every stage of their step (vLLM with its scopes, TensorRT-LLM with
a draft model of its own) are placed here whole. Engines that name only forwards (SGLang
`step[...]`) or some stages give anchors, from which `evidence_structure` places the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from specscope.analyzers import marks as engine_marks
from specscope.analyzers.evidence import Opening, Placement, busiest_thread
from specscope.analyzers.marks import Mark
from specscope.analyzers.rank import ANNOTATION, NVTX, Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, PREFILL, SCHEDULE, VERIFY

NAME = "engine"


@dataclass(frozen=True)
class Marked:
    """One annotation that a rule knows, with its host interval."""

    mark: Mark
    thread: int
    start: int
    end: int


def marked_ranges(rank: Rank) -> list[Marked]:
    """Every annotation with a meaning, in order of start (of equal starts the longer first)."""
    ranges = rank.ranges
    marks = engine_marks.read_all(ranges.names)
    known = np.array([m is not None and m.role != "none" for m in marks] + [False], dtype=bool)
    rows = np.flatnonzero(known[ranges.name] & np.isin(ranges.kind, (ANNOTATION, NVTX)))
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    out = []
    for row in rows.tolist():
        mark = marks[ranges.name[row]]
        assert mark is not None
        out.append(
            Marked(mark, int(ranges.thread[row]), int(ranges.start[row]), int(ranges.end[row]))
        )
    return out


def speculates(marked: list[Marked]) -> bool:
    """Do the annotations alone show speculation?"""
    return any(
        (
            m.mark.role in ("stage", "forward")
            and m.mark.stage in (VERIFY, DRAFT)
            and not m.mark.rule.startswith("vllm.")
        )
        or m.mark.rule == "vllm.draft"
        or m.mark.kind == "speculation"
        for m in marked
    )


def place(marked: list[Marked]) -> Placement | None:
    """Placement by the scopes of vLLM or TensorRT-LLM, or None where they are not there."""
    scopes = _scopes(marked)
    if not scopes:
        return None
    spans = [
        Span(m.thread, m.start, m.end, m.mark.stage if m.mark.stage is not None else SCHEDULE, NAME)
        for m in scopes
    ]
    thread = busiest_thread(spans, VERIFY)
    drafts = speculates(marked)
    openings = _step_openings(marked, thread, drafts) or _scope_openings(scopes, thread, drafts)
    spans = _plain_stages(spans, openings)
    return Placement(spans, openings, (NAME,), drafts, accept_apart=drafts, complete=True)


def _scopes(marked: list[Marked]) -> list[Marked]:
    """The ranges of an engine that names all its stages.

    Without ranges of a draft model TensorRT-LLM may hold all stages in one forward: its marks
    do not tell them apart then.
    """
    scopes = [m for m in marked if m.mark.role == "stage" and m.mark.rule.startswith("vllm.")]
    if any(m.mark.rule == "vllm.forward" for m in scopes):
        return scopes
    scopes = [m for m in marked if m.mark.rule.startswith("trtllm.")]
    return scopes if {"trtllm.step", "trtllm.draft"} <= {m.mark.rule for m in scopes} else []


def steps(marked: list[Marked]) -> list[Marked]:
    """The marks that open a step of the engine (vLLM `execute_*`, TensorRT-LLM `[Executor]`)."""
    return [m for m in marked if m.mark.role == "step"]


def step_opening(m: Marked, drafts: bool) -> Opening:
    """The opening at one step mark.

    A mark with requests only (`execute_new_0_cached_4`) does not tell whether they verify:
    they do when the trace holds drafting.
    """
    kind = m.mark.kind
    if kind == "cached":
        kind = "speculation" if drafts else "decode"
    return Opening(m.start, m.thread, None, None, m.mark.batch, m.mark.tokens, m.mark.k, kind)


def _step_openings(marked: list[Marked], thread: int | None, drafts: bool) -> list[Opening]:
    return [step_opening(m, drafts) for m in steps(marked) if m.thread == thread]


def _scope_openings(scopes: list[Marked], thread: int | None, drafts: bool) -> list[Opening]:
    """Without step marks a step begins with its preprocess scope, else with its forward."""
    mine = [m for m in scopes if m.thread == thread]
    opens = [m for m in mine if m.mark.opens]
    if not opens:
        opens = [m for m in mine if m.mark.rule == "vllm.forward"]
    kind = "speculation" if drafts else "decode"
    return [Opening(m.start, m.thread, None, kind=kind) for m in opens]


def _plain_stages(spans: list[Span], openings: list[Opening]) -> list[Span]:
    """Verify and accept of steps that verify nothing become `decode` or `prefill`."""
    if not openings:
        return spans
    starts = np.array([o.start for o in openings], np.int64)
    of = np.searchsorted(starts, [s.start for s in spans], "right") - 1
    renamed = []
    for span, step in zip(spans, of.tolist(), strict=True):
        kind = openings[step].kind if step >= 0 else None
        stage = {"decode": DECODE, "prefill": PREFILL}.get(kind or "")
        if stage is not None and span.stage in (VERIFY, ACCEPT):
            span = replace(span, stage=stage)  # noqa: PLW2901
        renamed.append(span)
    return renamed
