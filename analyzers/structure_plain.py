"""Structure of plain steps: one forward a step, no speculation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specscope.analyzers.evidence import Opening, Placement
from specscope.analyzers.evidence_engine import NAME as ENGINE
from specscope.analyzers.evidence_engine import Marked
from specscope.analyzers.landmarks import STRUCTURE, target_rows
from specscope.analyzers.launches import Launches
from specscope.analyzers.runs import Run, spans_of
from specscope.analyzers.words import DECODE, PREFILL, SCHEDULE


def place(rows: Launches, thread: int, forwards: Sequence[Marked]) -> Placement | None:
    """A step from its forward to the sampling that follows; the rest is schedule.

    Forwards are those the engine names, else the graph launches of the target; a graph without
    a layer of a language model is no decode step.
    """
    steps = _named(rows, forwards) or [
        (row, row + 1, DECODE, "decode", None, STRUCTURE)
        for row in target_rows(rows, ()).tolist()
        if rows.layers[row]
    ]
    if not steps:
        return None
    runs: list[Run] = []
    openings: list[Opening] = []
    at = 0
    until = [first for first, *_ in steps[1:]] + [len(rows.call)]
    for (first, last, stage, kind, batch, evidence), end in zip(steps, until, strict=True):
        if first > at:
            runs.append(Run(at, first, SCHEDULE, STRUCTURE))
        sampling = np.flatnonzero(rows.sampling[last:end])
        sampled = last + int(sampling[-1]) + 1 if len(sampling) else last
        runs.append(Run(first, last, stage, evidence))
        if sampled > last:
            runs.append(Run(last, sampled, stage, STRUCTURE))
        openings.append(Opening(int(rows.start[first]), thread, stage, batch=batch, kind=kind))
        at = sampled
    if at < len(rows.call):
        runs.append(Run(at, len(rows.call), SCHEDULE, STRUCTURE))
    sources = (ENGINE, STRUCTURE) if steps[0][-1] == ENGINE else (STRUCTURE,)
    return Placement(spans_of(rows, runs, thread), openings, sources, speculates=False)


_Step = tuple[int, int, int, str, int | None, str]


def _named(rows: Launches, forwards: Sequence[Marked]) -> list[_Step]:
    """Rows, stage, kind and batch of the forwards that the engine names; none overlap."""
    steps: list[_Step] = []
    for m in forwards:
        if m.mark.stage not in (DECODE, PREFILL):
            continue
        first, last = np.searchsorted(rows.start, (m.start, m.end), "left").tolist()
        if last <= first or (steps and first < steps[-1][1]):
            continue
        kind = m.mark.kind or ("decode" if m.mark.stage == DECODE else "prefill")
        steps.append((first, last, m.mark.stage, kind, m.mark.batch, ENGINE))
    return steps
