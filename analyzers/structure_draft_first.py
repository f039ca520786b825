"""Structure where the cycle begins with draft (SGLang): one walk from landmark to landmark.

Draft opens at a known kernel and ends with the tree; verify follows up to a known kernel, then
draft-extend up to its last work, then scheduling until draft opens again. Where no kernel
says where a border lies, eager launches go with the anchor that follows, and the border
counts as uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.evidence import Opening, Placement
from specscope.analyzers.evidence_engine import NAME as ENGINE
from specscope.analyzers.evidence_engine import Marked
from specscope.analyzers.landmarks import (
    ACCEPTS,
    ANCHORS,
    DRAFTS,
    ENDS_DRAFT,
    GRAPH,
    OPENS_DRAFT,
    OPENS_EXTEND,
    STAGE,
    STRUCTURE,
    Landmark,
    graphs,
    kernels,
    named_forwards,
    target_rows,
)
from specscope.analyzers.launches import Launches
from specscope.analyzers.runs import Run, spans_of
from specscope.analyzers.words import (
    DECODE,
    DRAFT,
    DRAFT_EXTEND,
    PREFILL,
    SCHEDULE,
    VERIFY,
)

_PROOF = ("opens_draft", "ends_draft", "ends_verify", "opens_draft_extend", "accept")


def speculates(rows: Launches, forwards: Sequence[Marked]) -> bool:
    """Is there speculation at all: marks, bookkeeping kernels, or a second kind of graph?"""
    if any(m.mark.stage in (VERIFY, DRAFT, DRAFT_EXTEND) for m in forwards):
        return True
    if any(rows.has(role).any() for role in _PROOF):
        return True
    if any(m.mark.stage == DECODE for m in forwards):
        return False
    target = target_rows(rows, forwards)
    others = rows.is_graph & (rows.layers > 0) & ~np.isin(np.arange(len(rows.call)), target)
    return len(target) > 0 and int(others.sum()) >= len(target)


def place(rows: Launches, thread: int, forwards: Sequence[Marked]) -> Placement:
    """Spans and openings of a run that speculates."""
    target = target_rows(rows, forwards)
    named = named_forwards(rows, forwards, speculates=True)
    marks = [*named, *graphs(rows, target, named), *kernels(rows)]
    marks.sort(key=lambda mark: (mark.first, mark.kind))
    layers = int(np.median(rows.layers[target])) if len(target) else 0
    walker = _Walker(rows, layers)
    for mark, unnamed_ahead in zip(marks, _unnamed_ahead(marks), strict=True):
        walker.meet(mark, unnamed_ahead)
    runs = walker.finish()
    sources = (ENGINE, STRUCTURE) if forwards else (STRUCTURE,)
    return Placement(
        spans_of(rows, runs, thread), _openings(rows, runs, thread), sources, speculates=True
    )


class _Walker:
    """Gives rows to stages from left to right.

    `state` is the stage of what comes next; `told` says that a bookkeeping kernel set it, so
    that it also tells what an unnamed graph is.
    """

    def __init__(self, rows: Launches, target_layers: int) -> None:
        self.rows = rows
        self.runs: list[Run] = []
        self.at = 0
        self.state: int | None = None
        self.told = False
        self.verified = False  # the target's forward of this cycle was seen
        self.extended = False  # so was its draft-extend
        self._target_layers = target_layers
        self._opens_known = bool(rows.has("opens_draft").any())
        self._ends_known = bool(rows.has("ends_draft").any())
        self._work = _last_before(rows.work)
        self._sampling = _last_before(rows.sampling)
        self._layers = np.concatenate(([0], np.cumsum(rows.layers)))

    def finish(self) -> list[Run]:
        """The runs; what is left keeps the last state."""
        self._give(len(self.rows.call), SCHEDULE if self.state is None else self.state)
        return self.runs

    def meet(self, mark: Landmark, unnamed_ahead: int) -> None:
        """One landmark."""
        if mark.first < self.at:
            mark = replace(mark, first=self.at, last=max(mark.last, self.at))
        if mark.kind in ANCHORS:
            self._anchor(mark, unnamed_ahead)
        elif mark.kind == OPENS_DRAFT:
            self._open_draft(mark.first)
        elif mark.kind == DRAFTS:
            self._drafts(mark)
        elif mark.kind == ENDS_DRAFT:
            if self.state != DRAFT:
                self._open_draft(mark.first)
            self._give(mark.last, DRAFT)
            self._enter(VERIFY)
            self.verified = False
        elif mark.kind == OPENS_EXTEND:
            self._open_extend(mark.first)
        elif mark.kind == ACCEPTS:
            if self.state == VERIFY:
                self._give(mark.last, VERIFY)
        elif self.state in (VERIFY, DRAFT_EXTEND) and not self.extended:
            self._give(mark.last, VERIFY)
            self._enter(DRAFT_EXTEND)

    def _drafts(self, mark: Landmark) -> None:
        """A kernel that only drafting launches: it opens draft where nothing else did."""
        if self.state == VERIFY and not self.verified:
            return
        if self.state != DRAFT:
            self._open_draft(mark.first)
            self.told = False
        self._give(mark.last, DRAFT)

    def _enter(self, state: int) -> None:
        self.state, self.told = state, True

    def _give(
        self,
        until: int,
        stage: int,
        evidence: str = STRUCTURE,
        sure: bool = True,
        opens: bool = False,
    ) -> None:
        """Rows [at, until) belong to `stage`."""
        if until > self.at:
            self.runs.append(Run(self.at, until, stage, evidence, sure, opens))
            self.at = until

    def _after(self, last_before: Int, until: int) -> int:
        """Row after the last marked one in [at, until); `at` when there is none."""
        last = int(last_before[until - 1]) if until > self.at else -1
        return max(last + 1, self.at)

    def _open_draft(self, row: int) -> None:
        """Before the opener of a draft: the end of the cycle before, a prefill, scheduling."""
        if self.state == DRAFT:
            return
        self._close(row)
        if self._target_layers and self._layers_until(row) * 2 > self._target_layers:
            self._give(self._after(self._work, row), PREFILL)
        self._give(row, SCHEDULE)
        self._enter(DRAFT)
        self.verified = self.extended = False

    def _close(self, row: int) -> None:
        """What of [at, row) is still the last stage of the cycle that ends."""
        if self.state == DRAFT_EXTEND and not self.extended:
            # An eager draft-extend ends with its last model work.
            self._give(self._after(self._work, row), DRAFT_EXTEND)
        elif self.state == VERIFY:
            self._give(self._after(self._work, row), VERIFY)
        if self.extended:
            # The top-k over the draft's logits follows its graph as eager launches.
            self._give(self._after(self._sampling, row), DRAFT_EXTEND)

    def _layers_until(self, row: int) -> int:
        return int(self._layers[max(row, self.at)] - self._layers[self.at])

    def _open_extend(self, row: int) -> None:
        if self.state == VERIFY:
            self._give(row, VERIFY)
            self._enter(DRAFT_EXTEND)
            self.extended = False
        elif self.state == SCHEDULE and self.extended:  # the next layer's forward
            self._give(row, DRAFT_EXTEND)
            self._enter(DRAFT_EXTEND)

    def _anchor(self, mark: Landmark, unnamed_ahead: int) -> None:
        """A forward: what lies before it goes with it unless something said otherwise."""
        stage = self._stage_of(mark, unnamed_ahead)
        state = self.state
        again = stage == state == VERIFY and self.verified
        if again:
            # Two verify forwards and nothing of a draft between: a new cycle begins.
            self._give(self._after(self._sampling, mark.first), VERIFY)
            self._give(mark.first, VERIFY, sure=False, opens=True)
        elif state in (None, stage) or mark.kind == STAGE:
            before = SCHEDULE if state is None and stage != DRAFT else state
            self._close_before_span(mark)
            self._give(mark.first, stage if before is None else before)
        elif stage == PREFILL:
            self._close(mark.first)
            self._give(mark.first, SCHEDULE)
        else:
            self._give(mark.first, stage, sure=False)
        opens = again and (not self.runs or not self.runs[-1].opens)
        self._give(mark.last, stage, mark.evidence, opens=opens)
        self._leave(stage, mark.kind)

    def _close_before_span(self, mark: Landmark) -> None:
        """Before a draft that the engine names whole, what is left of draft-extend ends."""
        if mark.kind == STAGE and mark.stage == DRAFT and self.state in (SCHEDULE, DRAFT_EXTEND):
            self._close(mark.first)
            self._give(mark.first, SCHEDULE)

    def _stage_of(self, mark: Landmark, unnamed_ahead: int) -> int:
        """What a graph is, by the stage it stands in, else by its size and its place."""
        if mark.kind != GRAPH:
            assert mark.stage is not None
            return mark.stage
        if self.told and self.state == DRAFT and self._ends_known:
            return DRAFT
        if self.told and self.state == VERIFY and not self.verified:
            return VERIFY
        if self.state == DRAFT_EXTEND:
            return DRAFT_EXTEND
        if mark.stage is not None:
            return mark.stage
        if self.state == VERIFY and unnamed_ahead:
            return DRAFT_EXTEND
        if self.state == SCHEDULE and self.extended and self._opens_known:
            return DRAFT_EXTEND
        return DRAFT

    def _leave(self, stage: int, kind: int) -> None:
        """What follows an anchor, until something says otherwise."""
        self.told = False
        if stage == DRAFT and kind == STAGE:
            self._enter(VERIFY)
            self.verified = False
        elif stage in (DRAFT_EXTEND, PREFILL, DECODE):
            self.state = SCHEDULE
        else:
            self.state = stage
        self.verified = self.verified or stage == VERIFY
        self.extended = stage == DRAFT_EXTEND and kind != STAGE


def _last_before(here: Bool) -> Int:
    """Per row the last marked row up to it, -1 when there is none."""
    last: Int = np.maximum.accumulate(np.where(here, np.arange(len(here)), -1))
    return last


def _unnamed_ahead(marks: Sequence[Landmark]) -> list[int]:
    """Per landmark: unnamed graphs between it and the next named anchor."""
    ahead = [0] * len(marks)
    count = 0
    for number in range(len(marks) - 1, -1, -1):
        mark = marks[number]
        ahead[number] = count
        if mark.kind in ANCHORS:
            count = count + 1 if mark.stage is None else 0
    return ahead


def _openings(rows: Launches, runs: Sequence[Run], thread: int) -> list[Opening]:
    """A cycle opens where draft begins; with no draft on the GPU, where verify does."""
    stage = DRAFT if any(run.stage == DRAFT for run in runs) else VERIFY
    openings = []
    before: int | None = None
    for run in runs:
        if run.stage == stage and (before != stage or run.opens):
            openings.append(Opening(int(rows.start[run.first]), thread, stage))
        before = run.stage
    return openings
