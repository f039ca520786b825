"""The report as Markdown for an issue tracker: the verdict and the stages, the rest folded.

Names are hostile text: nothing in them becomes markup, a link, a mention or a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from specscope.analyzers.report import Report
from specscope.dashboards import (
    cause_sections,
    graph_sections,
    rank_sections,
    sections,
    throughput_sections,
)
from specscope.dashboards.grid import Grid
from specscope.dashboards.safe_text import clean, clean_lines

# First line, by which a report of ours is known and may be written again.
MARK: Final = "<!-- specscope report -->"
_MARKS: Final = re.compile(r"([\\`*_{}\[\]|~$])")
# What trackers turn into links: mentions, numbers of issues, addresses. A comment breaks them.
_LINKS: Final = re.compile(r"(@|#(?=\w)|:(?=//)|\bwww(?=\.))")
_MOST_ACTIVITIES: Final = 5


def markdown_text(report: Report) -> str:
    """The whole document."""
    blocks = [MARK, *_head(report), *_details(report)]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> escape("a|b <img src=x> @you #1")
    'a\\|b &lt;img src=x&gt; @<!-- -->you #<!-- -->1'
    """
    line = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKS.sub(r"\1<!-- -->", _MARKS.sub(r"\\\1", line))


def _head(report: Report) -> Iterator[str]:
    verdict = report.verdict
    yield f"**{escape(verdict.sentence)}**"
    if not verdict.refused:
        yield f"Confidence {escape(sections.confidence_line(report))}."
    known = [f"{fact.label} {fact.text}" for fact in sections.facts(report) if fact.text]
    unknown = [fact.label for fact in sections.facts(report) if not fact.text]
    lines = [escape(", ".join(known))] if known else []
    if unknown:
        lines.append(escape(f"unknown: {', '.join(unknown)}"))
    yield "\n".join(lines)
    stages = sections.stage_grid(report)
    if stages is not None:
        yield from table(stages)
    yield from (escape(line) for line in sections.below_the_stages(report))
    given = throughput_sections.throughput_lines(report)
    if given:
        yield "What the cycle gives:"
        yield bullets(given)
    yield from (escape(f"All ranks: {line}") for line in rank_sections.group_lines(report))
    yield from _causes(report)
    if sections.notes(report):
        notes = (f"{n.text} (mend: {n.mend})" if n.mend else n.text for n in sections.notes(report))
        yield "Warnings:"
        yield bullets(notes)


def _causes(report: Report) -> Iterator[str]:
    """The causes whose signs are in the run, then those that cannot be told."""
    if cause_sections.is_empty(report):
        return
    others = (*cause_sections.absent_lines(report), *cause_sections.open_lines(report))
    yield escape(" ".join((f"{cause_sections.TITLE}.", *cause_sections.basis_lines(report))))
    items = []
    for block in cause_sections.cause_blocks(report):
        items.append(f"- {escape(block.head)}")
        items += [f"  - {escape(line)}" for line in block.lines]
    items += [f"- {escape(line)}" for line in others]
    yield "\n".join(items)


def _details(report: Report) -> Iterator[str]:
    """Everything else, folded."""
    yield "<details><summary>Ranks, activities, idle, coverage, files</summary>"
    every_rank = max(len(sections.rank_numbers(report)), 1)
    grids = [
        *sections.rank_grids(report, every_rank),
        *throughput_sections.throughput_grids(report),
        *rank_sections.group_grids(report),
        sections.activity_grid(report, _MOST_ACTIVITIES),
        *graph_sections.graph_grids(report),
        sections.idle_grid(report),
        sections.other_cycles_grid(report),
    ]
    for grid in grids:
        if grid is not None:
            yield from table(grid)
    yield bullets(
        [
            *sections.coverage_lines(report),
            *rank_sections.clock_lines(report),
            *graph_sections.graph_lines(report),
            *sections.loss_lines(report),
        ]
    )
    files = sections.file_grid(report)
    if files is not None:
        yield from table(files)
    listed = sections.listed_lines(report)
    if listed:
        yield bullets(f"left out: {line}" for line in listed)
    yield "</details>"
    if report.verdict.recapture:
        yield sections.recapture_lead(report)
        yield "\n".join(["```sh", *clean_lines(report.verdict.recapture), "```"])


def table(grid: Grid) -> Iterator[str]:
    """A grid as a table, its title before it."""
    if grid.title:
        yield escape(f"{grid.title}  {grid.note}".rstrip())
    rules = ["---" if grid.is_left(index) else "--:" for index in range(len(grid.columns))]
    lines = [_line(map(escape, grid.columns)), _line(rules)]
    for row in grid.rows:
        name, *cells = row.cells
        inset = "&nbsp;&nbsp;" * row.depth
        lines.append(_line([inset + escape(name), *map(escape, cells)]))
    yield "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {escape(line)}" for line in lines)
