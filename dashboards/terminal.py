"""The report on a terminal: the verdict first, calm at 80 columns, the same words in a pipe."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Final

from rich.console import Console
from rich.text import Text

from specscope.analyzers.report import Report
from specscope.dashboards import (
    cause_sections,
    graph_sections,
    rank_sections,
    sections,
    size_sections,
    throughput_sections,
)
from specscope.dashboards.grid import Grid
from specscope.dashboards.layout import BOLD, DIM, fitting, grid_lines, grid_width, hanging, packed
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.safe_text import clean, clean_lines
from specscope.dashboards.units import share_text

PIPE_COLUMNS: Final = 80
MOST_COLUMNS: Final = 120


class _Console(Console):
    """A console that tells the command when its reader has gone away, in place of leaving."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_for(file: IO[str], width: int | None = None) -> Console:
    """A console on `file`: colours only on a terminal, no markup, no surprises from names."""
    console = _Console(file=file, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if width is None:
        width = min(console.width, MOST_COLUMNS) if console.is_terminal else PIPE_COLUMNS
    console.width = width
    return console


def print_report(report: Report, console: Console) -> None:
    """Print the report."""
    colours = console.color_system is not None and not console.no_color
    for number, block in enumerate(_blocks(report, console, colours)):
        if number:
            console.print()
        for line in block:
            # Lines are cut already; the call of a recapture stays whole, so that it can be copied.
            console.print(line, soft_wrap=True)


def group_sentence(report: Report) -> str:
    """What all ranks show together, in one line."""
    return " ".join(rank_sections.group_lines(report))


def print_group(report: Report, console: Console) -> None:
    """Print what all ranks show together: the answer, every rank, the path, the clocks."""
    colours = console.color_system is not None and not console.no_color
    group = report.group
    if group is None:
        return
    blocks = [
        [
            line
            for text in rank_sections.group_lines(report)
            for line in hanging(Text(text, BOLD), console, indent=0)
        ]
    ]
    grids = [
        *rank_sections.wait_grids(report, group),
        *rank_sections.communication_grids(report),
        *rank_sections.idle_grids(report, group),
        *size_sections.size_grids(group),
        *rank_sections.path_grids(report, group, 12),
    ]
    blocks += [grid_lines(grid, console, colours=colours) for grid in grids]
    notes = [note for note in report.warnings if note.code in rank_sections.NOTES]
    lines = [line for note in notes for line in hanging(clean(note.text), console, first="!")]
    for text in [
        *rank_sections.fused_lines(group),
        *size_sections.size_lines(group),
        *rank_sections.clock_lines(report),
    ]:
        lines += hanging(text, console, indent=0)
    for text in sections.listed_lines(report):
        lines += hanging(Text(f"left out: {text}", DIM), console)
    for number, block in enumerate([*blocks, lines]):
        if number:
            console.print()
        for line in block:
            console.print(line, soft_wrap=True)


def plain_report(report: Report, width: int = PIPE_COLUMNS) -> str:
    """The report as a pipe gets it."""
    file = io.StringIO()
    print_report(report, console_for(file, width))
    return file.getvalue()


def _blocks(report: Report, console: Console, colours: bool) -> Iterator[list[Text]]:
    """What stands apart by a blank line, in the order of reading."""
    yield _verdict(report, console)
    if colours and sections.headline_rows(report):
        yield _bar(report, console.width)
    yield _facts(report, console)
    stages = sections.stage_grid(report)
    if stages is not None:
        lines = grid_lines(stages, console, colours=colours)
        for text in sections.below_the_stages(report):
            lines += hanging(text, console, indent=0)
        yield lines
    given = throughput_sections.throughput_lines(report)
    if given:
        lines = [Text("What the cycle gives", BOLD)]
        for text in given:
            lines += hanging(text, console)
        yield lines
    for text in rank_sections.group_lines(report):
        yield [Text("All ranks together", BOLD), *hanging(text, console, indent=0)]
    if not cause_sections.is_empty(report):
        yield _causes(report, console)
    for grid in _grids(report, console.width):
        yield grid_lines(grid, console, colours=colours)
    if sections.notes(report):
        yield _warnings(report, console)
    yield _evidence(report, console)
    if report.verdict.recapture:
        yield _recapture(report)


def _grids(report: Report, width: int) -> Iterator[Grid]:
    """The tables behind that of the stages."""
    ranks = len(sections.rank_numbers(report))
    in_a_row = next(
        (
            size
            for size in range(ranks, 1, -1)
            if all(grid_width(grid) <= width for grid in sections.rank_grids(report, size))
        ),
        2,
    )
    yield from sections.rank_grids(report, in_a_row)
    yield from throughput_sections.throughput_grids(report)
    yield from rank_sections.group_grids(report)
    activities = fitting(lambda most: sections.activity_grid(report, most), (4, 3, 2), width)
    if activities is not None:
        yield activities
    yield from _graph_grids(report, width)
    for grid in (sections.idle_grid(report), sections.other_cycles_grid(report)):
        if grid is not None:
            yield grid


def _graph_grids(report: Report, width: int) -> list[Grid]:
    """The inside of graphs, names cut so that the grids fit."""
    grids: list[Grid] = []
    for name_chars in (graph_sections.LONGEST_NAME, 40, 32, 24, 18):
        grids = graph_sections.graph_grids(report, name_chars)
        if all(grid_width(grid) <= width for grid in grids):
            break
    return grids


def _verdict(report: Report, console: Console) -> list[Text]:
    """The sentence, one clause a line; what withholds it, one reason a line."""
    verdict = report.verdict
    if sections.is_withheld(report):
        head, details = "No verdict", [clean(reason) for reason in verdict.refused]
        if sections.headline_rows(report):
            details.append("The figures below are given as far as they mean something.")
    else:
        head, details = clean(verdict.headline), sections.verdict_details(report)
    if not verdict.refused:
        details.append(f"Confidence {sections.confidence_line(report)}.")
    lines = hanging(Text(head, BOLD), console, indent=0)
    for detail in details:
        lines += hanging(detail, console)
    return lines


def _bar(report: Report, width: int) -> list[Text]:
    """The cycle as one bar: full where the stage works, light where it idles; then its names."""
    shares = [share for share in sections.headline_rows(report) if share.part_of is None]
    pieces = [
        (share.stage, letter, part)
        for share in shares
        for letter, part in (("█", share.work_share), ("░", share.idle_share))
    ]
    bar = Text()
    for (stage, letter, _), cells in zip(
        pieces, _cells([part for _, _, part in pieces], width), strict=True
    ):
        bar.append(letter * cells, stage_colour(stage))
    names = Text()
    for index, share in enumerate(shares):
        names.append("   " if index else "")
        names.append(sections.stage_name(share.stage), stage_colour(share.stage))
        names.append(f" {share_text(share.cycle_share.value)}")
    legend = "   █ work ░ idle"
    if names.cell_len + len(legend) <= width:
        names.append(legend, DIM)
    return [bar, names]


def _cells(parts: list[float], width: int) -> list[int]:
    """Whole cells for each part, `width` in all, by largest remainder."""
    whole = sum(parts)
    if whole <= 0:
        return [0] * len(parts)
    exact = [part / whole * width for part in parts]
    cells = [int(size) for size in exact]
    order = sorted(range(len(parts)), key=lambda i: cells[i] - exact[i])
    for i in order[: width - sum(cells)]:
        cells[i] += 1
    return cells


def _facts(report: Report, console: Console) -> list[Text]:
    """What is known of the server in a line or two; then what is not and how to tell."""
    found = sections.facts(report)
    known = [Text.assemble((f"{f.label} ", DIM), f.text) for f in found if f.text is not None]
    lines = packed(known, console)
    unknown = [fact for fact in found if fact.text is None]
    if unknown:
        names = ", ".join(fact.label for fact in unknown)
        tell = "; ".join(dict.fromkeys(fact.tell for fact in unknown))
        lines += hanging(Text(f"unknown: {names} ({tell})", DIM), console, indent=0)
    return lines


def _warnings(report: Report, console: Console) -> list[Text]:
    lines = [Text("Warnings", BOLD)]
    for note in sections.notes(report):
        lines += hanging(clean(note.text), console, first="!")
        if note.mend:
            lines += hanging(Text(f"mend: {clean(note.mend)}", DIM), console, first="  ")
    return lines


def _causes(report: Report, console: Console) -> list[Text]:
    """The causes whose signs are in the run, then those that cannot be told."""
    lines = [Text(cause_sections.TITLE, BOLD)]
    for text in cause_sections.basis_lines(report):
        lines += hanging(text, console, indent=0)
    for block in cause_sections.cause_blocks(report):
        lines += hanging(block.head, console, indent=0)
        for text in block.lines:
            lines += hanging(text, console)
    for text in (*cause_sections.absent_lines(report), *cause_sections.open_lines(report)):
        lines += hanging(Text(text, DIM), console, indent=0)
    return lines


def _evidence(report: Report, console: Console) -> list[Text]:
    """What the figures stand on: coverage, losses, files."""
    lines = [Text("What this stands on", BOLD)]
    for text in [
        *sections.coverage_lines(report),
        *rank_sections.clock_lines(report),
        *graph_sections.graph_lines(report),
    ]:
        lines += hanging(text, console, indent=0)
    for text in sections.loss_lines(report):
        lines += hanging(text, console, first="  -", indent=4)
    files = sections.file_grid(report)
    if files is not None:
        head = Text(files.title)
        lines += hanging(head, console, indent=0)
        inset = replace(files, title="", rows=tuple(replace(row, depth=1) for row in files.rows))
        lines += grid_lines(inset, console, colours=False)
    for text in sections.listed_lines(report):
        lines += hanging(Text(f"left out: {text}", DIM), console)
    return lines


def _recapture(report: Report) -> list[Text]:
    """The call for a capture that would answer."""
    lead = sections.recapture_lead(report)
    return [Text(lead, BOLD), *(Text(line) for line in clean_lines(report.verdict.recapture))]
