"""Stages from Python frames: methods of the workers and proposers (`rules/frames.toml`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from specscope.analyzers.evidence import Opening, Placement, busiest_thread, merged_openings
from specscope.analyzers.name_rules import bundled
from specscope.analyzers.rank import FRAME, Rank
from specscope.analyzers.spans import Span
from specscope.analyzers.words import ACCEPT, DRAFT, STAGES, VERIFY

NAME = "frames"
_FRAME = re.compile(r"(?P<path>[^()]*)\((?P<line>\d+)\): (?P<function>\S+)\Z")
STEP = "step"


@dataclass(frozen=True)
class Rule:
    """One row of the table: functions of one file that are a stage, or `step`."""

    id: str
    stage: str
    path: re.Pattern[str]
    functions: tuple[str, ...]
    example: str


@cache
def rules() -> tuple[Rule, ...]:
    """The bundled table, in order."""
    rows: list[dict[str, Any]] = bundled("frames.toml")["rule"]
    return tuple(
        Rule(
            row["id"],
            row["stage"],
            re.compile(rf"(?:\A|.*/)(?:{row['path']})\Z"),
            tuple(row["functions"]),
            row["example"],
        )
        for row in rows
    )


def stage_of(name: str) -> str | None:
    """The stage of one frame name, `step` for a whole engine step, None for any other."""
    match = _FRAME.match(name[:1024])
    if not match:
        return None
    for rule in rules():
        if match["function"] in rule.functions and rule.path.match(match["path"]):
            return rule.stage
    return None


def place(rank: Rank) -> Placement | None:
    """Spans and openings, or None unless both draft and verify are among the frames."""
    ranges = rank.ranges
    stages = [stage_of(name) for name in ranges.names]
    known = np.array([stage is not None for stage in stages] + [False], dtype=bool)
    rows = np.flatnonzero(known[ranges.name] & (ranges.kind == FRAME))
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    spans: list[Span] = []
    steps: list[Opening] = []
    for row in rows.tolist():
        stage = stages[ranges.name[row]]
        thread, start, end = (
            int(ranges.thread[row]),
            int(ranges.start[row]),
            int(ranges.end[row]),
        )
        if stage == STEP:
            steps.append(Opening(start, thread, None))
        elif stage is not None:
            spans.append(Span(thread, start, end, STAGES.index(stage), NAME))
    found = {span.stage for span in spans}
    if VERIFY not in found or DRAFT not in found:
        return None
    main = busiest_thread(spans, DRAFT)
    openings = steps or merged_openings([s for s in spans if s.thread == main], DRAFT)
    return Placement(spans, openings, (NAME,), True, accept_apart=ACCEPT in found)
