"""Checks on a comparison, in the one grammar: `verify.delta<=2%`, `idle.host.delta_ms<0.1`.

`.delta` is the relative difference of medians, B less A over A; `.delta_ms` the difference.
"""

from __future__ import annotations

from typing import Final

from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.checks import Check, Outcome, Vocabulary, holds
from specscope.analyzers.compare_report import Change, Comparison
from specscope.analyzers.words import CAUSES, STAGES
from specscope.traces.errors import EvidenceError

RELATIVE, MILLISECONDS = "delta", "delta_ms"
COUNTS: Final = (
    "launches",
    "graph_launches",
    "syncs",
    "ops",
    "collectives",
    "graph_coverage",
)
_STAGES: Final = tuple(stage for stage in STAGES if stage not in ("accept", "unplaced"))
_OF_STAGE: Final = (*ACTIVITIES, "idle", "wait", "transfer")


def names() -> list[str]:
    """Every name that a check of a comparison may use, stages and activities folded."""
    figures = ("cycle", "STAGE", "STAGE.ACTIVITY", "STAGE.idle", "idle", "idle.CAUSE")
    ranks = ("STAGE.wait", "STAGE.transfer")
    timed = [f"{figure}.{end}" for figure in (*figures, *ranks) for end in (RELATIVE, MILLISECONDS)]
    return [*timed, *(f"{count}.{RELATIVE}" for count in COUNTS)]


def _known(name: str) -> bool:
    *figure, end = name.split(".")
    if end == RELATIVE and len(figure) == 1 and figure[0] in COUNTS:
        return True
    if end not in (RELATIVE, MILLISECONDS) or not figure:
        return False
    head, *rest = figure
    if head == "cycle":
        return not rest
    if head == "idle":
        return not rest or (len(rest) == 1 and rest[0] in CAUSES)
    return head in _STAGES and (not rest or (len(rest) == 1 and rest[0] in _OF_STAGE))


COMPARISON: Final = Vocabulary(
    known=_known,
    names=names,
    is_fraction=lambda name: name.endswith(f".{RELATIVE}"),
    fraction="a delta is a fraction, 0.02 for 2 %",
)


def decide(check: Check, comparison: Comparison) -> Outcome:
    """Hold the comparison against one check.

    It is decided by the difference of medians. Where the number lies closer to 0 than the noise
    of this figure alone, and the difference closer to the number, noise would decide: then it is
    not.

    Raises:
        EvidenceError: the traces do not support the figure, or cannot decide the check.
    """
    if comparison.refused:
        raise EvidenceError(
            f"--check {check.text}: the traces do not support it: {comparison.refused[0]}"
        )
    figure, _, end = check.name.rpartition(".")
    row = comparison.row(figure)
    if row is None:
        raise EvidenceError(f"--check {check.text}: {_no_row(figure, comparison)}")
    value, noise = _figures(row, end)
    if value is None:
        raise EvidenceError(
            f"--check {check.text}: A has none of it, so nothing is relative to it; "
            f"check {figure}.{MILLISECONDS}"
        )
    # Medians that agree to the nanosecond, as those of counts mostly do, need no noise.
    apart = abs(value - check.number)
    undecided = noise is None or (apart > 0 and max(apart, abs(check.number)) < noise)
    if undecided and not comparison.same_files:
        known = "cannot say" if noise is None else f"leave {_text(noise, end)} of noise"
        raise EvidenceError(
            f"--check {check.text}: it is {_text(value, end)}, and {comparison.a.cycles} and "
            f"{comparison.b.cycles} cycles {known}; record more cycles"
        )
    return Outcome(check, value, holds(check, value), ())


def _figures(row: Change, end: str) -> tuple[float | None, float | None]:
    """The figure and its noise, in its unit."""
    scale = row.a if end == RELATIVE else 1e6
    noise = row.noise / scale if row.noise is not None and scale else None
    return row.relative if end == RELATIVE else row.change / 1e6, noise


def _no_row(figure: str, comparison: Comparison) -> str:
    small = f", or takes under 0.1 % of the cycle ({comparison.small} figures do)"
    return f"neither run has {figure}{small if comparison.small else ''}"


def _text(value: float, end: str) -> str:
    return f"{value:.3f} ms" if end == MILLISECONDS else f"{100 * value:.2f} %"
