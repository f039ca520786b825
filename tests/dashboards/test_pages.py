"""The applications in a real browser: no error, no request elsewhere, and the figures move."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.live_log import LiveLog
from specscope.dashboards.app_guard import Access
from specscope.dashboards.app_runs import Shown
from specscope.dashboards.app_server import Application, served
from tests.analyzers.test_live_view import START, cycle_rows
from tests.dashboards.browser import Watched, chromium, contrast, luminance, watched
from tests.shared import needed, shared_path

needed("dash")
needed("duckdb")


# The colour of an element's text, and of what lies behind it.
_COLOURS = """(selector) => {
  let one = document.querySelector(selector);
  const front = getComputedStyle(one).color;
  while (getComputedStyle(one).backgroundColor === 'rgba(0, 0, 0, 0)') one = one.parentElement;
  return [front, getComputedStyle(one).backgroundColor];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


def shown(path: str | Path) -> Shown:
    run = Shown(Path(path).name, specscope.analyze(specscope.load(path)))
    run.prepare()
    return run


@pytest.fixture(scope="module")
def recorded() -> Iterator[str]:
    """The URL of the application over the bundled recording, twice."""
    from specscope.dashboards.dashboard_app import dashboard_app

    run = shown("examples/tp2-70b-eagle3")
    access = Access()
    with served(dashboard_app([run, Shown("again", run.report)], access)) as server:
        yield access.url(server.port)


@pytest.fixture(scope="module")
def opened(browser: Any, recorded: str) -> Iterator[Watched]:
    """One page for all tests that only look: opening one costs seconds."""
    with watched(browser) as one:
        one.page.goto(recorded)
        one.drawn("a-timeline")
        yield one


@pytest.fixture
def page(opened: Watched, recorded: str) -> Iterator[Watched]:
    """That page, as it is when it is opened."""
    opened.page.emulate_media(color_scheme="light")
    opened.page.evaluate("location.hash = '#a.run=0&a.cycle=1&a.from=0&a.to=1000'")
    opened.page.evaluate("location.hash = '#a.run=0&a.cycle=1'")
    opened.until(says("a-parts", "Cycle 1 of rank 0"))
    opened.until(says("a-timeline", "3,2"))
    yield opened
    assert opened.complaints == []
    own = recorded.partition("?")[0]
    assert [url for url in opened.requests if not url.startswith((own, "data:", "blob:"))] == []


def says(figure: str, text: str) -> str:
    """A script: does the line over that figure begin so?"""
    return f"(document.querySelector('#{figure}-says')?.innerText ?? '').startsWith('{text}')"


def axis(page: Watched, figure: str = "a-timeline") -> tuple[float, float]:
    found = page.page.evaluate(
        f"document.querySelector('#{figure} .js-plotly-plot').layout.xaxis.range"
    )
    return float(found[0]), float(found[1])


def test_the_page_shows_the_figures_of_the_report(page: Watched) -> None:
    report = specscope.analyze(specscope.load("examples/tp2-70b-eagle3"))
    page.until("document.querySelectorAll('#a-rest table').length > 3")
    assert report.verdict.headline in page.text("#a-head")
    assert "90.2 %" in page.text("#a-head")
    for figure in ("a-cycles", "a-parts", "a-timeline"):
        page.drawn(figure)
    assert "token=" not in page.page.url
    assert page.page.evaluate("document.querySelector('#b-side').hidden") is True


def test_a_zoom_reloads_the_detail(page: Watched) -> None:
    page.page.click("#a-whole")
    page.until("document.querySelector('#a-timeline-says').innerText.includes('a column is')")
    assert axis(page)[0] == 0
    first = page.text("#a-timeline-says")
    page.page.evaluate(
        "Plotly.relayout(document.querySelector('#a-timeline .js-plotly-plot'),"
        " {'xaxis.range[0]': 60, 'xaxis.range[1]': 62})"
    )
    page.until("document.querySelector('#a-timeline-says').innerText.includes('each one drawn')")
    assert page.text("#a-timeline-says") != first
    assert axis(page) == (60, 62)
    names = page.page.evaluate(
        "document.querySelector('#a-timeline .js-plotly-plot').data"
        ".flatMap(trace => trace.hovertext || [])"
    )
    assert any("gemm" in name for name in names)
    assert "a.from=60000000&a.to=62000000" in page.page.url


def test_a_cycle_that_is_clicked_is_chosen_and_shown(page: Watched) -> None:
    page.drawn("a-cycles")
    before = axis(page)
    page.page.evaluate(
        "document.querySelector('#a-cycles .js-plotly-plot')"
        ".emit('plotly_click', {points: [{curveNumber: 0, pointNumber: 5, x: 5, y: 37,"
        " customdata: 5, data: {}, fullData: {}}]})"
    )
    page.until("location.hash.includes('a.cycle=5')")
    page.until("document.querySelector('#a-parts-says').innerText.startsWith('Cycle 5 ')")
    page.until(
        f"document.querySelector('#a-timeline .js-plotly-plot').layout.xaxis.range[0] > {before[0]}"
    )
    page.page.click("#a-on")
    page.until("document.querySelector('#a-parts-says').innerText.startsWith('Cycle 6 ')")


def test_a_link_restores_the_view_and_a_keyboard_moves_it(browser: Any, recorded: str) -> None:
    link = "#a.run=0&a.rank=1&a.cycle=3&b.run=1&b.cycle=2"
    with watched(browser) as page:
        page.page.goto(recorded + link)
        page.drawn("b-timeline")
        page.until(
            "document.querySelector('#a-parts-says').innerText.startsWith('Cycle 3 of rank 1')"
        )
        page.until("document.querySelector('#b-parts-says').innerText.startsWith('Cycle 2 ')")
        assert page.page.evaluate("document.querySelector('#b-side').hidden") is False
        page.page.focus("#a-back")
        page.page.keyboard.press("Enter")
        page.until(
            "document.querySelector('#a-parts-says').innerText.startsWith('Cycle 2 of rank 1')"
        )
        page.page.keyboard.press("Tab")
        assert page.page.evaluate("document.activeElement.id") == "a-on"
        assert page.complaints == []


def test_sql_answers_by_keyboard(page: Watched) -> None:
    page.page.fill("#sql", "SELECT count(*) AS all_of_them FROM cycles")
    page.page.focus("#sql-ask")
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('#sql-answer').innerText.includes('all_of_them')")
    assert page.text("#sql-answer td") == "16"


def test_sql_that_reads_a_file_is_refused(page: Watched) -> None:
    page.page.fill("#sql", "SELECT * FROM read_text('/etc/passwd')")
    page.page.click("#sql-ask")
    page.until("document.querySelector('#sql-answer [role=alert]') !== null")
    assert "root:" not in page.text("#sql-answer")


def test_the_rows_of_a_figure_are_saved_as_csv(page: Watched) -> None:
    page.drawn("a-parts")
    with page.page.expect_download() as found:
        page.page.click("#a-parts-csv")
    text = Path(found.value.path()).read_text()
    assert text.splitlines()[0] == "rank,cycle,stage,state,what,ns"
    report = specscope.analyze(specscope.load("examples/tp2-70b-eagle3"))
    rows = [row for row in report.tables["parts"].to_pylist() if row["cycle"] == 1]
    assert len(text.splitlines()) == 1 + len(rows)


def test_figures_are_saved_as_png_and_svg(page: Watched) -> None:
    """By the camera that Plotly puts on each figure."""
    with page.page.expect_download() as found:
        page.page.click("#a-parts [data-title^='Download plot']")
    assert Path(found.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.page.expect_download() as found:
        page.page.click("#a-parts-svg")
    picture = Path(found.value.path()).read_text()
    assert picture.startswith("<svg")
    assert "gemm" in picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_both_readable(page: Watched, scheme: str) -> None:
    page.page.emulate_media(color_scheme=scheme)
    for selector in ("body", "textarea", "#a-run", "#a-cycle"):
        front, back = page.page.evaluate(_COLOURS, selector)
        assert contrast(front, back) > 4.5, selector
    assert luminance(back) < 0.2 if scheme == "dark" else luminance(back) > 0.8


def test_names_from_a_trace_are_text(browser: Any) -> None:
    from specscope.dashboards.dashboard_app import dashboard_app

    run = shown(shared_path("cases", "x01_hostile_names.json"))
    access = Access()
    with served(dashboard_app([run], access)) as server, watched(browser) as page:
        page.page.goto(access.url(server.port))
        page.drawn("a-timeline")
        page.page.fill("#sql", "SELECT DISTINCT name FROM ops")
        page.page.click("#sql-ask")
        page.until("document.querySelector('#sql-answer')?.innerText.length > 0")
        assert "<script>" in page.text("#sql-answer")
        assert page.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert page.complaints == []


def test_runs_without_ops_or_without_cycles_open_and_say_so(browser: Any) -> None:
    from specscope.dashboards.dashboard_app import dashboard_app

    cases = ("b10_no_gpu_events.json", "n01_kernel_names.json")
    runs = [shown(shared_path("cases", case)) for case in cases]
    access = Access()
    with served(dashboard_app(runs, access)) as server, watched(browser) as page:
        page.page.goto(access.url(server.port) + "#a.run=0&b.run=1")
        page.until(says("a-timeline", "There is no op in this run"))
        page.until(says("b-cycles", "There is no whole cycle"))
        page.until("document.querySelector('#b-head')?.innerText.length > 0")
        assert page.complaints == []


def test_the_live_page_follows_the_log(browser: Any, tmp_path: Path) -> None:
    from specscope.dashboards.live_app import live_app
    from specscope.profiler.cycle_log_writer import Identity, Pieces

    rng = random.Random(1)
    pieces = Pieces(
        tmp_path, Identity(0, 1, START, START, pid=1), piece_bytes=1 << 20, total_bytes=1 << 30
    )
    access = Access()
    application: Application = live_app(LiveLog(tmp_path, 300), "the log", access)
    with served(application) as server, watched(browser) as page:
        page.page.goto(access.url(server.port))
        page.until("document.body.innerText.includes('waiting for one')")
        pieces.write([row for number in range(20) for row in cycle_rows(number, rng, gpu=False)])
        page.until("document.body.innerText.includes('median of 19 cycles')")
        page.drawn("stages")
        pieces.write(
            [row for number in range(20, 30) for row in cycle_rows(number, rng, gpu=False)]
        )
        page.until("document.body.innerText.includes('median of 29 cycles')")
        assert page.complaints == []
        own = access.url(server.port).partition("?")[0]
        assert [url for url in page.requests if not url.startswith((own, "data:"))] == []
