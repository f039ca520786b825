"""The numbers on the page are those of the JSON report, and those of its figures are exact."""

from __future__ import annotations

import base64
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from specscope.dashboards.html import html_page
from specscope.dashboards.json_report import as_json
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import share_text, time_text
from tests.dashboards import reports


@pytest.fixture(scope="module")
def page() -> str:
    return html_page(reports.bundled())


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return as_json(reports.bundled())


def rows(page: str, title: str) -> list[list[str]]:
    """The table under a heading that begins so, without marks."""
    text = page[page.index(f"<h2>{title}") :]
    text = text[text.index("<table") : text.index("</table>")]
    return [
        [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<td.*?</td>", row)]
        for row in re.findall(r"<tr.*?</tr>", text)
    ]


def figure(page: str, name: str) -> list[dict[str, Any]]:
    found = re.search(rf'data-target="{name}">(.*?)</script>', page)
    assert found
    data: list[dict[str, Any]] = json.loads(found[1])["data"]
    return data


def numbers(value: Any) -> list[float]:
    """What Plotly packs as base 64, or lists."""
    if isinstance(value, dict):
        raw = base64.b64decode(value["bdata"])
        return [float(one) for one in np.frombuffer(raw, np.dtype(value["dtype"]))]
    return [float(one) for one in value]


def test_shares_and_times_of_stages_are_those_of_the_json(
    page: str, report: dict[str, Any]
) -> None:
    table = {cells[0]: cells for cells in rows(page, "Where the cycle goes") if cells}
    compared = 0
    for one in report["stages"]:
        cells = table.get(stage_name(one["stage"]))
        if one["rank"] is not None or one["part_of"] or cells is None:
            continue
        for key in ("work_ns", "idle_ns", "total_ns", "collective_ns"):
            assert time_text(one[key]) in cells, (key, one)
            compared += 1
        for key in ("cycle_share", "busy_share"):
            assert share_text(one[key]) in cells, (key, one)
            compared += 1
    assert compared >= 24


def test_every_cycle_on_the_figure_has_its_length_in_the_tables(page: str) -> None:
    lengths = {
        (row["rank"], row["cycle"]): (row["end_ns"] - row["start_ns"]) / 1e6
        for row in reports.bundled().tables["cycles"].to_pylist()
    }
    drawn = {}
    for trace in figure(page, "cycles"):
        for pair, y in zip(trace.get("customdata") or [], numbers(trace["y"]), strict=False):
            drawn[int(pair[0]), int(pair[1])] = y
    assert drawn == lengths
    assert len(drawn) >= 16


def test_activities_on_the_figure_are_the_rows_of_the_json(
    page: str, report: dict[str, Any]
) -> None:
    (tree,) = figure(page, "activities")
    drawn = dict(zip(tree["ids"], numbers(tree["values"]), strict=True))
    found = {f"{row['stage']}/{row['activity']}": row["ns"] / 1e6 for row in report["activities"]}
    assert len(found) > 20
    # Whole nanoseconds in the JSON, medians between two of them on the figure.
    assert {name: round(drawn[name] * 1e6) for name in found} == {
        name: round(ms * 1e6) for name, ms in found.items()
    }


def test_the_verdict_of_the_page_is_that_of_the_json(page: str, report: dict[str, Any]) -> None:
    text = unescape(page)
    assert report["verdict"]["sentence"].partition(" (its work")[0] in text
    assert share_text(report["verdict"]["share"]) in text
    for value in report["throughput"]["cycle_ns"], report["throughput"]["tokens_per_second"]:
        shown = time_text(value) if value > 1e6 else f"{value:,.1f} tokens/s"
        assert shown in text
