"""Structure where the cycle begins with the target's forward (vLLM).

The forward, then accept up to its last kernel, then draft up to its last work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from specscope.analyzers.evidence import Opening, Placement
from specscope.analyzers.evidence_engine import NAME as ENGINE
from specscope.analyzers.evidence_engine import Marked, step_opening
from specscope.analyzers.launches import Launches
from specscope.analyzers.runs import Run, spans_of
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, PREFILL, SCHEDULE, VERIFY

NAME = "structure"


def place(rows: Launches, thread: int, step_marks: Sequence[Marked]) -> Placement | None:
    """Spans and openings; `step_marks` hold the forwards where the engine names its steps."""
    speculates = bool(rows.has("accept").any() or rows.has("draft").any()) or any(
        m.mark.kind == "speculation" for m in step_marks
    )
    if step_marks:
        openings = [step_opening(m, speculates) for m in step_marks]
        forwards = [
            tuple(np.searchsorted(rows.start, (m.start, m.end), "left").tolist())
            for m in step_marks
        ]
    else:
        forwards = _forward_blocks(rows)
        openings = [
            Opening(int(rows.start[first]), thread, None, kind="speculation")
            for first, _ in forwards
        ]
    if not forwards:
        return None
    runs: list[Run] = []
    ends = [first for first, _ in forwards[1:]] + [len(rows.call)]
    evidence = ENGINE if step_marks else NAME
    for opening, (first, last), until in zip(openings, forwards, ends, strict=True):
        runs.extend(_target_step(rows, first, last, until, opening.kind, evidence))
    return Placement(
        spans_of(rows, runs, thread),
        openings,
        (ENGINE, NAME) if step_marks else (NAME,),
        speculates,
        accept_apart=speculates,
    )


def _target_step(
    rows: Launches, first: int, last: int, until: int, kind: str | None, evidence: str
) -> Iterator[Run]:
    """Runs of one step: forward [first, last), and what its sampling launches before `until`."""
    forward = {"decode": DECODE, "prefill": PREFILL}.get(kind or "", VERIFY)
    if last > first:
        yield Run(first, last, forward, evidence, True)
    accepts = np.flatnonzero((rows.has("accept") | rows.sampling)[last:until]) + last
    drafts = np.flatnonzero((rows.work | rows.has("draft"))[last:until]) + last
    accept_end = int(accepts[-1]) + 1 if len(accepts) else last
    if len(accepts) and len(drafts) and (rows.has("draft")[last:accept_end]).any():
        # Sampling inside drafting is the draft's: accept ends before the first draft kernel.
        accept_end = int(np.flatnonzero(rows.has("draft")[last:until])[0]) + last
    if accept_end > last:
        yield Run(last, accept_end, ACCEPT if forward == VERIFY else forward, NAME, True)
    drafts = drafts[drafts >= accept_end]
    draft_end = int(drafts[-1]) + 1 if len(drafts) else accept_end
    if draft_end > accept_end:
        known = bool(len(accepts)) or bool(rows.has("draft")[last:until].any())
        yield Run(accept_end, draft_end, DRAFT, NAME, known)
    if until > draft_end:
        yield Run(draft_end, until, SCHEDULE, NAME, draft_end > last)


def _forward_blocks(rows: Launches) -> list[tuple[int, int]]:
    """Without step marks: the target's forwards, cut at the accept kernels that follow each.

    The block before an accept kernel that holds the most layers is the target's; it begins
    after the last draft work before it.
    """
    accepts = np.flatnonzero(rows.has("accept"))
    if len(accepts) == 0:
        return []
    firsts = accepts[np.concatenate(([True], np.diff(accepts) > 1))]
    graphs = rows.is_graph & (rows.layers > 0)
    blocks: list[tuple[int, int]] = []
    for accept in firsts.tolist():
        low = blocks[-1][1] if blocks else 0
        window = np.arange(low, accept)
        if len(window) == 0:
            continue
        big = window[(graphs | rows.work)[window]]
        if len(big) == 0:
            continue
        top = rows.layers[big].max()
        target = big[rows.layers[big] * 2 > top] if top else big
        first, last = int(target[0]), int(target[-1]) + 1
        if blocks and (accept - first) < 1:
            continue
        blocks.append((first, last))
    return blocks
