"""A comparison on a terminal: what is not the same, the answer, then the tables."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from specscope.analyzers.compare_report import Comparison
from specscope.dashboards import compare_sections as sections
from specscope.dashboards.grid import Grid
from specscope.dashboards.layout import BOLD, fitting, grid_lines, grid_width, hanging
from specscope.dashboards.safe_text import clean
from specscope.dashboards.terminal import PIPE_COLUMNS, console_for


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the comparison."""
    colours = console.color_system is not None and not console.no_color
    lead = [
        line
        for text in sections.lead_lines(comparison)
        for line in hanging(text, console, first="!")
    ]
    answer = [
        line
        for number, text in enumerate(sections.answer_lines(comparison))
        for line in hanging(Text(text, BOLD) if number == 0 else text, console, indent=0)
    ]
    sides = [
        line
        for text in sections.side_lines(comparison)
        for line in hanging(text, console, indent=0)
    ]
    blocks = [lead, answer, sides]
    blocks += [grid_lines(grid, console, colours=colours) for grid in _grids(comparison, console)]
    blocks.append(
        [
            line
            for text in sections.basis_lines(comparison)
            for line in hanging(clean(text), console, indent=0)
        ]
    )
    for number, block in enumerate([block for block in blocks if block]):
        if number:
            console.print()
        for line in block:
            console.print(line, soft_wrap=True)


def plain_comparison(comparison: Comparison, width: int = PIPE_COLUMNS) -> str:
    """The comparison as a pipe gets it."""
    file = io.StringIO()
    print_comparison(comparison, console_for(file, width))
    return file.getvalue()


def _narrow(grid: Grid, width: int) -> Grid:
    """The grid without its column of percentages, where it is too wide with them."""
    if grid_width(grid) <= width:
        return grid
    column = sections.RELATIVE_COLUMN
    rows = tuple(
        replace(row, cells=(*row.cells[:column], *row.cells[column + 1 :])) for row in grid.rows
    )
    columns = (*grid.columns[:column], *grid.columns[column + 1 :])
    return replace(grid, columns=columns, rows=rows)


def _grids(comparison: Comparison, console: Console) -> list[Grid]:
    grids = []
    if comparison.against is not None:
        grids.append(sections.against_grid(comparison.against))
        changes = []
    else:
        changes = [_narrow(grid, console.width) for grid in sections.change_grids(comparison)]
    kernels = fitting(
        lambda chars: sections.kernel_grid(comparison, name_chars=chars),
        (120, 60, 40, 34, 28, 20),
        console.width,
    )
    return [*grids, *changes, *([kernels] if kernels else [])]
