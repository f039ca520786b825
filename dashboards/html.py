"""One page with the report that opens offline: Plotly is inside, nothing is ever requested.

Every text is escaped, data stands in JSON blocks without markup, and the page's own policy
lets no script run but the two written here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from string import Template
from typing import Final

from plotly.offline import get_plotlyjs

from specscope import __version__
from specscope.analyzers.report import Report
from specscope.dashboards import (
    cause_sections,
    graph_sections,
    rank_lines,
    rank_sections,
    sections,
    throughput_sections,
)
from specscope.dashboards.cycle_slice import CycleSlice, chosen_cycles
from specscope.dashboards.figures import MOST_BARS
from specscope.dashboards.figures_ranks import sizes_panel, skew_panel
from specscope.dashboards.figures_run import activity_panel, cycles_panel
from specscope.dashboards.html_blocks import bullets, escape, figure_block, table
from specscope.dashboards.html_cycle import DRAW, MORE, cycle_section, more_cycles
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.safe_text import clean, clean_lines

_MOST_ACTIVITIES: Final = 5
# A page stays below this; of it Plotly takes 4.8 MB.
MOST_BYTES: Final = 8_000_000
_FEWEST_BARS: Final = 100
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c1c1c; --soft: #5f5f5f; --line: #dddddd;
  --page: #ffffff; --card: #f6f6f4; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --soft: #a6a6a6;
  --line: #3a3a3a; --page: #161616; --card: #202020; } }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 68rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; }
p, ul { margin: .3rem 0; } ul { padding-left: 1.2rem; }
.soft { color: var(--soft); }
.verdict { border-left: 4px solid; padding: .2rem 0 .2rem 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font-weight: normal; color: var(--soft); text-align: right; }
td, th { padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid var(--line);
  text-align: right; white-space: nowrap; }
td.words, th.words { text-align: left; }
tr.part td { color: var(--soft); border-bottom-style: dotted; }
.swatch { display: inline-block; width: .7em; height: .7em; margin-right: .5em;
  border-radius: 2px; }
.inset { padding-left: 1.2em; }
.scroll { overflow-x: auto; }
pre { background: var(--card); padding: .7rem 1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.cause { font-weight: 600; margin-bottom: .2rem; }
.warning { background: var(--card); padding: .5rem 1rem; margin: .4rem 0; }
"""

_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="specscope $version">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
<p class="soft">specscope $version. This page is complete: it makes no network request.</p>
<script>$library</script>
<script>$draw</script>
</body>
</html>
""")


def html_page(report: Report, cycle: int | None = None) -> str:
    """The page; `cycle` chooses the cycle that is drawn, else the one closest to the median.

    Raises:
        UsageError: there is no such cycle.
        EvidenceError: a cycle was asked for and the trace has none.
    """
    pieces = chosen_cycles(report, cycle)
    bars = MOST_BARS
    while len((page := _page(report, pieces, cycle is not None, bars)).encode()) > MOST_BYTES:
        if bars < _FEWEST_BARS:
            break
        bars //= 2
    room = MOST_BYTES - len(page.encode())
    return page.replace(MORE, more_cycles(report, pieces, bars, room) if pieces else "")


def _page(report: Report, pieces: list[CycleSlice], asked: bool, bars: int) -> str:
    library = get_plotlyjs()
    head = clean(report.verdict.headline)
    return _PAGE.substitute(
        policy=_policy(library, DRAW),
        version=__version__,
        title=escape(f"{head} - specscope"),
        style=_STYLE,
        library=library,
        body="\n".join(_body(report, pieces, asked, bars)),
        draw=DRAW,
    )


def _policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is loaded from anywhere."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _body(report: Report, pieces: list[CycleSlice], asked: bool, bars: int) -> Iterator[str]:
    yield from _verdict(report)
    yield f'<p class="soft">{_facts(report)}</p>'
    if sections.notes(report):
        yield from _warnings(report)
    stages = sections.stage_grid(report)
    if stages is not None:
        yield table(stages)
        yield from (f"<p>{escape(line)}</p>" for line in sections.below_the_stages(report))
    given = throughput_sections.throughput_lines(report)
    if given:
        yield "<h2>What the cycle gives</h2>"
        yield bullets(given)
    for line in rank_sections.group_lines(report):
        yield f"<h2>All ranks together</h2><p>{escape(line)}</p>"
    yield from _causes(report)
    if pieces:
        yield from cycle_section(report, pieces, asked, bars)
    yield from _panels(report, pieces[0].number if pieces else None)
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
    yield from (table(grid) for grid in grids if grid is not None)
    yield "<h2>What this stands on</h2>"
    yield bullets(
        [
            *sections.coverage_lines(report),
            *rank_lines.clock_lines(report),
            *graph_sections.graph_lines(report),
            *sections.loss_lines(report),
        ]
    )
    files = sections.file_grid(report)
    if files is not None:
        yield table(files)
    yield bullets(f"left out: {line}" for line in sections.listed_lines(report))
    if report.verdict.recapture:
        call = "\n".join(clean_lines(report.verdict.recapture))
        yield f"<h2>{escape(sections.recapture_lead(report))}</h2><pre>{escape(call)}</pre>"


def _verdict(report: Report) -> Iterator[str]:
    """The first clause as a heading, the others under it."""
    verdict = report.verdict
    head, details = clean(verdict.headline), sections.verdict_details(report)
    if sections.is_withheld(report):
        head, details = "No verdict", [clean(reason) for reason in verdict.refused]
    colour = stage_colour(verdict.stage)
    yield f'<div class="verdict" style="border-color: {colour}"><h1>{escape(head)}</h1>'
    yield from (f"<p>{escape(line)}</p>" for line in details)
    if not verdict.refused:
        yield f'<p class="soft">Confidence {escape(sections.confidence_line(report))}.</p>'
    yield "</div>"


def _causes(report: Report) -> Iterator[str]:
    """The causes whose signs are in the run, then those that cannot be told."""
    if cause_sections.is_empty(report):
        return
    others = (*cause_sections.absent_lines(report), *cause_sections.open_lines(report))
    yield f"<h2>{escape(cause_sections.TITLE)}</h2>"
    yield from (f"<p>{escape(line)}</p>" for line in cause_sections.basis_lines(report))
    for block in cause_sections.cause_blocks(report):
        yield f'<p class="cause">{escape(block.head)}</p>'
        yield bullets(block.lines)
    yield from (f'<p class="soft">{escape(line)}</p>' for line in others)


def _facts(report: Report) -> str:
    found = sections.facts(report)
    known = ", ".join(f"{fact.label} {fact.text}" for fact in found if fact.text)
    unknown = [fact for fact in found if not fact.text]
    text = escape(known)
    if unknown:
        names = ", ".join(fact.label for fact in unknown)
        tell = "; ".join(dict.fromkeys(fact.tell for fact in unknown))
        text += f"<br>unknown: {escape(names)} ({escape(tell)})"
    return text


def _warnings(report: Report) -> Iterator[str]:
    for note in sections.notes(report):
        mend = f'<br><span class="soft">{escape(clean(note.mend))}</span>' if note.mend else ""
        yield f'<div class="warning">{escape(clean(note.text))}{mend}</div>'


def _panels(report: Report, cycle: int | None) -> Iterator[str]:
    """The other views; one that is empty says why."""
    for panel in (
        cycles_panel(report),
        activity_panel(report),
        skew_panel(report, cycle),
        sizes_panel(report),
    ):
        yield f"<h2>{escape(panel.title)}</h2>"
        words = panel.empty if panel.figure is None else panel.note
        yield f'<p class="soft">{escape(words)}</p>'
        if panel.figure is not None:
            yield from figure_block(panel.name, panel.figure)
