"""Comparisons that several tests look at, each made once."""

from __future__ import annotations

from functools import cache
from typing import Any

from specscope.analyzers.activities import load_rules
from specscope.analyzers.analyze import analyze
from specscope.analyzers.compare import compare
from specscope.analyzers.compare_report import Comparison
from specscope.analyzers.compare_series import Series, series
from specscope.traces.load import load
from tests.shared import shared_path


@cache
def report(*place: str) -> Any:
    """The report of a trace or folder in ../shared."""
    return analyze(load([str(shared_path(*place))], cache=False))


def case(name: str) -> Any:
    """The report of a drawn case."""
    return report("cases", f"{name}.json")


def own(name: str) -> Any:
    """The report of a recording."""
    return report("traces", "own", name)


@cache
def of_cases(a: str, b: str) -> Comparison:
    """Two drawn cases."""
    return compare(case(a), case(b), (f"{a}.json", f"{b}.json"))


@cache
def of_own(a: str, b: str) -> Comparison:
    """Two recordings."""
    return compare(own(a), own(b), (a, b))


@cache
def cycles_of(name: str) -> Series:
    """The cycles of a recording."""
    return series(own(name), load_rules())


def changed(comparison: Comparison, name: str) -> Any:
    """A row that has to be there."""
    row = comparison.row(name)
    assert row is not None, f"{name} is not among {[one.name for one in comparison.rows]}"
    return row
