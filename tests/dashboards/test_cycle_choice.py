"""Other cycles on the page: which are inside, and that their figures are those of the tables."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from specscope.dashboards import html
from specscope.dashboards.cycle_choice import MOST_PARTS, listed, parts_by_cycle, same_cycles
from specscope.dashboards.cycle_slice import chosen_cycles, middle_cycle
from specscope.dashboards.html import html_page
from tests.build import Timeline
from tests.dashboards import reports

BLOCK = re.compile(r'<script type="application/json" data-(\w+)="(\w+)">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def page() -> str:
    return html_page(reports.bundled())


def blocks(text: str, kind: str) -> dict[str, Any]:
    return {name: json.loads(raw) for found, name, raw in BLOCK.findall(text) if found == kind}


def cycles(rank: int) -> dict[int, dict[str, Any]]:
    rows = reports.bundled().tables["cycles"].to_pylist()
    return {row["cycle"]: row for row in rows if row["rank"] == rank}


def test_the_median_the_first_the_slowest_the_fastest_and_outliers_are_whole() -> None:
    median = middle_cycle(reports.bundled(), 0)
    assert median is not None
    found = {one.number: one for one in listed(reports.bundled(), median, "the median")}
    assert set(found) == set(cycles(0))
    by_length = sorted(cycles(0).values(), key=lambda row: row["end_ns"] - row["start_ns"])
    fastest, slowest = by_length[0]["cycle"], by_length[-1]["cycle"]
    whole = {number for number, one in found.items() if one.whole}
    assert whole >= {median, 0, slowest, fastest}
    assert "the first" in found[0].why and "outlier" in found[0].why
    assert "the median" in found[median].why
    assert not all(one.whole for one in found.values())


def test_every_cycle_is_matched_to_the_one_on_the_other_rank_as_when_it_is_chosen() -> None:
    same = same_cycles(reports.bundled(), list(cycles(0)))
    for number, pairs in same.items():
        pieces = chosen_cycles(reports.bundled(), number)
        assert pairs == tuple((piece.rank, piece.number) for piece in pieces)


def test_the_parts_of_every_cycle_sum_to_its_length(page: str) -> None:
    every = blocks(page, "every")["parts"]
    assert every["cycles"].keys() == {str(number) for number in cycles(0)}
    same = same_cycles(reports.bundled(), list(cycles(0)))
    for number, found in every["cycles"].items():
        for place, (rank, own) in enumerate(same[int(number)]):
            row = cycles(rank)[own]
            total = sum(line[place] for line in found["x"])
            assert total == pytest.approx((row["end_ns"] - row["start_ns"]) / 1e6, abs=1e-9)


def test_every_part_stands_in_the_trace_of_its_name(page: str) -> None:
    every = blocks(page, "every")["parts"]
    figure = blocks(page, "target")["parts"]
    assert all(len(found["x"]) == len(figure["data"]) for found in every["cycles"].values())
    drawn = every["cycles"][str(every["drawn"])]
    assert [trace["x"] for trace in figure["data"]] == drawn["x"]
    assert [trace["customdata"] for trace in figure["data"]] == drawn["texts"]


def test_the_ops_of_the_cycles_inside_are_all_there(page: str) -> None:
    inside = blocks(page, "cycle")
    assert "0" in inside
    assert str(blocks(page, "every")["parts"]["drawn"]) not in inside
    for number, found in inside.items():
        pieces = chosen_cycles(reports.bundled(), int(number))
        bars = sum(len(trace["hovertext"]) for trace in found["figure"]["data"])
        assert bars == sum(len(piece.ops) + len(piece.calls) for piece in pieces)


def test_further_cycles_are_inside_only_as_far_as_there_is_room(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(blocks(page, "cycle")) >= 2
    limit = len(page.encode()) - 1
    monkeypatch.setattr(html, "MOST_BYTES", limit)
    smaller = html_page(reports.bundled())
    assert len(smaller.encode()) <= limit
    assert 1 <= len(blocks(smaller, "cycle")) < len(blocks(page, "cycle"))
    assert "<!-- further" not in smaller


def drawn_cycles(count: int) -> Any:
    """A run of so many whole cycles, and one that is cut."""
    t = Timeline()
    for c in t.cycles(count + 1, every=200):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 100)
        c.launch(2, 4, "nvjet_gemm", 6, 40)
        c.mark(f"specscope:verify|c={c.i}|b=1", 101, 190)
        c.launch(110, 112, "nvjet_gemm", 120, 180)
    return reports.of(t)


def test_of_very_many_cycles_the_list_holds_some_and_all_that_matter() -> None:
    report = drawn_cycles(400)
    found = listed(report, 390, "the median")
    assert len(found) == MOST_PARTS
    assert {0, 390} <= {one.number for one in found}
    same = same_cycles(report, [one.number for one in found])
    assert all(rows for rows in parts_by_cycle(report, same).values())


def test_a_run_of_one_cycle_offers_no_other() -> None:
    text = html_page(drawn_cycles(1))
    assert blocks(text, "target").keys() >= {"parts", "timeline"}
    assert blocks(text, "every") == {}
    assert '<select id="cycle-choice">' not in text
