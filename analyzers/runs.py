"""Rows of the launches given to stages: what every reading of structure comes down to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specscope.analyzers.launches import Launches
from specscope.analyzers.spans import Span


@dataclass(frozen=True)
class Run:
    """Rows [first, last) of the launches that belong to one stage.

    `sure` is False where only the order of launches says so; `opens` is True where a new cycle
    begins although the stage before is the same.
    """

    first: int
    last: int
    stage: int
    evidence: str
    sure: bool = True
    opens: bool = False


def spans_of(rows: Launches, runs: Sequence[Run], thread: int) -> list[Span]:
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
