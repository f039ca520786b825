"""The notebook of the examples runs, and its reports and figures show themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.analyze import analyze
from specscope.dashboards.html import html_page
from specscope.dashboards.json_report import json_text
from specscope.dashboards.notebook_html import report_html
from specscope.dashboards.panel import Panel
from tests.build import Timeline
from tests.dashboards import reports

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = json.loads((ROOT / "examples" / "notebook.ipynb").read_text("utf-8"))
CODE = {one["id"]: "".join(one["source"]) for one in NOTEBOOK["cells"] if "outputs" in one}


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """What the last line of each cell is, by the cell's name; run where the notebook lies."""
    names: dict[str, Any] = {}
    values = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "examples")
        for name, text in CODE.items():
            *before, last = ast.parse(text).body
            assert isinstance(last, ast.Expr), f"the last line of {name} shows nothing"
            exec(compile(ast.Module(before, []), name, "exec"), names)
            values[name] = eval(compile(ast.Expression(last.value), name, "eval"), names)
    return values


def bundle(value: Any) -> dict[str, Any]:
    return dict(value._repr_mimebundle_(include=None, exclude=None))


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = [one for one in NOTEBOOK["cells"] if "outputs" in one]
    assert [(one["outputs"], one["execution_count"]) for one in cells] == [([], None)] * len(cells)


def test_the_report_shows_its_verdict_stages_and_causes(shown: dict[str, Any]) -> None:
    given = bundle(shown["report"])
    assert given["text/plain"].startswith("Verify (accept included) takes 90.2 % of the cycle")
    page = given["text/html"]
    for text in ("<h3>Verify (accept included) takes 90.2 %", "33.89 ms", "All-reduce latency"):
        assert text in page


def test_a_shown_report_is_small_and_loads_nothing(shown: dict[str, Any]) -> None:
    page = bundle(shown["report"])["text/html"]
    assert len(page) < 20_000
    for word in ("<script", "<style", "<link", "src=", "http"):
        assert word not in page


@pytest.mark.parametrize("name", ["parts", "skew"])
def test_a_figure_shows_itself_and_needs_no_network(
    name: str, shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.io

    panel = shown[name]
    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    given = bundle(panel)
    data = given["application/vnd.plotly.v1+json"]["data"]
    assert len(data) == len(panel.figure.data) > 0


def test_a_figure_that_cannot_be_drawn_says_why(shown: dict[str, Any]) -> None:
    assert shown["sizes"].figure is None
    assert "No message size is on record" in bundle(shown["sizes"])["text/html"]


def test_the_figures_are_those_of_the_page() -> None:
    report = reports.bundled()
    page = html_page(report)
    for name, panel in specscope.figures(report).items():
        assert (f'data-target="{name}"' in page) == (panel.figure is not None), name


def test_a_run_without_cycles_has_every_figure_with_its_reason() -> None:
    for panel in specscope.figures(reports.of(Timeline())).values():
        assert panel.figure is None
        assert panel.empty


def test_what_a_trace_says_is_text_in_a_notebook() -> None:
    page = report_html(reports.hostile())
    assert "<script" not in page
    words = bundle(Panel("x", "<b>", empty="<script>"))["text/html"]
    assert words == "<p>&lt;b&gt;: &lt;script&gt;</p>"


def test_the_shown_report_is_the_report() -> None:
    run = specscope.load(ROOT / "examples" / "tp2-70b-eagle3", cache=False)
    shown, plain = specscope.analyze(run), analyze(run)
    assert isinstance(shown, specscope.Report)
    assert json_text(shown, []) == json_text(plain, [])
    assert shown.tables.keys() == plain.tables.keys()
