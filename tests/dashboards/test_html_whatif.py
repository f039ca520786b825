"""What-if on the page: figures and sliders hold the numbers of `specscope whatif --json`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Baseline
from specscope.analyzers.whatif import WhatIf, whatif
from specscope.dashboards.figures_whatif import accept_panel, ranked_panel, steps_panel
from specscope.dashboards.html import html_page
from specscope.dashboards.html_whatif import whatif_data, whatif_section
from specscope.dashboards.json_report import as_json
from specscope.dashboards.json_whatif import whatif_json
from tests.dashboards import reports


@cache
def bundled() -> tuple[Report, WhatIf]:
    report: Report = reports.bundled()
    return report, whatif(report)


@cache
def document() -> dict[str, Any]:
    return whatif_json(bundled()[1])


def section(report: Report, found: WhatIf | None) -> str:
    return re.sub(r"<script.*?</script>", "", "\n".join(whatif_section(report, found)), flags=re.S)


def test_the_list_is_drawn_in_its_order_with_both_ends_of_each_range() -> None:
    figure = ranked_panel(bundled()[1]).figure
    assert figure is not None
    rows = [row for row in document()["ranked"] if not row["refused"]]
    assert len(rows) >= 4
    assert [list(trace.x) for trace in figure.data] == [row["tokens_per_second"] for row in rows]
    assert [trace.y[0].replace("<br>", " ") for trace in figure.data] == [
        row["title"] for row in rows
    ]
    assert figure.layout.shapes[0].x0 == document()["tokens_per_second"]


def test_without_a_rate_the_list_is_drawn_by_the_cycle() -> None:
    found = replace(bundled()[1], rate=None)
    figure = ranked_panel(found).figure
    assert figure is not None
    rows = [row for row in document()["ranked"] if not row["refused"]]
    assert [list(trace.x) for trace in figure.data] == [
        [ns / 1e6 for ns in row["cycle_ns"]] for row in rows
    ]
    assert "left of the upright one is a gain" in ranked_panel(found).note


def test_the_steps_are_a_band_between_both_ends_with_what_runs_now() -> None:
    report, found = bundled()
    panel = steps_panel(found, report.throughput)
    assert panel.figure is not None
    rows = document()["steps"]["rows"]
    low, high = panel.figure.data
    assert list(low.x) == [int(row["value"]) for row in rows]
    assert list(low.y) == [row["tokens_per_second"][0] for row in rows]
    assert list(high.y) == [row["tokens_per_second"][1] for row in rows]
    assert panel.figure.layout.shapes[0].x0 == as_json(report)["throughput"]["k"]
    assert "Break-even is not known" in panel.note


def test_with_a_plain_step_the_curves_show_where_speculation_breaks_even() -> None:
    report, found = bundled()
    assert report.throughput is not None
    known = replace(report.throughput, baseline=Baseline(20e6, "a measured step"))
    panel = accept_panel(found, known)
    assert panel.figure is not None
    points = document()["grid"]["accept-length"]
    (line,) = panel.figure.data
    assert list(line.x) == [point["value"] for point in points]
    assert list(line.y) == [point["tokens_per_second"][0] for point in points]
    upright = {shape.x0 for shape in panel.figure.layout.shapes}
    assert {float(f"{known.break_even:.9g}")} <= upright
    level = [shape.y0 for shape in panel.figure.layout.shapes if shape.y0 == shape.y1]
    assert level == [known.plain_tokens_per_second]
    assert "Under the dashed line speculation loses." in panel.note
    # Where the curve meets the level it breaks even (both cycles agree to 0.01 %).
    assert known.break_even * line.y[0] / line.x[0] == pytest.approx(level[0], rel=1e-3)


def test_the_sliders_read_the_grid_of_the_json_point_by_point() -> None:
    data = whatif_data(bundled()[1])
    compared = 0
    for name, points in document()["grid"].items():
        for point, own in zip(points, data["levers"][name]["points"], strict=True):
            assert {key: own[key] for key in point} == point
            compared += len(point)
    assert compared > 150
    assert data["cycle_ns"] == document()["cycle_ns"]


def test_every_lever_has_a_row_and_a_refused_one_says_why() -> None:
    report, found = bundled()
    text = section(report, found)
    assert set(found.grid) | set(found.unanswered) == {
        *("no-gaps", "allreduce-speedup", "draft-tp", "draft-graph", "verify-speedup"),
        *("steps", "accept-length", "batch", "draft-tokens"),
    }
    assert not set(found.grid) & set(found.unanswered)
    assert document()["unanswered"] == found.unanswered
    assert "cannot be told: the draft is launched as a graph already" in text
    assert text.count("cannot be told: what a verify costs by tokens") == 2
    assert text.count('type="range"') == sum(len(rows) > 1 for rows in found.grid.values()) == 4
    for rows in found.grid.values():
        assert rows[0].assumption[1:].replace("'", "&#x27;") in text


def test_a_run_of_which_nothing_can_be_predicted_says_why_and_has_no_slider() -> None:
    report, _ = bundled()
    text = section(report, WhatIf(refused=("no <whole> cycle",)))
    assert "Nothing can be predicted: no &lt;whole&gt; cycle." in text
    assert "range" not in text
    assert "specscope whatif PATH... says" in section(report, None)


@pytest.mark.parametrize(
    "name",
    ["vllm_on_cpu_is_partitioned_on_host_ranges", "own_ranges_with_every_field"],
)
def test_runs_on_the_cpu_or_of_one_rank_give_a_page_that_says_what_is_missing(name: str) -> None:
    report = reports.drawn(name)
    text = html_page(report, None, whatif(report))
    assert "What would help most" in text
    data = re.search(r'data-whatif="levers">(.*?)</script>', text)
    assert data is None or json.loads(data[1])["levers"]
