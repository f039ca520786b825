"""Grids as aligned lines of text: no boxes, no rules, nothing that breaks in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.palette import stage_colour

BOLD: Final = Style(bold=True)
DIM: Final = Style(dim=True)
# A figure and its unit stay on one line: the blank between them is no blank while lines are cut.
_UNITS: Final = re.compile(r"(?<=\d) (?=(?:%|ms|us)(?!\w))")
_GLUE: Final = "\ue000"


def hanging(text: Text | str, console: Console, first: str = "", indent: int = 2) -> list[Text]:
    """A paragraph cut at the width; its lines after the first are set in."""
    words = Text(text) if isinstance(text, str) else text.copy()
    words.plain = _UNITS.sub(_GLUE, words.plain)
    lines = words.wrap(console, max(console.width - indent, 20))
    out = []
    for number, line in enumerate(lines):
        line.plain = line.plain.replace(_GLUE, " ")
        line.rstrip()
        lead = first.ljust(indent) if number == 0 else " " * indent
        out.append(Text(lead) + line)
    return out


def packed(parts: Sequence[Text], console: Console) -> list[Text]:
    """The parts with commas between them, cut into lines only between two of them."""
    lines: list[Text] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        piece = part if last else part + Text(",")
        if lines and lines[-1].cell_len + 1 + piece.cell_len <= console.width:
            lines[-1] = lines[-1] + Text(" ") + piece
        else:
            lines += [piece] if piece.cell_len <= console.width else hanging(piece, console)
    return lines


def grid_lines(grid: Grid, console: Console, *, colours: bool) -> list[Text]:
    """The title, the headers and the rows."""
    labels = [_label(row, colours) for row in grid.rows]
    widths = _widths(grid, labels)
    gaps = _gaps(widths, console.width)
    lines = []
    if grid.title:
        head = Text(grid.title, BOLD)
        if grid.note:
            head.append(f"  {grid.note}", DIM)
        lines += hanging(head, console, indent=0)
    if any(grid.columns):
        cells = [Text(column, DIM) for column in grid.columns]
        lines.append(_line(grid, cells, widths, gaps))
    for row, label in zip(grid.rows, labels, strict=True):
        style = DIM if row.depth else Style.null()
        cells = [label, *(Text(cell, style) for cell in row.cells[1:])]
        line = _line(grid, cells, widths, gaps)
        lines += _folded(line, console) if grid.words_last else [line]
    return lines


def fitting(make: Callable[[int], Grid | None], sizes: Iterable[int], width: int) -> Grid | None:
    """The first grid, made for one of the sizes, that is not wider than `width`; else the last."""
    grid = None
    for size in sizes:
        grid = make(size)
        if grid is None or grid_width(grid) <= width:
            break
    return grid


def grid_width(grid: Grid) -> int:
    """Columns that the grid takes at its narrowest."""
    widths = _widths(grid, [_label(row, True) for row in grid.rows])
    return sum(widths) + len(widths) - 1


def _label(row: Row, colours: bool) -> Text:
    """The first cell: a swatch of the stage, and parts of a stage set in."""
    label = Text("  " * row.depth)
    if colours and row.stage:
        label.append("  " if row.depth else "■ ", stage_colour(row.stage))
    label.append(row.cells[0], DIM if row.depth else None)
    return label


def _widths(grid: Grid, labels: list[Text]) -> list[int]:
    widths = [cell_len(column) for column in grid.columns]
    for row, label in zip(grid.rows, labels, strict=True):
        for index, cell in enumerate(row.cells):
            widths[index] = max(widths[index], label.cell_len if index == 0 else cell_len(cell))
    return widths


def _gaps(widths: list[int], width: int) -> list[int]:
    """Blanks before each column: two, and one from the left on where the width asks for it."""
    tight = min(max(sum(widths) + 2 * (len(widths) - 1) - width, 0), len(widths) - 1)
    return [0, *[1] * tight, *[2] * (len(widths) - 1 - tight)]


def _line(grid: Grid, cells: list[Text], widths: list[int], gaps: list[int]) -> Text:
    line = Text()
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blank = " " * max(width - cell.cell_len, 0)
        line.append(" " * gaps[index])
        line = line + cell + Text(blank) if grid.is_left(index) else line + Text(blank) + cell
    line.rstrip()
    return line


def _folded(line: Text, console: Console) -> list[Text]:
    return [line] if line.cell_len <= console.width else hanging(line, console, indent=0)
