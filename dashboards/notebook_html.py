"""The head of the report for a notebook's cell: verdict, stages, causes; no script, no style sheet.

The colours of the text are the notebook's own, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator

from specscope.analyzers.report import Report
from specscope.dashboards import cause_sections, rank_sections, sections, throughput_sections
from specscope.dashboards.html_blocks import bullets, escape, table
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.safe_text import clean


def report_html(report: Report) -> str:
    """What a cell shows whose last line is a report."""
    return f'<div class="specscope">{"".join(_blocks(report))}</div>'


def _blocks(report: Report) -> Iterator[str]:
    verdict = report.verdict
    head, details = clean(verdict.headline), sections.verdict_details(report)
    if sections.is_withheld(report):
        head, details = "No verdict", [clean(reason) for reason in verdict.refused]
    colour = stage_colour(verdict.stage)
    yield f'<div style="border-left: 4px solid {colour}; padding-left: 1em">'
    yield f"<h3>{escape(head)}</h3>"
    yield bullets(details)
    if not verdict.refused:
        yield f"<p>Confidence {escape(sections.confidence_line(report))}.</p>"
    yield "</div>"
    known = (f"{fact.label} {fact.text}" for fact in sections.facts(report) if fact.text)
    yield f"<p>{escape(', '.join(known))}</p>"
    stages = sections.stage_grid(report)
    if stages is not None:
        yield _small(table(stages))
        yield from (f"<p>{escape(line)}</p>" for line in sections.below_the_stages(report))
    yield from _list("What the cycle gives", throughput_sections.throughput_lines(report))
    yield from _list("All ranks together", rank_sections.group_lines(report))
    if not cause_sections.is_empty(report):
        yield from _causes(report)
    notes = [clean(f"{note.text} {note.mend or ''}") for note in sections.notes(report)]
    yield from _list("Warnings", notes)


def _causes(report: Report) -> Iterator[str]:
    yield f"<h4>{escape(cause_sections.TITLE)}</h4>"
    yield from (f"<p>{escape(line)}</p>" for line in cause_sections.basis_lines(report))
    for block in cause_sections.cause_blocks(report):
        yield f"<p><b>{escape(block.head)}</b></p>{bullets(block.lines)}"
    others = (*cause_sections.absent_lines(report), *cause_sections.open_lines(report))
    yield from (f"<p>{escape(line)}</p>" for line in others)


def _list(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"<h4>{escape(title)}</h4>{bullets(lines)}"


def _small(text: str) -> str:
    """Headings of the page, one size down; squares of colour need a shape of their own here."""
    shape = 'class="swatch" style="display: inline-block; width: .7em; height: .7em; '
    return (
        text.replace("<h2>", "<h4>")
        .replace("</h2>", "</h4>")
        .replace('class="swatch" style="', f"{shape}margin-right: .5em; ")
    )
