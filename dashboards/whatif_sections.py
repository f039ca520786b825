"""What would help, as grids and lines; every figure is in the `WhatIf`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.whatif import WhatIf
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.layout import BOLD, fitting, grid_lines, hanging
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import UNKNOWN, between, share_text, time_text

# A change of less is none.
_HARDLY: Final = 0.005
# A share that is written as 0.0 %.
_NOTHING: Final = 0.0005
# Levers that change what a cycle gives.
_OF_RATE: Final = ("accept-length", "batch")
_COLUMNS: Final = ("", "cycle", "change", "tok/s", "at most")


def print_whatif(found: WhatIf, console: Console) -> None:
    """Print it: what predictions rest on, the answers, the list, the steps."""
    colours = console.color_system is not None and not console.no_color
    blocks = [hanging(Text(headline(found), BOLD), console, indent=0)]
    blocks[0] += [line for text in basis_lines(found) for line in hanging(text, console, indent=0)]
    for grid in grids(found, console.width):
        blocks.append(grid_lines(grid, console, colours=colours))
    blocks.append([line for text in answer_lines(found) for line in hanging(text, console)])
    refused = [line for text in refused_lines(found) for line in hanging(text, console, first="!")]
    blocks.append(refused)
    for number, block in enumerate(part for part in blocks if part):
        if number:
            console.print()
        for line in block:
            console.print(line, soft_wrap=True)


def headline(found: WhatIf) -> str:
    """The answer in one sentence: what was asked, else what would help most."""
    if found.refused:
        return f"Nothing can be predicted: {clean('; '.join(found.refused))}."
    rows = [row for row in found.asked if not row.refused] or [
        row for row in found.ranked if not row.refused
    ]
    if not rows or found.corrected is None:
        return "No lever can be tried on this run."
    row = rows[0]
    lead = "" if found.asked else "What would help most: "
    if row.lever in _OF_RATE and row.rate is not None and row.cycle_ns is not None:
        now = "" if found.rate is None else f" in place of {_rate(found.rate)}"
        return (
            f"{lead}{clean(row.title)}: {rate_text(row)} tokens/s{now} at a cycle of "
            f"{between_times(row)}; {clean(row.assumption)}."
        )
    return (
        f"{lead}{clean(row.title)}: the cycle would take {between_times(row)} in place of "
        f"{time_text(found.corrected.cycle_ns)} ({change_text(found, row)}){judged(found, row)}; "
        f"{clean(row.assumption)}."
    )


def judged(found: WhatIf, row: Prediction) -> str:
    """What the range means, where its sign does not say it."""
    low, high = changes(found, row)
    if max(-low, high) < _HARDLY:
        return ": hardly a change"
    if high < _HARDLY:
        return ""
    return ": rather a loss" if high > -low else ": rather a gain"


def changes(found: WhatIf, row: Prediction) -> tuple[float, float]:
    """By how much the cycle changes at both ends, as a share."""
    assert row.cycle_ns is not None
    assert found.corrected is not None
    low, high = (ns / found.corrected.cycle_ns - 1 for ns in row.cycle_ns)
    return low, high


def basis_lines(found: WhatIf) -> list[str]:
    """What the predictions rest on: the replay, the profiler, acceptance."""
    lines = []
    if found.unchanged is not None:
        one = found.unchanged
        lines.append(
            f"Replayed unchanged: {time_text(one.replayed_ns)} a cycle, recorded "
            f"{time_text(one.measured_ns)} (error {100 * abs(one.error):.2f} %; "
            f"{time_text(one.unexplained_ns)} of the critical path are explained by nothing on "
            "record)."
        )
    if found.corrected is not None:
        lines.append(f"{_upper(clean(found.corrected.text))}.")
    if found.acceptance:
        lines.append(f"Accept length {clean(found.acceptance)}.")
    return lines + [f"{_upper(clean(note))}." for note in found.notes]


def _upper(text: str) -> str:
    """The sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def grids(found: WhatIf, width: int) -> Iterator[Grid]:
    """The answers, the list and the steps as tables."""
    if found.corrected is None:
        return
    if any(not row.refused for row in found.asked):
        yield _grid(found, "What if", found.asked, width)
    yield _grid(found, "What would help most", found.ranked, width)
    if found.curve is not None:
        best = found.curve.best
        note = "" if best is None else f"best: {between([str(number) for number in best])}"
        yield _grid(found, "Draft steps", found.curve.rows, width, note)
    if found.corrected.state == "corrected":
        yield stage_grid(found)


def stage_grid(found: WhatIf) -> Grid:
    """Stages as recorded and without the profiler."""
    one = found.corrected
    assert one is not None
    rows = [
        Row(
            (
                stage.stage.replace("_", "-"),
                time_text(stage.ns),
                time_text(one.stage_ns(stage.stage)),
            ),
            stage=stage.stage,
        )
        for stage in one.profiled
    ]
    rows.append(Row(("cycle", time_text(one.profiled_ns), time_text(one.cycle_ns))))
    rows.append(Row(("waiting", *(time_text(ns) for ns in one.waiting_ns))))
    taken = ", ".join(f"{part.what} {time_text(part.ns)}" for part in one.taken)
    return Grid("Stages", ("", "recorded", "without profiler"), tuple(rows), f"taken out: {taken}")


def _grid(
    found: WhatIf, title: str, rows: tuple[Prediction, ...], width: int, note: str = ""
) -> Grid:
    """A table of predictions; what does not fit is left out from the right."""
    good = [row for row in rows if not row.refused]

    def make(columns: int) -> Grid:
        cells = [
            (
                clean(row.title, 40),
                between_times(row),
                change_text(found, row),
                rate_text(row),
                bound_text(found, row),
            )
            for row in good
        ]
        kept = tuple(Row(line[:columns]) for line in cells)
        return Grid(title, _COLUMNS[:columns], kept, note)

    grid = fitting(make, range(len(_COLUMNS), 2, -1), width)
    assert grid is not None
    return grid


def answer_lines(found: WhatIf) -> list[str]:
    """The assumption and the formula of each lever that was asked for."""
    rows = found.asked or found.ranked[:1]
    answers: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if not row.refused and row.assumption:
            answers.setdefault((row.assumption, row.formula), []).append(row.title)
    return [
        f"{clean(between(titles))}: {clean(assumption)}. {_upper(clean(formula))}."
        for (assumption, formula), titles in answers.items()
    ] + ([f"Steps: {clean(found.curve.basis)}."] if found.curve and found.curve.basis else [])


def refused_lines(found: WhatIf) -> list[str]:
    """What could not be answered, and what would answer it."""
    why: dict[tuple[str, str], list[str]] = {}
    for row in found.asked:
        if row.refused:
            why.setdefault((row.lever, row.refused), []).append(row.title)
    return [f"{clean(between(titles))}: {clean(text)}" for (_, text), titles in why.items()]


def between_times(row: Prediction) -> str:
    """The range of the cycle."""
    assert row.cycle_ns is not None
    return between([time_text(ns) for ns in row.cycle_ns])


def change_text(found: WhatIf, row: Prediction) -> str:
    """By how much the cycle changes, in percent."""
    return between([f"{100 * end + 0.0:+.1f}" for end in changes(found, row)]) + " %"


def rate_text(row: Prediction) -> str:
    """The range of tokens/s."""
    if row.rate is None:
        return UNKNOWN
    return between([_rate(rate) for rate in row.rate])


def _rate(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"


def bound_text(found: WhatIf, row: Prediction) -> str:
    """By how much the cycle could shrink at most, were what the lever touches free."""
    if row.bound_ns is None or found.corrected is None:
        return UNKNOWN
    share = max(1 - row.bound_ns / found.corrected.cycle_ns, 0.0)
    return ("-" if share >= _NOTHING else "") + share_text(share)
