"""How often `compare` names a row of equal runs, and how often it finds what was put in.

    python benchmarks/compare_errors.py ../shared/traces/own [--draws 400] [--only TEXT]

Takes the steady cycles of recordings, and draws from them pairs of runs in which nothing differs:

* `dealt`: cycles dealt at random to two sides, none twice;
* `resampled`: both sides drawn with replacement from all cycles;
* `turns`: cycles that follow one another, to A and B in turns;
* `in a row`: cycles that follow one another, the first half A, the second half B.

Then 3 % is put on top of an activity of side B, in stage and cycle too, for each compute activity
of at least 5 % of the cycle. Prints a line a recording and way of drawing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from specscope.analyzers import activities, compare_rows
from specscope.analyzers import compare_report as kinds
from specscope.analyzers.analyze import analyze
from specscope.analyzers.compare_series import Key, Series, series
from specscope.traces.load import load

Int = npt.NDArray[np.int64]
SEED = 13
A_SIDE = 8
ADDED = 0.03
LARGE = 0.05
_NO_COMPUTE = ("collective", "fused_collective", "copy", "set")


@dataclass(frozen=True)
class Rates:
    """Of some draws of one recording."""

    draws: int
    named: int  # draws in which any row was named
    rows: Counter[str]
    found: dict[str, float]  # share of draws in which what was put in was named
    shows_from: dict[str, float]  # median of the smallest change that could be shown, of A


def pick(one: Series, cycles: Int) -> Series:
    """The run with only those cycles, in that order."""
    values = {key: row[cycles] for key, row in one.values.items()}
    return replace(one, cycles=len(cycles), values=values)


def slowed(one: Series, key: Key, share: float) -> Series:
    """The run with more time in one activity, and so in its stage and the cycle."""
    more = share * one.values[key]
    touched = {key, Key(kinds.STAGE, key.stage), Key(kinds.CYCLE)}
    families = [k for k in one.values if k.kind == kinds.KERNEL and k.stage == key.stage]
    own = [k for k in families if k.what == key.what]
    values = {k: row + more if k in touched else row for k, row in one.values.items()}
    values |= {k: one.values[k] * (1 + share) for k in own}
    return replace(one, values=values)


def large_activities(one: Series) -> list[Key]:
    """Compute activities of at least 5 % of the cycle."""
    cycle = float(np.median(one.values[Key(kinds.CYCLE)]))
    return [
        key
        for key, row in one.values.items()
        if key.kind == kinds.ACTIVITY
        and key.what not in _NO_COMPUTE
        and float(np.median(row)) >= LARGE * cycle
    ]


def dealt(n: int, rng: np.random.Generator) -> tuple[Int, Int]:
    side = min(A_SIDE, n // 2)
    order = rng.permutation(n)
    return np.sort(order[:side]), np.sort(order[side : 2 * side])


def resampled(n: int, rng: np.random.Generator) -> tuple[Int, Int]:
    return rng.integers(0, n, A_SIDE), rng.integers(0, n, A_SIDE)


def turns(n: int, rng: np.random.Generator) -> tuple[Int, Int]:
    first = _first(n, rng)
    return first[::2], first[1::2]


def in_a_row(n: int, rng: np.random.Generator) -> tuple[Int, Int]:
    first = _first(n, rng)
    return first[:A_SIDE], first[A_SIDE:]


def _first(n: int, rng: np.random.Generator) -> Int:
    start = int(rng.integers(0, n - 2 * A_SIDE + 1))
    return np.arange(start, start + 2 * A_SIDE)


Way = Callable[[int, np.random.Generator], tuple[Int, Int]]
WAYS: dict[str, Way] = {
    "dealt": dealt,
    "resampled": resampled,
    "turns": turns,
    "in a row": in_a_row,
}


def measure(one: Series, way: Way, draws: int, seed: int = SEED) -> Rates:
    """The rates of one recording under one way of drawing."""
    rng = np.random.default_rng(seed)
    large = large_activities(one)
    named = 0
    rows: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    least: dict[str, list[float]] = {}
    for _ in range(draws):
        a, b = (pick(one, cycles) for cycles in way(one.cycles, rng))
        flagged = _named(a, b)
        named += bool(flagged)
        rows.update(flagged)
        for key in large:
            name = compare_rows.name_of(key)
            changes, _, _ = compare_rows.rows(a, slowed(b, key, ADDED), verdict=True)
            row = next(row for row in changes if row.name == name)
            hits[name] += row.differs
            least.setdefault(name, []).append(row.least_relative or float("inf"))
    return Rates(
        draws,
        named,
        rows,
        {compare_rows.name_of(key): hits[compare_rows.name_of(key)] / draws for key in large},
        {name: float(np.median(values)) for name, values in least.items()},
    )


def _named(a: Series, b: Series) -> list[str]:
    changes, _, _ = compare_rows.rows(a, b, verdict=True)
    return [row.name for row in changes if row.differs]


def recordings(folder: Path, only: str) -> Iterator[tuple[str, Series]]:
    """The series of every recording in the folder, or of the folder itself."""
    rules = activities.load_rules()
    inside = sorted(path.parent for path in folder.glob("*/meta.json")) or [folder]
    for path in inside:
        if only in path.name:
            found = series(analyze(load([str(path)])), rules)
            if found.cycles >= 4:
                yield path.name, found


def ways_for(one: Series) -> dict[str, Way]:
    """The ways of drawing that so many cycles allow."""
    long = one.cycles >= 2 * A_SIDE
    return WAYS if long else {"resampled": resampled}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--only", default="", help="recordings whose name holds this")
    given = parser.parse_args()
    for name, one in recordings(given.folder, given.only):
        for way, draw in ways_for(one).items():
            found = measure(one, draw, given.draws)
            power = ", ".join(
                f"{activity} {share:.0%} (shows from {found.shows_from[activity]:.2%})"
                for activity, share in found.found.items()
            )
            often = ", ".join(f"{row} {count}" for row, count in found.rows.most_common(4))
            print(
                f"{name}, {one.cycles} cycles, {way}: any row named in "
                f"{found.named / found.draws:.1%} of {found.draws}; 3 % found: {power}"
                f"{f'; named: {often}' if often else ''}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
