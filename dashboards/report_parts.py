"""A report as components of a page, in the order and the words of the HTML page."""

from __future__ import annotations

from typing import Any, Final

from specscope.analyzers.report import Report
from specscope.dashboards import graph_sections, rank_lines, rank_sections, sections
from specscope.dashboards.app_parts import grid_part, paragraphs, warnings
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.safe_text import clean, clean_lines

_MOST_ACTIVITIES: Final = 5


def head_parts(report: Report) -> list[Any]:
    """The verdict, what is known of the server, and warnings."""
    from dash import html

    verdict = report.verdict
    head, details = clean(verdict.headline), sections.verdict_details(report)
    if sections.is_withheld(report):
        head, details = "No verdict", [clean(reason) for reason in verdict.refused]
    confidence = [] if verdict.refused else [f"Confidence {sections.confidence_line(report)}."]
    found = sections.facts(report)
    known = ", ".join(f"{fact.label} {fact.text}" for fact in found if fact.text)
    unknown = [fact for fact in found if not fact.text]
    lines = [known]
    if unknown:
        names = ", ".join(fact.label for fact in unknown)
        tell = "; ".join(dict.fromkeys(fact.tell for fact in unknown))
        lines.append(f"unknown: {names} ({tell})")
    notes = [f"{clean(note.text)} {clean(note.mend)}".strip() for note in sections.notes(report)]
    return [
        html.Div(
            [html.H2(head), *paragraphs(details), *paragraphs(confidence, "soft")],
            className="verdict",
            style={"borderColor": stage_colour(verdict.stage)},
        ),
        *paragraphs(lines, "soft"),
        *warnings(notes),
        *grid_part(sections.stage_grid(report)),
        *paragraphs(sections.below_the_stages(report)),
        *paragraphs(rank_sections.group_lines(report)),
    ]


def rest_parts(report: Report) -> list[Any]:
    """The tables behind it, and what all of it stands on."""
    from dash import html

    every_rank = max(len(sections.rank_numbers(report)), 1)
    grids = [
        *sections.rank_grids(report, every_rank),
        *rank_sections.group_grids(report),
        sections.activity_grid(report, _MOST_ACTIVITIES),
        *graph_sections.graph_grids(report),
        sections.idle_grid(report),
        sections.other_cycles_grid(report),
    ]
    parts = [part for grid in grids for part in grid_part(grid)]
    lines = [
        *sections.coverage_lines(report),
        *rank_lines.clock_lines(report),
        *graph_sections.graph_lines(report),
        *sections.loss_lines(report),
    ]
    parts += [html.H2("What this stands on"), html.Ul([html.Li(line) for line in lines])]
    parts += grid_part(sections.file_grid(report))
    left_out = [html.Li(f"left out: {line}") for line in sections.listed_lines(report)]
    parts += [html.Ul(left_out)] if left_out else []
    if report.verdict.recapture:
        parts.append(html.H2(sections.recapture_lead(report)))
        parts.append(html.Pre("\n".join(clean_lines(report.verdict.recapture))))
    return parts
