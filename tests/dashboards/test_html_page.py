"""The page: complete, inert, of bounded size, with the figures of the report."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from specscope.dashboards import html
from specscope.dashboards.cycle_slice import chosen_cycles, parts_of
from specscope.dashboards.figures import label, parts_figure, timeline_figure
from specscope.dashboards.html import html_page
from specscope.dashboards.palette import STAGE_COLOURS
from specscope.dashboards.sections import stage_names
from tests.dashboards import reports


class Page(HTMLParser):
    """Tags with their attributes, the text outside scripts, and the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            attributes, so_far = self.scripts[-1]
            self.scripts[-1] = (attributes, so_far + data)
        else:
            self.text.append(data)


@pytest.fixture(scope="module")
def bundled_page() -> str:
    return html_page(reports.bundled())


@pytest.fixture(scope="module")
def hostile_page() -> str:
    return html_page(reports.hostile())


def test_the_page_is_under_its_limit(bundled_page: str) -> None:
    assert len(bundled_page.encode()) < 8_000_000


def test_nothing_is_loaded_from_anywhere(bundled_page: str) -> None:
    for _, attributes in Page(bundled_page).tags:
        assert not {"src", "href", "srcset", "action", "data"} & set(attributes)


def test_only_the_scripts_of_the_page_may_run(hostile_page: str) -> None:
    page = Page(hostile_page)
    policy = next(
        str(attributes["content"])
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    running = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(running) == 3
    for script in running:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_names_are_text_and_never_markup(hostile_page: str) -> None:
    assert "<script>alert" not in hostile_page
    assert "<img src=x" not in hostile_page
    tags = {tag for tag, _ in Page(hostile_page).tags}
    assert tags <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "script",
            "body",
            "main",
            "div",
            "h1",
            "h2",
            "p",
        ),
        *("span", "br", "table", "tr", "th", "td", "ul", "li", "pre", "label", "select", "option"),
    }
    assert not any(
        name.startswith("on") for _, attributes in Page(hostile_page).tags for name in attributes
    )


def test_embedded_json_has_no_letters_that_could_end_it(hostile_page: str) -> None:
    data = [text for attributes, text in Page(hostile_page).scripts if "type" in attributes]
    assert len(data) == 5
    for text in data:
        json.loads(text)
        assert not set(text) & set("<>&\u2028\u2029")


def test_labels_of_plotly_hold_no_tags_of_a_trace() -> None:
    assert label("<b>x</b> & y") == "&lt;b&gt;x&lt;/b&gt; &amp; y"
    assert label("a" * 200).count("<br>") == 1


def test_the_verdict_and_every_stage_are_on_the_page(bundled_page: str) -> None:
    text = " ".join(Page(bundled_page).text)
    assert "Verify (accept included) takes" in text
    for stage in ("draft", "verify+accept", "draft-extend", "schedule"):
        assert stage in text


def test_the_parts_on_the_bar_sum_to_the_cycle() -> None:
    report = reports.bundled()
    pieces = chosen_cycles(report, None)
    figure = parts_figure(
        [(piece, parts_of(report, piece)) for piece in pieces], stage_names(report)
    )
    for index, piece in enumerate(pieces):
        assert sum(trace.x[index] for trace in figure.data) == pytest.approx(piece.ns / 1e6)


def test_a_stage_has_its_fixed_colour_on_both_figures() -> None:
    report = reports.bundled()
    pieces = chosen_cycles(report, None)
    timeline, _ = timeline_figure(pieces, stage_names(report))
    by_name = {trace.name: trace.marker.color for trace in timeline.data}
    assert by_name["draft"] == STAGE_COLOURS["draft"]
    assert by_name["verify+accept"] == STAGE_COLOURS["verify"]


def test_the_timeline_has_every_op_with_name_length_and_delay() -> None:
    report = reports.drawn("own_ranges_with_every_field")
    pieces = chosen_cycles(report, 1)
    figure, left_out = timeline_figure(pieces, stage_names(report))
    bars = [text for trace in figure.data for text in trace.hovertext]
    assert left_out == 0
    assert len(bars) == len(pieces[0].ops) + len(pieces[0].calls)
    assert any(re.search(r"nvjet.*<br>draft, gemm<br>4.0 us, 4.0 us after", text) for text in bars)


def test_a_page_leaves_out_the_shortest_bars_and_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(html, "MOST_BARS", 100)
    pieces = chosen_cycles(reports.bundled(), None)
    figure, left_out = timeline_figure(pieces, stage_names(reports.bundled()), 100)
    assert sum(len(trace.x) for trace in figure.data) == 100
    assert left_out == sum(len(piece.ops) + len(piece.calls) for piece in pieces) - 100
    assert f"The {left_out:,} shortest ops and calls are not drawn" in html_page(reports.bundled())


def test_a_page_draws_fewer_bars_until_it_is_under_its_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(html, "more_cycles", lambda *_: "")
    size = len(html_page(reports.bundled()).encode())
    monkeypatch.setattr(html, "MOST_BYTES", size - 300_000)
    page = html_page(reports.bundled())
    assert len(page.encode()) <= size - 300_000
    assert "are not drawn" in page


def test_a_trace_without_cycles_gives_a_page_without_figures() -> None:
    t = reports.Timeline()
    t.launch(1, 2, "kernel", 3, 4)
    page = html_page(reports.of(t))
    assert not [a for a, _ in Page(page).scripts if "type" in a]
    assert "No verdict" in page or "No speculation" in page


def test_a_run_on_the_cpu_has_its_bar_and_its_cycles() -> None:
    page = html_page(reports.drawn("vllm_on_cpu_is_partitioned_on_host_ranges"))
    drawn = [a["data-target"] for a, _ in Page(page).scripts if "data-target" in a]
    assert drawn == ["parts", "cycles"]


def test_a_view_without_data_says_why_on_the_page(hostile_page: str) -> None:
    text = " ".join(Page(hostile_page).text)
    assert "One rank was read: there is no other to wait for." in text


def test_the_text_stands_before_the_library_so_that_it_is_seen_at_once(bundled_page: str) -> None:
    assert bundled_page.index("<h1>") < bundled_page.index("</table>") < 100_000
    assert bundled_page.index("plotly.js v") > bundled_page.rindex("This page is complete")
