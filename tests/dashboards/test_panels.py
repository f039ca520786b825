"""The views of a run and of all ranks: their data are the report's, or they say why."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.message_sizes import Models
from specscope.dashboards.cycle_slice import middle_cycle
from specscope.dashboards.figures_ranks import sizes_panel, skew_panel
from specscope.dashboards.figures_run import activity_panel, cycles_panel
from specscope.dashboards.palette import STAGE_COLOURS
from specscope.dashboards.panel import Panel
from specscope.traces.load import load
from specscope.traces.model_config import read_model_config
from tests.dashboards import reports
from tests.shared import shared_path

CYCLE = 4


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bundled recording with the sizes that its target's config gives."""
    config = tmp_path_factory.mktemp("model") / "config.json"
    config.write_text('{"hidden_size": 8192, "torch_dtype": "bfloat16"}')
    models = Models(read_model_config(config), None)
    run = load(reports.ROOT / reports.BUNDLED, cache=False)
    return specscope.analyze(run, specscope.Options(models=models))


@cache
def one_rank() -> Any:
    return specscope.analyze(load(reports.ROOT / reports.BUNDLED, rank=0, cache=False))


@cache
def case(name: str) -> Any:
    return specscope.analyze(load(shared_path("cases", name), cache=False))


def rows(report: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report.tables[name].to_pylist()
    return found


def points(panel: Panel) -> list[Any]:
    """The traces of a view whose points can be clicked."""
    assert panel.figure is not None
    return [trace for trace in panel.figure.data if trace.customdata is not None]


def test_every_cycle_is_a_point_with_its_length_and_its_number() -> None:
    drawn = {
        tuple(place): ms
        for trace in points(cycles_panel(reports.bundled()))
        for place, ms in zip(trace.customdata, trace.y, strict=True)
    }
    assert drawn == {
        (row["rank"], row["cycle"]): (row["end_ns"] - row["start_ns"]) / 1e6
        for row in rows(reports.bundled(), "cycles")
    }


def test_marked_cycles_have_a_shape_of_their_own() -> None:
    marks = {(r["rank"], r["cycle"]): r["mark"] for r in rows(reports.bundled(), "cycles")}
    assert "outlier" in marks.values()
    for trace in points(cycles_panel(reports.bundled())):
        for place, shape in zip(trace.customdata, trace.marker.symbol, strict=True):
            assert (shape == "x") == (marks[tuple(place)] == "outlier")


def test_of_too_many_cycles_the_longest_the_shortest_and_the_marked_stay() -> None:
    panel = cycles_panel(reports.bundled(), most=4)
    drawn = {tuple(place) for trace in points(panel) for place in trace.customdata}
    every = rows(reports.bundled(), "cycles")
    for rank in (0, 1):
        own = sorted(
            (r for r in every if r["rank"] == rank), key=lambda r: r["end_ns"] - r["start_ns"]
        )
        marked = {r["cycle"] for r in own if r["mark"]}
        assert {(rank, c) for c in (own[0]["cycle"], own[-1]["cycle"], *marked)} <= drawn
    assert f"{len(every) - len(drawn)} cycles are not drawn" in panel.note


def test_the_areas_are_the_activities_of_the_report() -> None:
    report = reports.bundled()
    (tree,) = activity_panel(report).figure.data
    values = dict(zip(tree.ids, tree.values, strict=True))
    assert {k: v for k, v in values.items() if "/" in k} == {
        f"{row.stage}/{row.activity}": row.ns / 1e6 for row in report.activities
    }
    colours = dict(zip(tree.ids, tree.marker.colors, strict=True))
    assert all(colours[name] == STAGE_COLOURS[name.split("/")[0]] for name in colours)
    assert set(tree.parents) - {""} <= set(tree.ids)


def test_the_waits_of_one_cycle_are_those_of_the_table() -> None:
    report = reports.bundled()
    figure = skew_panel(report, CYCLE).figure
    waits = figure.data[0]
    every = rows(report, "matched_collectives")
    own = [r["collective"] for r in every if r["rank"] == 0 and r["cycle"] == CYCLE]
    assert len(own) > 100
    for rank in (0, 1):
        table = {r["collective"]: r["wait_ns"] / 1e3 for r in every if r["rank"] == rank}
        assert list(waits.z[rank]) == [table[number] for number in own]


def test_the_late_rank_of_every_collective_is_marked_once() -> None:
    report = reports.bundled()
    drawn: Counter[int] = Counter()
    for trace in skew_panel(report, CYCLE).figure.data[1:]:
        drawn.update(trace.y)
        assert trace.marker.color in STAGE_COLOURS.values()
    every = rows(report, "matched_collectives")
    late = Counter(
        r["late_rank"]
        for r in every
        if r["rank"] == 0 and r["cycle"] == CYCLE and r["late_rank"] is not None
    )
    assert drawn == late and drawn


def test_sizes_and_transfers_are_those_of_the_table(sized: Any) -> None:
    figure = sizes_panel(sized).figure
    drawn = Counter(
        (size, us) for trace in figure.data for size, us in zip(trace.x, trace.y, strict=True)
    )
    assert drawn == Counter(
        (r["bytes"], r["transfer_ns"] / 1e3)
        for r in rows(sized, "matched_collectives")
        if r["bytes"] is not None and r["transfer_ns"] > 0
    )
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_of_too_many_collectives_some_are_drawn_and_it_is_said(sized: Any) -> None:
    panel = sizes_panel(sized, most=500)
    assert 250 <= sum(len(trace.x) for trace in panel.figure.data) <= 500
    assert "One in 6 of 2,720 is drawn" in panel.note


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        (lambda: skew_panel(one_rank(), CYCLE), "One rank was read"),
        (lambda: sizes_panel(one_rank()), "One rank was read"),
        (lambda: sizes_panel(reports.bundled()), "No message size is on record"),
        (lambda: skew_panel(reports.bundled(), 99), "No matched collective in cycle 99"),
        (lambda: skew_panel(reports.bundled(), None), "No whole cycle that all ranks have"),
        (lambda: activity_panel(case("b10_no_gpu_events.json")), "GPU"),
        (lambda: cycles_panel(without_cycles()), "No whole cycle"),
        (lambda: activity_panel(without_cycles()), "No whole cycle"),
    ],
)
def test_a_view_without_data_says_why(panel: Any, said: str) -> None:
    found = panel()
    assert found.figure is None
    assert said in found.empty


def without_cycles() -> Any:
    report = reports.bundled()
    tables = dict(report.tables)
    tables["cycles"] = tables["cycles"].slice(0, 0)
    return dataclasses.replace(report, tables=tables, activities=())


def test_a_view_with_data_says_how_to_read_it(sized: Any) -> None:
    cycle = middle_cycle(sized, 0)
    for panel in (
        cycles_panel(sized),
        activity_panel(sized),
        skew_panel(sized, cycle),
        sizes_panel(sized),
    ):
        assert panel.figure is not None and panel.note and not panel.empty


def test_hostile_names_are_no_markup_in_the_views() -> None:
    report = case("x01_hostile_names.json")
    for panel in (cycles_panel(report), activity_panel(report)):
        if panel.figure is not None:
            text = panel.figure.to_json()
            assert "<script" not in text and "<img" not in text


def test_ranks_that_do_not_correspond_say_so() -> None:
    public = shared_path("traces", "public")
    files = [public / f"2023-04-llm-train-rank{rank}of128.json.gz" for rank in (0, 1)]
    report = specscope.analyze(load(list(map(Path, files)), cache=False))
    assert "cannot be told from transferring" in skew_panel(report, 0).empty
