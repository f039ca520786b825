"""The one-file page in a real browser: quiet, complete, clickable, readable, reachable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope import exits
from specscope.analyzers.whatif import whatif
from specscope.cli import _group
from specscope.dashboards.html import html_page
from tests.dashboards import reports
from tests.dashboards.browser import Watched, chromium, contrast, luminance, watched
from tests.shared import needed

FIGURES = ("ranked", "steps", "accept", "parts", "timeline", "cycles", "activities", "skew")

_COLOURS = """(selector) => {
  let one = document.querySelector(selector);
  const style = getComputedStyle(one), front = one.closest('svg') ? style.fill : style.color;
  while (getComputedStyle(one).backgroundColor === 'rgba(0, 0, 0, 0)') one = one.parentElement;
  return [front, getComputedStyle(one).backgroundColor];
}"""

# Pairs of words of one figure that cover each other by more than a hair, and words cut off.
_CLASHES = """(figure) => {
  const words = [...document.querySelectorAll('#' + figure + ' text')]
    .filter(one => one.textContent.trim() && !one.closest('.trace, .modebar, .hoverlayer')
      && getComputedStyle(one).visibility !== 'hidden' && one.getBoundingClientRect().width > 0)
    .map(one => [one.textContent, one.getBoundingClientRect()]);
  const frame = document.getElementById(figure).getBoundingClientRect(), found = [];
  words.forEach(([text, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1) found.push('cut: ' + text);
    words.slice(i + 1).forEach(([other, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) found.push(text + ' / ' + other);
    });
  });
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One page for all tests: drawing it costs seconds."""
    report = reports.bundled()
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html_page(report, None, whatif(report)), "utf-8")
    with watched(browser) as one:
        one.page.goto(file.as_uri())
        one.until(
            "[...document.querySelectorAll('script[data-target]')]"
            ".every(one => document.getElementById(one.dataset.target).data)"
        )
        yield one
        assert one.complaints == []
        assert [url for url in one.requests if url != file.as_uri()] == []


@pytest.fixture
def page(opened: Watched) -> Watched:
    opened.page.emulate_media(color_scheme="light", media="screen")
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    return opened


def test_every_figure_is_drawn_without_complaint_or_request(page: Watched) -> None:
    for figure in FIGURES:
        assert page.page.evaluate(f"document.getElementById('{figure}').data.length > 0"), figure
    assert page.complaints == []
    assert len(page.requests) == 1
    assert reports.bundled().verdict.headline in page.text("h1")


def test_a_click_on_a_cycle_shows_its_kernels(page: Watched) -> None:
    before = page.text("#cycle-title")
    point = page.page.locator("#cycles .scatterlayer .trace .points path").nth(5)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.until("document.getElementById('cycle-title').innerText.endsWith('number 5')")
    assert before != page.text("#cycle-title")
    page.page.select_option("#cycle-choice", "0")
    page.until("document.getElementById('cycle-title').innerText.endsWith('number 0')")
    names = page.page.evaluate(
        "document.getElementById('timeline').data.flatMap(trace => trace.hovertext)"
    )
    ops = reports.bundled().tables["ops"]
    assert len(names) > 1000
    assert any("gemm" in name for name in names)
    assert ops.num_rows > len(names)


def test_on_a_grid_point_a_slider_shows_what_whatif_json_says(
    page: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = str(reports.ROOT / reports.BUNDLED)
    assert exits.call(_group, ["whatif", "--no-cache", "--json", recording]) == 0
    grid = json.loads(capsys.readouterr().out)["grid"]
    compared = 0
    for name, points in grid.items():
        if len(points) < 2:
            continue
        places = page.page.evaluate(f"document.getElementById('lever-{name}').max")
        step = int(places) // (len(points) - 1)
        for at, point in enumerate(points):
            low, high, how, rate = slide(page, name, at * step)
            assert (low, high, how) == (point["low"], point["high"], ""), (name, point)
            if point["tokens_per_second"]:
                ends = [f"{one:.0f}" for one in point["tokens_per_second"]]
                assert rate == " to ".join(dict.fromkeys(ends))
            compared += 1
    assert compared > 25


def test_between_two_points_it_says_interpolated_and_lies_between(page: Watched) -> None:
    at = {place: slide(page, "allreduce-speedup", place) for place in (4, 6, 8)}
    assert [at[place][2] for place in (4, 6, 8)] == ["", "interpolated", ""]
    assert at[8][0] < at[6][0] < at[4][0]
    assert at[6][0] == pytest.approx((at[4][0] + at[8][0]) / 2)


def slide(page: Watched, lever: str, place: int) -> tuple[float, float, str, str]:
    """Move a slider; low and high end of the cycle, how it is known, and the rate."""
    found = page.page.evaluate(
        """([lever, place]) => {
          const input = document.getElementById('lever-' + lever), row = input.closest('tr');
          input.value = place;
          input.dispatchEvent(new Event('input'));
          const text = part => row.querySelector(`[data-part=${part}]`).textContent;
          return [row.dataset.low, row.dataset.high, text('how'), text('rate')];
        }""",
        [lever, place],
    )
    return float(found[0]), float(found[1]), found[2], found[3]


def test_a_keyboard_reaches_the_sliders_and_moves_them(page: Watched) -> None:
    page.page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    reached = []
    for _ in range(80):
        page.page.keyboard.press("Tab")
        reached.append(page.page.evaluate("document.activeElement.id"))
        if reached[-1] == "cycle-choice":
            break
    assert [one for one in reached if one.startswith("lever-")] == [
        *("lever-allreduce-speedup", "lever-verify-speedup", "lever-steps", "lever-accept-length"),
    ]
    page.page.focus("#lever-steps")
    slide(page, "steps", 2)
    page.page.keyboard.press("ArrowRight")
    assert page.page.evaluate("document.getElementById('lever-steps').value") == "3"
    said = page.page.get_attribute("#lever-steps", "aria-valuetext")
    assert said.startswith("4 draft steps, ")
    assert page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable_in_text_and_figures(page: Watched, scheme: str) -> None:
    page.page.emulate_media(color_scheme=scheme)
    for selector in ("body", ".soft", "th", "#cycles .xtick text", "#ranked .annotation-text"):
        front, back = page.page.evaluate(_COLOURS, selector)
        assert contrast(front, back) > 4.5, selector
    assert luminance(back) < 0.2 if scheme == "dark" else luminance(back) > 0.8


@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})]
)
def test_axe_finds_nothing_against_its_rules(
    page: Watched, scheme: str, rules: dict[str, Any]
) -> None:
    axe = needed("axe_playwright_python.sync_playwright").Axe()
    page.page.emulate_media(color_scheme=scheme)
    found = axe.run(page.page, options=rules)
    assert found.response["passes"]
    assert [
        (one["id"], [node["html"][:120] for node in one["nodes"]][:3])
        for one in found.response["violations"]
    ] == []


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (1920, "screen"), (720, "print")])
def test_no_words_cover_others_and_nothing_is_cut(page: Watched, width: int, media: str) -> None:
    page.page.emulate_media(media=media)
    page.page.set_viewport_size({"width": width, "height": 900})
    page.page.wait_for_timeout(500)
    clashes = {figure: page.page.evaluate(_CLASHES, figure) for figure in FIGURES}
    assert {figure: found for figure, found in clashes.items() if found} == {}
    assert page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(html_page(reports.hostile()), "utf-8")
    with watched(browser) as one:
        one.page.goto(file.as_uri())
        one.until("document.getElementById('timeline').data")
        assert one.page.evaluate("document.querySelectorAll('img').length") == 0
        assert "</script><script>alert(1)" in one.page.evaluate(
            "document.getElementById('timeline').data.flatMap(t => t.hovertext).join(' ')"
            ".replaceAll('&lt;', '<').replaceAll('&gt;', '>')"
        )
        assert one.complaints == []
