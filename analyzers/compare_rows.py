"""The rows of a comparison: which figures are worth one, and what the test says of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from specscope.analyzers import compare_report as kinds
from specscope.analyzers import compare_test
from specscope.analyzers.compare_ops import Float, Key
from specscope.analyzers.compare_report import Change
from specscope.analyzers.compare_series import Series
from specscope.analyzers.compare_test import Tested

# Smaller times, of the shorter cycle, have no row; stages and the cycle always have one.
SMALLEST_SHARE: Final = 0.001
SMALLEST_KERNEL_SHARE: Final = 0.005
_ALWAYS: Final = (kinds.CYCLE, kinds.STAGE, kinds.IDLE, kinds.COUNT)
# Added to the standard error, and the least change that is ever called one, by unit; times as a
# share of the shorter cycle.
ERROR_FLOOR: Final = {"ns": 0.0001, "count": 0.1, "share": 0.002}
LEAST_CHANGE: Final = {"ns": 0.0005, "count": 0.5, "share": 0.01}


def rows(a: Series, b: Series, *, verdict: bool) -> tuple[list[Change], int, Tested | None]:
    """Every row, those of the largest kinds first; how many figures are too small for one.

    Without `verdict` nothing is tested, and no row says that it differs.
    """
    none_a, none_b = np.zeros(a.cycles), np.zeros(b.cycles)
    keys = sorted({*a.values, *b.values}, key=_order)
    if not (_has_waits(a) and _has_waits(b)):  # not known is not none
        keys = [key for key in keys if key.kind != kinds.WAIT]
    pairs = [(key, a.values.get(key, none_a), b.values.get(key, none_b)) for key in keys]
    cycle = min(_median(one.values.get(Key(kinds.CYCLE))) for one in (a, b))
    kept = [pair for pair in pairs if _is_worth_it(*pair, cycle)]
    tested = None
    if verdict and kept and compare_test.can_name(a.cycles, b.cycles):
        floors = np.array([_scaled(ERROR_FLOOR, key, cycle) for key, _, _ in kept])
        tested = compare_test.test(
            np.stack([values for _, values, _ in kept], axis=1),
            np.stack([values for _, _, values in kept], axis=1),
            floors,
        )
    changes = [
        _change(key, one, other, tested, row, _scaled(LEAST_CHANGE, key, cycle))
        for row, (key, one, other) in enumerate(kept)
    ]
    return changes, len(pairs) - len(kept), tested


def _has_waits(one: Series) -> bool:
    """Was waiting told from transferring in this run?"""
    return any(key.kind == kinds.WAIT for key in one.values)


def unit_of(key: Key) -> str:
    """In what a series is measured."""
    if key.kind != kinds.COUNT:
        return "ns"
    return "share" if key.what == "graph_coverage" else "count"


def name_of(key: Key) -> str:
    """The name of a row, as checks write it."""
    if key.kind == kinds.CAUSE:
        return f"idle.{key.what}"
    return ".".join(part for part in (key.stage, key.what, key.family) if part) or key.kind


def _order(key: Key) -> tuple[int, Key]:
    return kinds.KINDS.index(key.kind), key


def _median(values: Float | None) -> float:
    return float(np.median(values)) if values is not None and len(values) else math.inf


def _scaled(by_unit: dict[str, float], key: Key, cycle_ns: float) -> float:
    unit = unit_of(key)
    return by_unit[unit] * (cycle_ns if unit == "ns" and math.isfinite(cycle_ns) else 1.0)


def _is_worth_it(key: Key, one: Float, other: Float, cycle_ns: float) -> bool:
    if key.kind in _ALWAYS:
        return bool(one.any() or other.any())
    smallest = SMALLEST_KERNEL_SHARE if key.kind == kinds.KERNEL else SMALLEST_SHARE
    # Over both sides together, so that what is shown does not hang on which is which.
    both: Sequence[float] = [float(side.mean()) for side in (one, other) if len(side)]
    return bool(both) and max(both) >= smallest * cycle_ns


def _change(
    key: Key, one: Float, other: Float, tested: Tested | None, row: int, least: float
) -> Change:
    a = float(np.median(one)) if len(one) else 0.0
    b = float(np.median(other)) if len(other) else 0.0
    shown = None
    differs = False
    if tested is not None:
        shown = max(float(tested.least[row]), least)
        change = b - a
        # The means were tested, the medians are shown: both have to say so.
        agrees = change * float(tested.difference[row]) > 0
        differs = bool(tested.named[row]) and abs(change) >= shown and agrees
    return Change(
        name=name_of(key),
        kind=key.kind,
        unit=unit_of(key),
        stage=key.stage or None,
        what=key.what or None,
        family=key.family or None,
        a=a,
        b=b,
        least=shown,
        noise=None if tested is None else float(tested.noise[row]),
        p=None if tested is None else float(tested.p[row]),
        differs=differs,
    )
