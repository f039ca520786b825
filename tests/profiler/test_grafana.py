"""The Grafana dashboard and the page about metrics name what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope.dashboards.palette import STAGE_COLOURS
from specscope.profiler import metrics
from specscope.profiler.cycle_log_rows import Row
from tests.profiler.scraping import Samples, free_ports, page, parsed
from tests.profiler.test_metrics_tally import row
from tests.shared import needed

needed("prometheus_client")
ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "grafana" / "specscope.json").read_text("utf-8")
DASHBOARD: dict[str, Any] = json.loads(TEXT)
METRICS = (ROOT / "docs" / "metrics.md").read_text("utf-8")
# Names and types as real servers had them on their pages, and some more out of their sources.
ENGINES = json.loads((ROOT / "tests" / "data" / "engine_metrics.json").read_text("utf-8"))
PANELS = DASHBOARD["panels"]
NAME = re.compile(r"\b(?:specscope_|sglang:|vllm:)\w+")
# What stands before a selector or a range is a metric.
METRIC = re.compile(r"([A-Za-z_:][\w:]*)\s*(?=[{\[])")


def expressions() -> Iterator[str]:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.fixture(scope="module")
def ours() -> Samples:
    """A page on which everything is that there can be."""
    port = free_ports(1)
    sources = metrics.Sources(hooks=lambda: (1, 0), hook_ns=lambda: 1)
    exporter = metrics.Exporter(port, sources=sources)
    rows = [row("cycle", 0, 9, 1, batch=2).with_gpu(0, 9), row("verify", 0, 5, 1).with_gpu(0, 5)]
    exporter.take([*rows, *(row("verify", 9 * n, 9 * n + 5, n) for n in (2, 3, 4))])
    exporter.take([Row.accept(1, [2, 3], 0, 1)])
    exporter.poll(0, {"queue_full": 0})
    found = parsed(page(port))
    exporter.close()
    return found


def names_of_engines() -> set[str]:
    out = set()
    for engine in ENGINES.values():
        for name, kind in {**engine["page"], **engine["sources"]}.items():
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            out |= {f"{name}{end}" for end in ends}
    return out


def test_every_metric_of_the_dashboard_exists(ours: Samples) -> None:
    known = {name for name, _ in ours} | names_of_engines()
    for expression in expressions():
        names = set(NAME.findall(expression))
        assert names
        assert names <= known, expression
        assert set(METRIC.findall(expression)) <= names, expression


def test_every_metric_of_ours_is_shown_and_documented(ours: Samples) -> None:
    shown = {name for expression in expressions() for name in NAME.findall(expression)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in ours}
    assert families == {re.sub(r"_(bucket|sum|count)$", "", n) for n in shown if "specscope" in n}
    for family in families:
        assert f"`{family}`" in METRICS


def test_labels_of_ours_are_those_that_the_page_has(ours: Samples) -> None:
    labels = {name for _, pairs in ours for name, _ in pairs}
    assert labels == {"rank", "stage", "reason", "le"}
    for expression in expressions():
        for selector in re.findall(r"specscope_\w+\{([^}]*)\}", expression):
            used = set(re.findall(r"(\w+)\s*(?:=~|!=|=)\s*\"", selector))
            assert used <= labels | {"job"}, expression


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_takes_the_chosen_source_and_nothing_of_one_installation() -> None:
    for panel in PANELS:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    assert DASHBOARD["id"] is None
    assert "http" not in TEXT


def test_stages_have_the_colours_that_they_have_everywhere() -> None:
    for panel in PANELS:
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            if override["matcher"]["id"] != "byRegexp":
                continue
            stage = re.match(r"\^(\w+)", override["matcher"]["options"])
            assert stage is not None
            (colour,) = [p["value"]["fixedColor"] for p in override["properties"]]
            assert colour == STAGE_COLOURS[stage[1]]
