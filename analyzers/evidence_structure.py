"""Stages from the order of launches: graphs, forwards and bookkeeping kernels (design 5.2).

The launches of the main thread are walked once, from one landmark to the next. A landmark is
an anchor (a graph launch, or a forward that the engine named) or a bookkeeping kernel. An
anchor says what it is itself; where eager launches between two anchors belong is said by the
bookkeeping kernels between them. Where none is known they go with the anchor that follows,
and the border counts as uncertain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specscope.analyzers import launches
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.evidence import Opening, Placement
from specscope.analyzers.evidence_engine import NAME as ENGINE
from specscope.analyzers.evidence_engine import Marked, step_opening, steps
from specscope.analyzers.launches import Launches
from specscope.analyzers.rank import Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import (
    ACCEPT,
    DECODE,
    DRAFT,
    DRAFT_EXTEND,
    PREFILL,
    SCHEDULE,
    VERIFY,
)

NAME = "structure"

# Landmarks at one launch, in the order they act: what opens at it, it itself, what it ends.
_OPENS_DRAFT, _OPENS_EXTEND, _SPAN, _ANCHOR, _ENDS_DRAFT, _ENDS_VERIFY = range(6)


@dataclass(frozen=True)
class Landmark:
    """Rows [first, last) of the launches; `stage` is None for a graph not yet known."""

    first: int
    order: int
    last: int
    stage: int | None = None
    evidence: str = NAME
    batch: int | None = None


@dataclass
class _Run:
    """Rows [first, last) that the walk gave to one stage."""

    first: int
    last: int
    stage: int
    evidence: str
    sure: bool


def place(rank: Rank, marked: Sequence[Marked]) -> Placement | None:
    """Spans and openings by structure, anchored on the engine's annotations where given.

    `marked` is empty when annotations are not to be used. None when nothing is launched.
    """
    thread = launches.main_thread(rank)
    if thread is None:
        return None
    rows = launches.of_thread(rank, thread)
    mine = [m for m in marked if m.thread == thread]
    step_marks = steps(mine)
    if step_marks or _is_target_first(rank, rows):
        return _place_target_first(rows, thread, step_marks)
    return _place_draft_first(rows, thread, mine)


def _is_target_first(rank: Rank, rows: Launches) -> bool:
    """Does the engine's cycle begin with the target's forward (vLLM)?

    By kernels that only such an engine launches; else by the name of the process.
    """
    if rows.has("opens_draft").any():
        return False
    return bool(rows.has("target_first").any()) or rank.tables.facts.get("producer") == "vllm"


# --- engines whose cycle begins with draft: SGLang ---------------------------------------


def _place_draft_first(rows: Launches, thread: int, mine: Sequence[Marked]) -> Placement:
    target = _target_rows(rows, mine)
    speculates = _speculates(rows, mine, target)
    landmarks = list(_landmarks(rows, mine, target, speculates))
    runs = _walk(rows, landmarks, _layers_of(rows, target))
    spans = _spans(rows, runs, thread)
    if speculates:
        openings = _draft_openings(rows, runs, thread)
    else:
        openings = [
            Opening(int(rows.start[run.first]), thread, DECODE, kind="decode")
            for run in runs
            if run.stage == DECODE
        ]
    sources = (ENGINE, NAME) if mine else (NAME,)
    return Placement(spans, openings, sources, speculates)


def _speculates(rows: Launches, mine: Sequence[Marked], target: Int) -> bool:
    """Is there speculation at all: marks, bookkeeping kernels, or a second kind of graph?"""
    named = any(m.mark.stage in (VERIFY, DRAFT, DRAFT_EXTEND) for m in mine)
    kernels = any(
        rows.has(role).any() for role in ("opens_draft", "ends_draft", "ends_verify", "accept")
    )
    if named or kernels:
        return True
    if any(m.mark.stage == DECODE for m in mine):
        return False
    others = rows.is_graph & (rows.layers > 0) & ~np.isin(np.arange(len(rows.call)), target)
    return len(target) > 0 and int(others.sum()) >= len(target)


def _target_rows(rows: Launches, mine: Sequence[Marked]) -> Int:
    """Graph launches of the target: those named so, else those with the most layers."""
    graphs = np.flatnonzero(rows.is_graph)
    named = [
        graphs[(rows.start[graphs] >= m.start) & (rows.start[graphs] < m.end)]
        for m in mine
        if m.mark.role == "forward" and m.mark.stage in (VERIFY, DECODE)
    ]
    found = np.concatenate(named) if named else np.empty(0, np.int64)
    if len(found):
        alike: Int = graphs[np.isin(rows.signature[graphs], rows.signature[found])]
        return alike
    if len(graphs) == 0:
        return graphs
    layers = rows.layers[graphs]
    if layers.max() == 0:  # kernels of an unknown attention: the longest graph is the target
        layers = rows.gpu_ns[graphs]
    # Graphs of one model for several batch sizes have about as many layers.
    biggest: Int = graphs[layers * 2 > layers.max()]
    return biggest


def _layers_of(rows: Launches, target: Int) -> int:
    """Layer ops of one forward of the target; 0 when unknown."""
    return int(np.median(rows.layers[target])) if len(target) else 0


def _landmarks(
    rows: Launches, mine: Sequence[Marked], target: Int, speculates: bool
) -> Iterator[Landmark]:
    """Everything that decides a stage, in the order of the launches."""
    found: list[Landmark] = []
    covered = np.zeros(len(rows.call), dtype=bool)
    for m in mine:
        stage = m.mark.stage
        if m.mark.role not in ("stage", "forward") or stage is None:
            continue
        if stage == DECODE and speculates:
            stage = DRAFT  # an eager draft step calls itself a decode
        first, last = np.searchsorted(rows.start, (m.start, m.end), "left").tolist()
        if last <= first or covered[first:last].all():
            continue  # nothing launched, or inside a mark that is known already
        covered[first:last] = True
        order = _SPAN if m.mark.role == "stage" else _ANCHOR
        found.append(Landmark(first, order, last, stage, ENGINE, m.mark.batch))
    is_target = np.zeros(len(rows.call), dtype=bool)
    is_target[target] = True
    anchors = rows.is_graph & ~covered & (is_target | (rows.layers > 0) | (rows.roles > 0))
    for row in np.flatnonzero(anchors).tolist():
        found.append(
            Landmark(row, _ANCHOR, row + 1, _graph_stage(rows, row, is_target, speculates))
        )
    extends = rows.has("opens_draft_extend") | rows.has("draft_extend")
    for order, here in (
        (_OPENS_DRAFT, rows.has("opens_draft")),
        (_OPENS_EXTEND, extends),
        (_ENDS_DRAFT, rows.has("ends_draft")),
        (_ENDS_VERIFY, rows.has("ends_verify") & ~extends),
    ):
        for row in np.flatnonzero(here & ~rows.is_graph).tolist():
            found.append(Landmark(row, order, row + 1))
    return iter(sorted(found, key=lambda mark: (mark.first, mark.order)))


def _graph_stage(rows: Launches, row: int, is_target: Bool, speculates: bool) -> int | None:
    """Stage of a graph by what it holds; None when only its place can tell."""
    if is_target[row]:
        return VERIFY if speculates else DECODE
    for role, stage in (("draft_extend", DRAFT_EXTEND), ("verify", VERIFY), ("draft", DRAFT)):
        if rows.has(role)[row]:
            return stage
    return None


class _Walker:
    """Gives rows to stages from left to right; `state` is the stage of what comes next."""

    def __init__(self, rows: Launches) -> None:
        self.runs: list[_Run] = []
        self.at = 0
        self.state: int | None = None
        self.extended = False  # has the draft-extend forward of this cycle been seen?
        self._last_work = np.maximum.accumulate(np.where(rows.work, np.arange(len(rows.call)), -1))
        self._last_sampling = np.maximum.accumulate(
            np.where(rows.sampling, np.arange(len(rows.call)), -1)
        )
        self._layers = np.concatenate(([0], np.cumsum(rows.layers)))

    def give(self, until: int, stage: int, evidence: str = NAME, sure: bool = True) -> None:
        """Rows [at, until) belong to `stage`."""
        if until > self.at:
            self.runs.append(_Run(self.at, until, stage, evidence, sure))
            self.at = until

    def work_ends(self, until: int) -> int:
        """Row after the last model work in [at, until); `at` when there is none."""
        return self._row_after(self._last_work, until)

    def sampling_ends(self, until: int) -> int:
        """Row after the last sampling in [at, until); `at` when there is none."""
        return self._row_after(self._last_sampling, until)

    def _row_after(self, last_until: Int, until: int) -> int:
        last = int(last_until[until - 1]) if until > self.at else -1
        return max(last + 1, self.at)

    def layers(self, until: int) -> int:
        """Layer ops launched in [at, until)."""
        return int(self._layers[max(until, self.at)] - self._layers[self.at])


def _walk(rows: Launches, landmarks: Sequence[Landmark], target_layers: int) -> list[_Run]:
    """The stage of every row."""
    walker = _Walker(rows)
    pending = sum(1 for mark in landmarks if mark.stage is None and mark.order == _ANCHOR)
    lookahead = _unknown_before_target(landmarks) if pending else {}
    for number, landmark in enumerate(landmarks):
        mark = landmark
        if mark.first < walker.at and mark.order in (_ANCHOR, _SPAN):
            mark = replace(mark, first=walker.at, last=max(mark.last, walker.at))
        if mark.order == _OPENS_DRAFT:
            _open_draft(walker, mark.first, target_layers)
        elif mark.order == _OPENS_EXTEND:
            if walker.state == VERIFY:
                walker.give(mark.first, VERIFY)
                walker.state, walker.extended = DRAFT_EXTEND, False
        elif mark.order == _ENDS_DRAFT:
            walker.give(mark.last, DRAFT, sure=walker.state == DRAFT)
            walker.state = VERIFY
        elif mark.order == _ENDS_VERIFY:
            if walker.state in (VERIFY, DRAFT_EXTEND) and not walker.extended:
                walker.give(mark.last, VERIFY)
                walker.state = DRAFT_EXTEND
        else:
            _anchor(walker, mark, lookahead.get(number, 0))
    walker.give(len(rows.call), SCHEDULE if walker.state is None else walker.state)
    return walker.runs


def _open_draft(walker: _Walker, row: int, target_layers: int) -> None:
    """Before the opener of a draft: the end of draft-extend, a prefill, scheduling."""
    if walker.state == DRAFT:
        return
    if walker.state == DRAFT_EXTEND and not walker.extended:
        # An eager draft-extend ends with its last model work.
        walker.give(walker.work_ends(row), DRAFT_EXTEND)
    elif walker.state == VERIFY:
        walker.give(walker.work_ends(row), VERIFY)
    elif walker.extended:
        # The top-k over the draft's logits follows its graph as eager launches.
        walker.give(walker.sampling_ends(row), DRAFT_EXTEND)
    if target_layers and walker.layers(row) * 2 > target_layers:
        walker.give(walker.work_ends(row), PREFILL)
    walker.give(row, SCHEDULE)
    walker.state, walker.extended = DRAFT, False


def _anchor(walker: _Walker, mark: Landmark, unknown_ahead: int) -> None:
    """A forward or a named stage: what lies before it goes with it unless something said more."""
    stage = mark.stage if mark.stage is not None else _guess(walker.state, unknown_ahead)
    state = walker.state
    if state is None or state == stage or mark.order == _SPAN:
        before = SCHEDULE if state is None and stage != DRAFT else state
        walker.give(mark.first, stage if before is None else before)
    elif stage == PREFILL or (stage == DRAFT_EXTEND and state == PREFILL):
        walker.give(mark.first, SCHEDULE)
    else:
        walker.give(mark.first, stage, sure=False)
    walker.give(mark.last, stage, mark.evidence)
    walker.state = _after(stage, mark.order)
    walker.extended = stage == DRAFT_EXTEND


def _after(stage: int, order: int) -> int:
    """What launches after that anchor belong to, until something says otherwise."""
    if stage == DRAFT and order == _SPAN:
        return VERIFY
    if stage in (DRAFT_EXTEND, PREFILL, DECODE):
        return SCHEDULE
    return stage


def _guess(state: int | None, unknown_ahead: int) -> int:
    """The stage of a graph that nothing names: by the stage it stands in, else by order."""
    if state == DRAFT_EXTEND:
        return DRAFT_EXTEND
    if state == VERIFY and unknown_ahead:
        return DRAFT_EXTEND
    return DRAFT


def _unknown_before_target(landmarks: Sequence[Landmark]) -> dict[int, int]:
    """Per unnamed anchor: how many more unnamed ones come before the next named anchor."""
    ahead: dict[int, int] = {}
    count = 0
    for number in range(len(landmarks) - 1, -1, -1):
        mark = landmarks[number]
        if mark.order not in (_ANCHOR, _SPAN):
            continue
        if mark.stage is None:
            ahead[number] = count
            count += 1
        else:
            count = 0
    return ahead


def _draft_openings(rows: Launches, runs: Sequence[_Run], thread: int) -> list[Opening]:
    """A cycle opens where draft begins; with no draft on the GPU, where verify does."""
    stage = DRAFT if any(run.stage == DRAFT for run in runs) else VERIFY
    openings = []
    before: int | None = None
    for run in runs:
        if run.stage == stage and before != stage:
            openings.append(Opening(int(rows.start[run.first]), thread, stage))
        before = run.stage
    return openings


# --- engines whose cycle begins with the target: vLLM ------------------------------------


def _place_target_first(
    rows: Launches, thread: int, step_marks: Sequence[Marked]
) -> Placement | None:
    """The target's forward, then accept up to its last kernel, then draft until it ends."""
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
    runs: list[_Run] = []
    ends = [first for first, _ in forwards[1:]] + [len(rows.call)]
    evidence = ENGINE if step_marks else NAME
    for opening, (first, last), until in zip(openings, forwards, ends, strict=True):
        runs.extend(_target_step(rows, first, last, until, opening.kind, evidence))
    return Placement(
        _spans(rows, runs, thread),
        openings,
        (ENGINE, NAME) if step_marks else (NAME,),
        speculates,
        accept_apart=speculates,
    )


def _target_step(
    rows: Launches, first: int, last: int, until: int, kind: str | None, evidence: str
) -> Iterator[_Run]:
    """Runs of one step: forward [first, last), and what its sampling launches before `until`."""
    forward = {"decode": DECODE, "prefill": PREFILL}.get(kind or "", VERIFY)
    if last > first:
        yield _Run(first, last, forward, evidence, True)
    accepts = np.flatnonzero((rows.has("accept") | rows.sampling)[last:until]) + last
    drafts = np.flatnonzero((rows.work | rows.has("draft"))[last:until]) + last
    accept_end = int(accepts[-1]) + 1 if len(accepts) else last
    if len(accepts) and len(drafts) and (rows.has("draft")[last:accept_end]).any():
        # Sampling inside drafting is the draft's: accept ends before the first draft kernel.
        accept_end = int(np.flatnonzero(rows.has("draft")[last:until])[0]) + last
    if accept_end > last:
        yield _Run(last, accept_end, ACCEPT if forward == VERIFY else forward, NAME, True)
    drafts = drafts[drafts >= accept_end]
    draft_end = int(drafts[-1]) + 1 if len(drafts) else accept_end
    if draft_end > accept_end:
        known = bool(len(accepts)) or bool(rows.has("draft")[last:until].any())
        yield _Run(accept_end, draft_end, DRAFT, NAME, known)
    if until > draft_end:
        yield _Run(draft_end, until, SCHEDULE, NAME, draft_end > last)


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


# --- common ------------------------------------------------------------------------------


def _spans(rows: Launches, runs: Sequence[_Run], thread: int) -> list[Span]:
    """One span per run: from the start of its first launch to the start of what follows.

    Ending a span where the next run begins keeps every launch of the run inside it.
    """
    return [
        Span(
            thread,
            int(rows.start[run.first]),
            int(rows.start[run.last]) if run.last < len(rows.start) else int(rows.end[-1]) + 1,
            run.stage,
            run.evidence,
            sure=run.sure,
        )
        for run in runs
    ]
