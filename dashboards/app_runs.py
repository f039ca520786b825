"""The runs that the application shows: each report with what is asked of it again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.columns import Int, ints
from specscope.analyzers.report import Report
from specscope.analyzers.timeline import Timeline, timeline
from specscope.dashboards.cycle_slice import CycleSlice, middle_cycle, parts_of, ranks_with_cycles
from specscope.dashboards.cycles_figure import Points, points_of
from specscope.dashboards.sections import lap, stage_names


@dataclass(frozen=True)
class RankCycles:
    """The whole cycles of one rank: rows of `cycles`, and their borders on the run's axis."""

    rank: int
    table: pa.Table
    start: Int
    end: Int


class Shown:
    """One run. What it gives is made when it is first asked for, and kept."""

    def __init__(self, name: str, report: Report) -> None:
        self.name = name
        self.report = report

    def prepare(self) -> None:
        """Make what every look needs, before the first one."""
        _ = self.timeline, self.points, self.report.tables["parts"]

    @cached_property
    def timeline(self) -> Timeline | None:
        """All of its ops and calls by lane; None where it has no ops."""
        return timeline(self.report)

    @cached_property
    def names(self) -> dict[str, str]:
        """What each stage is called."""
        return stage_names(self.report)

    @cached_property
    def cycles(self) -> dict[int, RankCycles]:
        """By rank."""
        table = self.report.tables["cycles"]
        zero = self.timeline.zero if self.timeline is not None else {}
        found = {}
        for rank in ranks_with_cycles(self.report):
            rows = table.filter(pc.equal(table["rank"], rank)).combine_chunks()
            shift = zero.get(rank, 0)
            found[rank] = RankCycles(
                rank, rows, ints(rows, "start_ns") - shift, ints(rows, "end_ns") - shift
            )
        return found

    @cached_property
    def points(self) -> dict[int, Points]:
        """The cycles by rank, as the figure has them."""
        word = lap(self.report)
        return {rank: points_of(rank, of.table, word) for rank, of in self.cycles.items()}

    @property
    def ranks(self) -> list[int]:
        """Those with whole cycles, or with anything to draw."""
        drawn = self.timeline.zero if self.timeline is not None else {}
        return sorted({*self.cycles, *drawn})

    @property
    def length_ns(self) -> int:
        """Of the axis."""
        return self.timeline.length_ns if self.timeline is not None else 0

    @cached_property
    def middle(self) -> int | None:
        """The cycle of the first rank that is closest to the median."""
        return middle_cycle(self.report, next(iter(self.cycles))) if self.cycles else None

    def of_cycles(self, rank: int | None) -> RankCycles | None:
        """The cycles of that rank; of the first where it is None or has none."""
        if not self.cycles:
            return None
        return self.cycles.get(-1 if rank is None else rank) or next(iter(self.cycles.values()))

    def count(self, rank: int | None) -> int:
        """How many cycles that rank has."""
        of = self.of_cycles(rank)
        return 0 if of is None else len(of.start)

    def span(self, rank: int | None, cycle: int | None) -> tuple[int, int]:
        """Where that cycle lies on the axis; all of it where there is none."""
        of = self.of_cycles(rank)
        if of is None or cycle is None or not 0 <= cycle < len(of.start):
            return 0, max(self.length_ns, 1)
        return int(of.start[cycle]), int(of.end[cycle])

    def parts(
        self, rank: int | None, cycle: int | None
    ) -> list[tuple[CycleSlice, list[dict[str, Any]]]]:
        """The parts of that cycle, on each rank those of the cycle of the same moment."""
        of = self.of_cycles(rank)
        if of is None or cycle is None or not 0 <= cycle < len(of.start):
            return []
        low, high = int(of.start[cycle]), int(of.end[cycle])
        found = []
        for other in self.cycles.values():
            if rank is not None and other.rank != rank:
                continue
            overlap = np.minimum(other.end, high) - np.maximum(other.start, low)
            best = int(np.argmax(overlap))
            if overlap[best] > 0:
                row = other.table.slice(best, 1).to_pylist()[0]
                piece = CycleSlice(row, (), (), (), ())
                found.append((piece, parts_of(self.report, piece)))
        return found


def names_of(paths: Sequence[str]) -> list[str]:
    """What runs are called: the last parts of their paths that tell them apart."""
    parts = [[part for part in path.split("/") if part] or [path] for path in paths]
    for size in range(1, 8):
        short = ["/".join(one[-size:]) for one in parts]
        if len(set(short)) == len(short):
            return short
    return [f"{number}: {path}" for number, path in enumerate(paths)]
