"""Stages from the order of launches: graphs, forwards and bookkeeping kernels (design 5.2).

The launches of the main thread are read once. What the engine names itself anchors the
reading; with nothing named, the graphs and the bookkeeping kernels alone decide. How a cycle
is built differs between engines, so there are three readings: cycles that begin with draft,
cycles that begin with the target, and plain steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from specscope.analyzers import (
    launches,
    structure_draft_first,
    structure_plain,
    structure_target_first,
)
from specscope.analyzers.evidence import Placement
from specscope.analyzers.evidence_engine import Marked, steps
from specscope.analyzers.launches import Launches
from specscope.analyzers.rank import Rank


def place(rank: Rank, marked: Sequence[Marked]) -> Placement | None:
    """Spans and openings by structure, anchored on the engine's annotations where given.

    `marked` is empty when annotations are not to be used. None when nothing is launched.
    """
    thread = launches.main_thread(rank)
    if thread is None:
        return None
    rows = launches.of_thread(rank, thread)
    mine = [m for m in marked if m.thread == thread]
    forwards = [m for m in mine if m.mark.role in ("forward", "stage")]
    step_marks = steps(mine) if not forwards else []
    if step_marks or (not forwards and _is_target_first(rank, rows)):
        return structure_target_first.place(rows, thread, step_marks)
    if structure_draft_first.speculates(rows, forwards):
        return structure_draft_first.place(rows, thread, forwards)
    return structure_plain.place(rows, thread, forwards)


def _is_target_first(rank: Rank, rows: Launches) -> bool:
    """Does the engine's cycle begin with the target's forward (vLLM)?

    By kernels that only such an engine launches; else by the name of the process.
    """
    if rows.has("opens_draft").any():
        return False
    return bool(rows.has("target_first").any()) or rank.tables.facts.get("producer") == "vllm"
