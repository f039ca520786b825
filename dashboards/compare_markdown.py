"""A comparison as Markdown for a pull request: the answer, what differs, the rest folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from specscope.analyzers.compare_report import Comparison
from specscope.dashboards import compare_sections as sections
from specscope.dashboards.checked import Checked, check_line
from specscope.dashboards.grid import Grid
from specscope.dashboards.markdown import bullets, escape, table

MARK: Final = "<!-- specscope comparison -->"


def markdown_text(comparison: Comparison, checked: Sequence[Checked] = ()) -> str:
    """The whole document."""
    return "\n\n".join([MARK, *_head(comparison, checked), *_details(comparison)]) + "\n"


def _head(comparison: Comparison, checked: Sequence[Checked]) -> Iterator[str]:
    if comparison.openings:
        yield bullets(sections.lead_lines(comparison))
    first, *more = sections.answer_lines(comparison)
    yield f"**{escape(first)}**"
    yield from (escape(line) for line in more)
    if checked:
        yield bullets(check_line(one) for one in checked)
    yield bullets(sections.side_lines(comparison))
    if comparison.against is not None:
        yield from table(sections.against_grid(comparison.against))
    else:
        named = [row for row in comparison.rows if row.differs]
        if named:
            for grid in sections.change_grids(replace(comparison, rows=tuple(named))):
                yield from table(grid)


def _details(comparison: Comparison) -> Iterator[str]:
    """Every row, kernels of one side, what it rests on; folded."""
    yield "<details><summary>All rows, kernels, and what this rests on</summary>"
    grids: list[Grid | None] = [
        *sections.change_grids(comparison, every=True),
        sections.kernel_grid(comparison, most=None),
    ]
    for grid in grids:
        if grid is not None:
            yield from table(grid)
    lines = sections.basis_lines(comparison)
    if lines:
        yield bullets(lines)
    yield "</details>"
