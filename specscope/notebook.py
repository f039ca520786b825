"""Reports that show themselves in a notebook. Drawing is imported when something is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specscope.analyzers.analyze import Options
from specscope.analyzers.analyze import analyze as _analyze
from specscope.analyzers.report import Report
from specscope.traces.run import Run

if TYPE_CHECKING:
    from specscope.dashboards.panel import Panel


@dataclass(frozen=True)
class ShownReport(Report):
    """A report that is its verdict, stages and causes where a notebook shows it."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from specscope.dashboards.notebook_html import report_html

        # As text one sentence: a notebook keeps that beside what it shows.
        return {"text/plain": self.verdict.sentence, "text/html": report_html(self)}


def analyze(run: Run, options: Options | None = None) -> Report:
    """The report of one run. Nothing is refused by an error: a verdict is, in words."""
    return ShownReport(**vars(_analyze(run, options)))


def figures(report: Report, cycle: int | None = None) -> dict[str, Panel]:
    """The figures of a report by name, as the page of `--html` has them; each shows itself.

    `.figure` of one is a Plotly figure, None where there is none: `.empty` then says why.
    `cycle` chooses the cycle that is drawn, else the one closest to the median.
    """
    from specscope.dashboards.panels import panels

    return panels(report, cycle)
