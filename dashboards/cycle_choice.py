"""Which cycles are inside a page: of a few all ops, of the others the parts.

Cycles are meant by their number on the first rank that has any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.report import Report
from specscope.dashboards.cycle_slice import clock_bases, ranks_with_cycles
from specscope.dashboards.units import time_text

# Cycles whose parts are inside, and outliers whose ops are.
MOST_PARTS: Final = 300
_MOST_OUTLIERS: Final = 3

# (rank, its number there) of one cycle on every rank.
Same = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Listed:
    """A cycle that the page can show, and what is special about it."""

    number: int
    ns: int
    why: str = ""
    whole: bool = False  # its ops are worth their room

    @property
    def text(self) -> str:
        """How a list calls it."""
        return f"{self.number}: {time_text(self.ns)}" + (f", {self.why}" if self.why else "")


def listed(report: Report, drawn: int, why: str) -> list[Listed]:
    """The cycles of the list, in order: those that are whole, and others up to a number.

    Whole are `drawn`, the first, the slowest, the fastest, and the longest outliers.
    """
    table = report.tables["cycles"]
    first = ranks_with_cycles(report)[0]
    rows = table.filter(pc.equal(table["rank"], first)).to_pylist()
    ns = {row["cycle"]: row["end_ns"] - row["start_ns"] for row in rows}
    reasons: dict[int, list[str]] = {}
    for number, reason in (
        (drawn, why),
        (min(ns), "the first"),
        (max(ns, key=lambda number: ns[number]), "the slowest"),
        (min(ns, key=lambda number: ns[number]), "the fastest"),
    ):
        reasons.setdefault(number, []).append(reason)
    outliers = sorted(
        (row["cycle"] for row in rows if row["mark"] == "outlier"), key=ns.__getitem__
    )
    whole = {*reasons, *outliers[-_MOST_OUTLIERS:]}
    for row in rows:
        if row["mark"]:
            reasons.setdefault(row["cycle"], []).append(row["mark"].replace("warmup", "warm-up"))
    others = [number for number in ns if number not in whole]
    kept = {*whole, *others[: max(MOST_PARTS - len(whole), 0)]}
    return [
        Listed(
            number, ns[number], ", ".join(filter(None, reasons.get(number, ()))), number in whole
        )
        for number in sorted(kept)
    ]


def same_cycles(report: Report, numbers: list[int]) -> dict[int, Same]:
    """Each of these cycles on every rank: there it is the one that shares the most time with it."""
    table = report.tables["cycles"].select(["rank", "cycle", "start_ns", "end_ns"]).to_pylist()
    base = clock_bases(report)
    ranks = ranks_with_cycles(report)
    spans: dict[int, list[tuple[int, int, int]]] = {rank: [] for rank in ranks}
    for row in table:
        shift = base.get(row["rank"], 0)
        spans[row["rank"]].append((row["start_ns"] + shift, row["end_ns"] + shift, row["cycle"]))
    wanted = set(numbers)
    found: dict[int, Same] = {}
    place = dict.fromkeys(ranks, 0)
    for start, end, number in sorted(spans[ranks[0]]):
        pairs = [(ranks[0], number)]
        for rank in ranks[1:]:
            own = spans[rank]
            while place[rank] < len(own) and own[place[rank]][1] <= start:
                place[rank] += 1
            best = (0, -1)
            for low, high, other in own[place[rank] :]:
                if low >= end:
                    break
                best = max(best, (min(end, high) - max(start, low), other))
            if best[0] > 0:
                pairs.append((rank, best[1]))
        if number in wanted:
            found[number] = tuple(pairs)
    return found


def parts_by_cycle(
    report: Report, same: Mapping[int, Same]
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The rows of `parts` for these cycles, by rank and number there."""
    wanted = {pair for pairs in same.values() for pair in pairs}
    table = report.tables["parts"]
    numbers = pa.array(sorted({number for _, number in wanted}), pa.int64())
    found: dict[tuple[int, int], list[dict[str, Any]]] = {pair: [] for pair in wanted}
    for row in table.filter(pc.is_in(table["cycle"], value_set=numbers)).to_pylist():
        if (row["rank"], row["cycle"]) in found:
            found[row["rank"], row["cycle"]].append(row)
    return found
