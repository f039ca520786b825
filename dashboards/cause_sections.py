"""Why the cycle is slow and what to do: the causes whose signs are in the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specscope.analyzers.report import Report
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import time_text

if TYPE_CHECKING:
    from specscope.analyzers.causes import Finding

TITLE: Final = "Why, and what to do"
# A smaller gain is shown as none: it would read 1.00.
_WORTH_A_WORD: Final = 1.005
# More causes than these are called by their numbers.
_MOST_TITLES: Final = 3


@dataclass(frozen=True)
class Block:
    """One cause: what it is, and lines beside it."""

    head: str
    lines: tuple[str, ...]


def cause_blocks(report: Report) -> list[Block]:
    """The causes that are seen or suspected, by what they can gain at most."""
    if report.causes is None:
        return []
    shown = (*report.causes.of("seen"), *report.causes.of("suspected"))
    return [_block(one) for one in shown]


def basis_lines(report: Report) -> list[str]:
    """What the bounds rest on; nothing where no bound is shown."""
    found = report.causes
    if found is None:
        return []
    shown = (*found.of("seen"), *found.of("suspected"), *_asked(report))
    if not any(one.gain for one in shown):
        return []
    if report.unprofiled is None:
        cycle = "of the cycle as recorded, which the profiler stretches"
    else:
        length, source = report.unprofiled.cycle_ns, clean(report.unprofiled.source)
        cycle = f"of the cycle without the profiler, {time_text(length)} ({source})"
    lines = [f"Bounds {cycle}; they do not add up."]
    if found.simulated and any(one.after is not None for one in found.findings):
        lines.append("The server drew its accept length: rates rest on that, not on a draft.")
    return lines


def _block(one: Finding) -> Block:
    suspected = "Suspected: " if one.state == "suspected" else ""
    lines = [clean("; ".join((*one.signs, *one.beside)), 400)]
    if one.against:
        lines.append(clean(f"yet: {'; '.join(one.against)}", 400))
    if one.mend is not None:
        lines.append(clean(f"mend: {one.mend.advice}", 400))
        lines.append(flag_line(one))
    return Block(f"{suspected}{one.cause.title} ({one.id}): {bound_text(one)}", tuple(lines))


def bound_text(one: Finding) -> str:
    """What mending it can gain at most."""
    if one.gain is None:
        return "no bound on the gain"
    if one.gain < _WORTH_A_WORD:
        return "nothing to gain"
    if_gone = (
        "if it took no time" if one.cause.ratio is None else "if every draft token was accepted"
    )
    text = f"at most {one.gain:.2f} times the tokens/s {if_gone}"
    return text if one.after is None else f"{text}, then {one.after:.2f} times the plain rate"


def flag_line(one: Finding) -> str:
    """What to do with the flags that the run's own engine and version have."""
    if not one.flags:
        return f"no flag known: {clean(one.no_flag)}" if one.no_flag else "no flag known"
    texts: dict[str, list[str]] = {}
    for step in one.steps:
        kind = step.do if step.do in ("already", "unknown") else "do"
        texts.setdefault(kind, []).append(clean(step.text, 200))
    lines = [
        f"{head}: {'; '.join(texts[kind])}"
        for kind, head in (("do", "flag"), ("unknown", "flag, not known whether set"))
        if kind in texts
    ]
    return "; ".join(lines) or f"already so in this run: {'; '.join(texts['already'])}"


def _asked(report: Report) -> list[Finding]:
    """Causes that people suspect first and that are not in this run."""
    if report.causes is None:
        return []
    return [one for one in report.causes.of("absent") if one.cause.asked and one.gain is not None]


def absent_lines(report: Report) -> list[str]:
    """What people suspect first, where its signs are not there, with what it could gain."""
    return [
        f"Not in this run: {one.cause.title} ({one.id}): {bound_text(one)}"
        for one in _asked(report)
    ]


def is_empty(report: Report) -> bool:
    """Is there nothing to say?"""
    return not (cause_blocks(report) or absent_lines(report) or open_lines(report))


def open_lines(report: Report) -> list[str]:
    """The causes that cannot be told: a line for each thing to give or to record.

    A cause that needs several of them stands in several lines.
    """
    if report.causes is None:
        return []
    asked: dict[str, list[Finding]] = {}
    for one in report.causes.of("open"):
        for ask in one.ask.split("; "):
            asked.setdefault(ask, []).append(one)
    return [f"Not decidable; {ask}: {_listed(found)}" for ask, found in asked.items()]


def _listed(found: Sequence[Finding]) -> str:
    if len(found) > _MOST_TITLES:
        return f"{', '.join(one.id for one in found)} (docs/causes.md)"
    return ", ".join(one.cause.title for one in found)
