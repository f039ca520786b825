"""What a drawn trace must be read as: the form of the answers in `cases_*.py`.

The parts of a cycle are written as a table in microseconds, one stage a line: work by class,
then a bar, then idle by cause. `i` is the number of the cycle:

    draft   compute 25            | host 13  launch_call 6  queue 6
    verify  compute 61+i  copy 2  | host 5   sync 9-i
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.build import Timeline

Parts = dict[str, int]

_TERM = re.compile(r"(\w+) (\d+(?:\.\d+)?)(?:([+-])i)?(?=\s|$)")


@dataclass(frozen=True)
class Case:
    """One drawn trace and its answer; what is None or left out is not asked."""

    trace: Timeline
    # Parts of every whole cycle, and of those that differ, by number.
    parts: str = ""
    parts_of: Mapping[int, str] = field(default_factory=dict)
    # Per whole cycle; None in a place is not asked.
    kinds: tuple[str, ...] | None = ()
    batches: tuple[int | None, ...] | None = None
    tokens: tuple[int | None, ...] | None = None
    k: int | None = None
    marks: tuple[str, ...] | None = None
    # The best evidence that places the stages.
    evidence: str = ""
    # Whether accept is told apart from verify; else both are compared as one, since the
    # design lets a reader report them as one where he cannot.
    accept_apart: bool = False
    # Stages whose parts are asked; empty: all.
    asked: frozenset[str] = frozenset()
    # Part of the sentence that withholds the verdict; empty: a verdict is given.
    refused: str = ""

    def answer(self, cycle: int) -> Parts | None:
        """The parts of one cycle in nanoseconds, or None where they are not asked."""
        table = self.parts_of.get(cycle, self.parts)
        return self.merged(read_table(table, cycle)) if table else None

    def merged(self, parts: Parts) -> Parts:
        """Parts as they are compared: asked stages only, accept with verify where said."""
        kept: Parts = {}
        for what, ns in parts.items():
            state, stage, detail = what.split("/")
            if stage == "accept" and not self.accept_apart:
                stage = "verify"
            if ns and (not self.asked or stage in self.asked):
                key = f"{state}/{stage}/{detail}"
                kept[key] = kept.get(key, 0) + ns
        return kept


def read_table(table: str, i: int) -> Parts:
    """The table of one cycle as `state/stage/what` -> nanoseconds."""
    parts: Parts = {}
    for line in table.strip().splitlines():
        stage, _, rest = line.strip().partition(" ")
        work, _, idle = rest.partition("|")
        for state, text in (("work", work), ("idle", idle)):
            assert not _TERM.sub("", text).strip(), f"not understood: {text!r}"
            for what, us, sign in _TERM.findall(text):
                shift = {"+": i, "-": -i, "": 0}[sign]
                parts[f"{state}/{stage}/{what}"] = round((float(us) + shift) * 1000)
    return parts


# Every case by its name; the test has one id per entry.
CASES: dict[str, Callable[[], Case]] = {}


def case(draw: Callable[[], Case]) -> Callable[[], Case]:
    """Register a drawing under its function name."""
    assert draw.__name__ not in CASES
    CASES[draw.__name__] = draw
    return draw


WORK_CLASSES = {"collective": "collective", "fused_collective": "collective"} | {
    what: what for what in ("copy", "set", "host")
}


def found_parts(table: Any, rank: int, cycle: int) -> Parts:
    """The `parts` table of a report as `state/stage/class` -> nanoseconds."""
    parts: Parts = {}
    for row in table.to_pylist():
        if (row["rank"], row["cycle"]) == (rank, cycle):
            working = row["state"] == "work"
            what = WORK_CLASSES.get(row["what"], "compute") if working else row["what"]
            key = f"{row['state']}/{row['stage']}/{what}"
            parts[key] = parts.get(key, 0) + row["ns"]
    return parts
