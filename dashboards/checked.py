"""Checks with their outcome, and the line that says it."""

from __future__ import annotations

from dataclasses import dataclass

from specscope.analyzers.checks import Check
from specscope.dashboards.safe_text import clean

_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Checked:
    """One check held against a report; `passed` is None where the evidence does not reach."""

    check: Check
    value: float | None
    passed: bool | None
    dissent: tuple[int, ...] = ()
    reason: str = ""


def check_line(checked: Checked) -> str:
    """What came out, with the figure; which ranks would say otherwise."""
    if checked.value is None:
        return clean(checked.reason)
    word = "passed" if checked.passed else "FAILED"
    text = f"--check {clean(checked.check.text)}: {word}, it is {figure(checked)}"
    if checked.dissent:
        ranks = ", ".join(map(str, checked.dissent))
        text += f"; rank {ranks} {'disagrees' if len(checked.dissent) == 1 else 'disagree'}"
    return text


def figure(checked: Checked) -> str:
    """The figure, with as many decimals as it takes to be on its side of the number.

    94.96 % fails `>=0.95`; written as 95.0 % the answer would look wrong.
    """
    assert checked.value is not None
    is_time = checked.check.name.endswith(("_ms", ".ms"))
    scale, unit, decimals = (1.0, "ms", 2) if is_time else (100.0, "%", 1)
    value, number = checked.value * scale, checked.check.number * scale
    while decimals < _MOST_DECIMALS and value != number and round(value, decimals) == number:
        decimals += 1
    return f"{value:.{decimals}f} {unit}"
