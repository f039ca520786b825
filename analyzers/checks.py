"""The grammar of `--check`: NAME OP NUMBER, one for all commands (docs/checks.md).

`verify.share>=0.95`, `idle.share<20%`, `cycle.ms<=30`. A percentage is a hundredth.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specscope.analyzers.report import Report
from specscope.analyzers.words import CAUSES, STAGES
from specscope.traces.errors import EvidenceError, UsageError

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_CHECK = re.compile(
    r"\s*(?P<name>[a-z_]+(?:\.[a-z_]+)+)\s*(?P<op>>=|<=|==|!=|>|<)\s*"
    r"(?P<number>-?\d+(?:\.\d+)?)\s*(?P<percent>%?)\s*\Z"
)
_STAGE_FIELDS = (
    "share",
    "work_share",
    "idle_share",
    "busy_share",
    "unprofiled_low",
    "unprofiled_high",
    "work_ms",
    "total_ms",
    "collective_ms",
)
_STAGES = (*(s for s in STAGES if s != "unplaced"), "verify_only")


@dataclass(frozen=True)
class Vocabulary:
    """The names that the checks of a command may use, and which of them are fractions."""

    known: Callable[[str], bool]
    names: Callable[[], list[str]]  # folded, for people
    is_fraction: Callable[[str], bool]
    fraction: str  # what such a figure is called


@dataclass(frozen=True)
class Check:
    """One check, read."""

    text: str
    name: str
    op: str
    number: float


@dataclass(frozen=True)
class Outcome:
    """One check, decided: `value` is what the run shows."""

    check: Check
    value: float
    passed: bool
    dissent: tuple[int, ...]  # ranks on which it would come out the other way


def parse(text: str, vocabulary: Vocabulary | None = None) -> Check:
    """Read one check, by the names of `analyze` unless others are given.

    Raises:
        UsageError: it is not NAME OP NUMBER, or the name is unknown.
    """
    words = vocabulary or RUN
    match = _CHECK.match(text[:200])
    if not match:
        raise UsageError(
            f"--check {text[:80]!r} is not NAME OP NUMBER; example: --check 'verify.share>=0.95'"
        )
    name = match["name"]
    if not words.known(name):
        raise UsageError(f"--check: unknown name {name!r}; known are {', '.join(words.names())}")
    number = float(match["number"]) / (100 if match["percent"] else 1)
    if words.is_fraction(name) and not match["percent"] and abs(number) > 1:
        raise UsageError(
            f"--check {text.strip()!r}: {words.fraction}; "
            f"write {match['number']}% or {number / 100:g}"
        )
    return Check(text.strip(), name, match["op"], number)


def names() -> list[str]:
    """Every name that a check may use, stages folded."""
    return [
        *(f"STAGE.{name}" for name in _STAGE_FIELDS),
        "idle.share",
        "idle.CAUSE.share",
        "cycle.ms",
        "linked.share",
        "placed.share",
        "other.share",
    ]


def holds(check: Check, value: float) -> bool:
    """Does the figure pass the check?"""
    return _OPERATORS[check.op](value, check.number)


def decide(check: Check, report: Report) -> Outcome:
    """Hold the run against one check.

    Raises:
        EvidenceError: the trace does not support the figure.
    """
    gated = check.name.split(".")[0] not in ("linked", "placed", "other")
    if gated and report.verdict.refused:
        raise EvidenceError(
            f"--check {check.text}: the trace does not support it: {report.verdict.refused[0]}"
        )
    value = _value(check.name, report, None)
    if value is None:
        raise EvidenceError(f"--check {check.text}: this run has no {check.name}")
    passed = holds(check, value)
    dissent = []
    for coverage in report.coverage:
        own = _value(check.name, report, coverage.rank)
        if own is not None and holds(check, own) != passed:
            dissent.append(coverage.rank)
    return Outcome(check, value, passed, tuple(dissent))


def _known(name: str) -> bool:
    head, *rest = name.split(".")
    if head in _STAGES:
        return len(rest) == 1 and rest[0] in _STAGE_FIELDS
    if head == "idle":
        return rest == ["share"] or (len(rest) == 2 and rest[0] in CAUSES and rest[1] == "share")
    return name in ("cycle.ms", "linked.share", "placed.share", "other.share")


RUN = Vocabulary(
    known=_known,
    names=names,
    is_fraction=lambda name: "share" in name,
    fraction="a share is a fraction from 0 to 1",
)


def _value(name: str, report: Report, rank: int | None) -> float | None:
    head, *rest = name.split(".")
    if head in _STAGES:
        return _stage_value(head, rest[0], report, rank)
    if head == "cycle":
        rows = [r for r in report.cycles if r.leads and rank in (None, r.rank)]
        return float(np.median([r.median_ns for r in rows])) / 1e6 if rows else None
    if head in ("linked", "placed"):
        shares = [getattr(c, f"{head}_share") for c in report.coverage if rank in (None, c.rank)]
        known = [s for s in shares if s is not None]
        return min(known) if known else None
    if head == "other":
        return report.other_share if rank is None else None
    if rest == ["share"] and rank is None:
        return report.idle_share.value if report.idle_share else None
    wanted = [
        r for r in report.idle if r.rank == rank and (rest == ["share"] or r.cause == rest[0])
    ]
    if rest == ["share"]:
        return None
    return wanted[0].cycle_share if wanted else 0.0


def _stage_value(stage: str, what: str, report: Report, rank: int | None) -> float | None:
    row = report.share(stage, rank)
    if row is None:
        # A stage that a speculating run does not have takes nothing of the cycle.
        return 0.0 if report.shares and stage in ("draft", "draft_extend", "schedule") else None
    if what == "share":
        return row.cycle_share.value
    if what == "busy_share":
        return row.busy_share.value if row.busy_share else None
    if what in ("unprofiled_low", "unprofiled_high"):
        if row.unprofiled is None:
            return None
        return row.unprofiled[0 if what.endswith("low") else 1]
    if what == "collective_ms" and not row.collectives_known:
        return None
    if what.endswith("_ms"):
        return float(getattr(row, what.replace("_ms", "_ns"))) / 1e6
    return float(getattr(row, what))
