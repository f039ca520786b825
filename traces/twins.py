"""One run that both profilers recorded: which of their ranges are the same ones, and the clocks.

The torch profiler's trace is the one that is analysed; Nsight's shows whether both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .assemble import FileTables
from .errors import UsageError
from .run import Note, RankTables
from .sniff import printable

Ints = npt.NDArray[np.int64]

# Two ranges of one name and thread are the same one when they begin so near to each other.
NEAR_NS: Final = 50_000_000
# So many ranges of one name may lie before the first that is in both recordings.
MOST_SHIFTS: Final = 1_000
# So much of the torch profiler's annotations must be found, to speak of one run.
ENOUGH: Final = 0.9


@dataclass(frozen=True)
class Twins:
    """Ranges of both recordings: found of all, and how much later Kineto's begin, in ns."""

    matched: int
    ranges: int
    median_ns: int
    low_ns: int
    high_ns: int


def compare(kineto: Sequence[RankTables], nsys: Sequence[RankTables]) -> Twins:
    """Matches annotations with NVTX ranges by thread, name and time since 1970."""
    theirs = _starts(nsys, ("nvtx", "operator"))
    apart: list[Ints] = []
    ranges = 0
    for key, starts in _starts(kineto, ("annotation",)).items():
        ranges += len(starts)
        other = theirs.get(key)
        if other is None:
            continue
        found = _in_order(starts, other)
        apart.append(found[np.abs(found) <= NEAR_NS])
    all_of_them = np.concatenate(apart) if apart else np.empty(0, np.int64)
    if not len(all_of_them):
        return Twins(0, ranges, 0, 0, 0)
    return Twins(
        len(all_of_them),
        ranges,
        int(np.median(all_of_them)),
        int(all_of_them.min()),
        int(all_of_them.max()),
    )


def without_twins(files: Sequence[FileTables]) -> tuple[list[FileTables], list[Note]]:
    """The files without Nsight's recording of the same run, and a note on how both compare.

    Raises UsageError when they are not of one run.
    """
    theirs = [file for file in files if "nsys" in file.ranks[0].facts]
    ours = [file for file in files if "nsys" not in file.ranks[0].facts]
    if not theirs or not ours:
        return list(files), []
    found = compare(
        [tables for file in ours for tables in file.ranks],
        [tables for file in theirs for tables in file.ranks],
    )
    names = ", ".join(printable(PurePath(file.path).name, 120) for file in theirs)
    counts = f"{found.matched} of {found.ranges} annotations are NVTX ranges of {names}"
    if found.matched < max(1, ENOUGH * found.ranges):
        raise UsageError(
            f"{counts}: not one run; give the trace or the recording of Nsight Systems"
        )
    text = (
        f"the same run, recorded by both profilers: {counts}; in the median they begin "
        f"{_apart(found.median_ns)} here ({_apart(found.low_ns)} to {_apart(found.high_ns)})"
    )
    mend = "the torch profiler's is analysed; give the other alone to analyse that"
    return ours, [Note("both_profilers", text, mend)]


def _apart(ns: int) -> str:
    return f"{abs(ns) / 1e3:,.1f} us {'earlier' if ns < 0 else 'later'}"


def _in_order(starts: Ints, other: Ints) -> Ints:
    """How much later each of `starts` is than its twin: one follows the other in both.

    One recording may have begun before the other, so the beginning of the twins is sought.
    """
    few = min(len(starts), len(other))
    shifts = range(min(abs(len(other) - len(starts)), MOST_SHIFTS) + 1)
    ways = [
        starts[:few] - other[shift : shift + few]
        if len(other) >= len(starts)
        else starts[shift : shift + few] - other
        for shift in shifts
    ]
    return min(ways, key=lambda way: int(np.abs(way).sum()))


def _starts(ranks: Sequence[RankTables], kinds: Sequence[str]) -> dict[tuple[int, str], Ints]:
    """Starts since 1970 of the ranges of these kinds, sorted, by thread and name."""
    found: dict[tuple[int, str], list[int]] = {}
    for tables in ranks:
        base = tables.facts["clock_base_ns"] or 0
        kind = tables.ranges["kind"].cast(pa.string())
        rows = tables.ranges.filter(pc.is_in(kind, pa.array(list(kinds))))
        columns = (rows[name].to_pylist() for name in ("tid", "name", "start_ns"))
        for thread, name, start in zip(*columns, strict=True):
            found.setdefault((thread, name), []).append(base + start)
    return {key: np.sort(np.array(starts, np.int64)) for key, starts in found.items()}
