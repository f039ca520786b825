"""The sentences of a comparison, drawn from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from specscope.analyzers import compare_report as kinds
from specscope.analyzers.compare_report import Against, Change, Side
from specscope.analyzers.throughput import Throughput

_STAGES = {"verify": "verify (accept included)", "draft_extend": "draft-extend"}
_COUNTS = {
    "launches": "launches",
    "graph_launches": "graph launches",
    "syncs": "synchronising calls",
    "ops": "GPU ops",
    "collectives": "collectives",
    "graph_coverage": "share of the work that graphs launched",
}


def label(row: Change) -> str:
    """A row in words."""
    stage = _STAGES.get(row.stage or "", row.stage or "")
    what = (row.what or "").replace("_", " ")
    if row.kind == kinds.CYCLE:
        return "cycle"
    if row.kind == kinds.STAGE:
        return stage
    if row.kind == kinds.IDLE:
        return "idle"
    if row.kind == kinds.CAUSE:
        return f"idle: {what}"
    if row.kind == kinds.COUNT:
        return _COUNTS.get(row.what or "", what)
    short = (row.stage or "").replace("_", "-")
    if row.kind == kinds.WAIT:
        return f"{short} collectives: {'waiting' if what == 'wait' else 'transferring'}"
    return f"{short} {row.family}" if row.kind == kinds.KERNEL else f"{short} {what}"


def amount(row: Change) -> str:
    """The change of a row in words."""
    relative = "" if row.relative is None else f" ({_percent(row.relative)})"
    if row.unit == "ns":
        return f"{_time(row.change)}{relative}"
    if row.unit == "share":
        return f"{100 * row.change:+.1f} points"
    return f"{row.change:+g}{relative}"


def headline(rows: Sequence[Change], *, same_files: bool) -> str:
    """What the comparison says, in one sentence."""
    if same_files:
        return "A and B are the same traces: every change is 0"
    named = [row for row in rows if row.differs]
    cycle = next((row for row in rows if row.kind == kinds.CYCLE), None)
    if not named:
        least = _resolution(cycle)
        return f"No difference beyond noise: cycle {amount(cycle)}{least}" if cycle else "Nothing"
    main = _main(named)
    parts = [f"{label(row)} {amount(row)}" for row in main]
    if cycle is None or not cycle.differs:
        lead = "A difference, not in the length of the cycle"
        tail = f"; cycle {amount(cycle)}{_resolution(cycle)}" if cycle else ""
        return f"{lead}: {', '.join(parts)}{tail}"
    longer = "longer" if cycle.change > 0 else "shorter"
    relative = abs(cycle.relative or 0.0)
    rest = [part for row, part in zip(main, parts, strict=True) if row is not cycle]
    tail = f": {', '.join(rest)}" if rest else ""
    return (
        f"A difference: the cycle of B is {100 * relative:.1f} % {longer} "
        f"({cycle.a / 1e6:.2f} to {cycle.b / 1e6:.2f} ms){tail}"
    )


def too_few(side: str, cycles: int, needed: int) -> str:
    """Why there is no verdict."""
    count = f"{cycles} steady whole cycle{'' if cycles == 1 else 's'}"
    return f"{side} has {count}, {needed} are needed"


def against_lines(found: Against, a: Side, b: Side) -> list[str]:
    """Speculation against plain decoding: what a verify costs, and whether it pays."""
    plain, other = (a, b) if found.plain == "a" else (b, a)
    letters = ("A", "B") if found.plain == "a" else ("B", "A")
    lines = [
        f"{letters[0]} decodes plainly ({found.step_ns / 1e6:.2f} ms a step, {plain.cycles} "
        f"steps), {letters[1]} speculates ({found.cycle_ns / 1e6:.2f} ms a cycle, {other.cycles} "
        f"cycles): a verify takes {found.verify_ns / found.step_ns:.2f} times a plain step, a "
        f"cycle {found.cycle_ns / found.step_ns:.2f} times",
        _pays(found.traced, "By the cycles in the traces"),
    ]
    if found.unprofiled is not None:
        lines.append(_pays(found.unprofiled, "By the cycles measured without a profiler"))
    return lines


def _pays(words: Throughput, by: str) -> str:
    text = f"{by}: break-even accept length {words.break_even:.2f}"
    found = words.acceptance
    if found is None or words.speed_up is None:
        return f"{text}; the accept length is not known"
    drawn = ", simulated by the server" if found.simulated else ""
    return (
        f"{text}, the accept length is {found.accept_length:.2f} ({found.source}{drawn}): "
        f"{words.speed_up:.2f} times the plain rate"
    )


def _main(named: Sequence[Change], most: int = 3) -> list[Change]:
    """The largest changes that no part of theirs explains: activities, causes, then stages."""
    timed = [row for row in named if row.unit == "ns" and row.kind != kinds.KERNEL]
    fine = [row for row in timed if row.kind in (kinds.ACTIVITY, kinds.STAGE_IDLE)]
    coarse = [
        row
        for row in timed
        if row.kind == kinds.STAGE and not any(one.stage == row.stage for one in fine)
    ]
    rest = [row for row in timed if row.kind in (kinds.CAUSE, kinds.WAIT)]
    other = [row for row in named if row.unit != "ns" or row.kind == kinds.KERNEL]
    ordered = sorted((*fine, *coarse), key=lambda row: -abs(row.change))
    return (ordered or rest or other or list(named))[:most]


def _resolution(row: Change | None) -> str:
    """From where on a change would have been seen."""
    if row is None or row.least is None:
        return ""
    relative = row.least_relative
    share = "" if relative is None else f" or {100 * relative:.1f} %"
    return f", where {_time(row.least, sign=False)}{share} would have shown"


def _percent(relative: float) -> str:
    digits = 2 if 0 < abs(relative) < 0.00995 else 1
    return f"{100 * relative:+.{digits}f} %"


def _time(ns: float, *, sign: bool = True) -> str:
    lead = "+" if sign else ""
    if abs(ns) >= 999_500:
        return f"{ns / 1e6:{lead}.2f} ms"
    return f"{ns / 1e3:{lead}.1f} us" if abs(ns) < 10_000 else f"{ns / 1e3:{lead}.0f} us"
