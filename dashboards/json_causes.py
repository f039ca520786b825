"""The key `causes` of the JSON report: every cause, judged, with the figures it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specscope.analyzers.figures import words
from specscope.analyzers.report import Report
from specscope.dashboards.json_values import figure, text

if TYPE_CHECKING:
    from specscope.analyzers.causes import Finding

Json = dict[str, Any]


def causes_json(report: Report) -> list[Json] | None:
    """The key, or None without speculation."""
    if report.causes is None:
        return None
    return [_cause(one) for one in report.causes.findings]


def _cause(one: Finding) -> Json:
    return {
        "id": one.id,
        "title": one.cause.title,
        "state": one.state,
        "gain": figure(one.gain),
        "speed_up_after": figure(one.after),
        "signs": [text(line) for line in one.signs],
        "beside": [text(line) for line in one.beside],
        "against": [text(line) for line in one.against],
        "missing": [{"figure": name, "ask": words()[name].ask} for name in one.missing],
        "figures": {name: figure(value) for name, value in sorted(one.figures.items())},
        "mend": one.mend.advice if one.mend else None,
        "flags": [
            {
                "flag": step.flag.flag,
                "does": step.flag.does,
                "do": step.do,
                "text": text(step.text),
            }
            for step in one.steps
        ],
        "no_flag": text(one.no_flag) or None,
    }
