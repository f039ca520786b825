"""The inside of graphs as it is shown: terminal, page, issue text, JSON, tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import specscope.dashboards
from specscope.dashboards.graph_sections import graph_grids
from specscope.dashboards.html import html_page
from specscope.dashboards.json_report import as_json
from specscope.dashboards.layout import grid_width
from specscope.dashboards.markdown import markdown_text
from specscope.dashboards.parquet import write_tables
from specscope.dashboards.terminal import plain_report
from specscope.traces.schema import GRAPHS
from tests.analyzers.captures import Drawn, graph, report_of, served
from tests.build import ALL_REDUCE, GEMM
from tests.dashboards import reports

SCHEMA = Path(specscope.dashboards.__file__).with_name("report.schema.json")
TITLE = "Inside the draft graph (capture_4_draft): 57 nodes"


def valid(tree: Any) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(tree)


def test_the_terminal_shows_layers_parts_and_operators(
    golden: Callable[[str, str], None],
) -> None:
    golden("graph_capture.80.txt", plain_report(reports.with_captures()))


def test_page_and_issue_text_show_them_too() -> None:
    for text in (html_page(reports.with_captures()), markdown_text(reports.with_captures())):
        assert "Inside the draft graph (capture" in text
        assert "TinyAttention" in text


def test_without_capture_traces_nothing_is_shown_and_the_key_is_null() -> None:
    assert graph_grids(reports.bundled()) == []
    assert as_json(reports.bundled())["graphs"] is None
    assert "Inside" not in plain_report(reports.bundled())


def test_the_json_report_fits_the_schema() -> None:
    tree = as_json(reports.with_captures())
    valid(tree)
    graphs = tree["graphs"]
    assert (graphs["launches"], graphs["mapped_launches"]) == (25, 17)
    assert [row["launches"] for row in graphs["captured"]] == [9, 0, 8, 0]
    assert [row["stage"] for row in graphs["not_mapped"]] == ["accept"]


@pytest.mark.parametrize(
    "drawn",
    [
        (Drawn(),),
        (Drawn("", "vllm::unified_attention"),),
        (Drawn("M_0/DecoderLayer_0", "aten::mm"),),
    ],
)
def test_every_kind_of_layers_fits_the_schema(drawn: tuple[Drawn, ...]) -> None:
    valid(as_json(report_of(served([GEMM]), graph(*drawn))))


def test_the_tables_are_written_as_their_schemas_say(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    names = write_tables(reports.with_captures(), tmp_path)
    for name, schema in GRAPHS.items():
        assert f"{name}.parquet" in names
        assert pq.read_schema(tmp_path / f"{name}.parquet").names == schema.names
        assert reports.with_captures().tables[name].schema == schema


def test_grids_with_long_names_fit_80_columns() -> None:
    part, operator = f"{'P' * 90}_0", f"{'o' * 90}/{'i' * 90}"
    drawn = (Drawn(f"M_0/DecoderLayer_0/{part}", operator),) * 2
    report = report_of(served([ALL_REDUCE, GEMM]), graph(*drawn))
    assert all(len(line) <= 80 for line in plain_report(report).splitlines() if "P" * 9 in line)
    assert max(grid_width(grid) for grid in graph_grids(report)) > 80


def test_many_parts_and_operators_are_counted_in_the_last_row() -> None:
    drawn = [Drawn(f"M_0/DecoderLayer_0/Part{i}_0", f"op::{i}") for i in range(12)]
    report = report_of(served([GEMM] * len(drawn)), graph(*drawn))
    layers, operators = graph_grids(report)
    assert (layers.rows[-1].cells[0], operators.rows[-1].cells[0]) == ("4 more", "4 more")


def test_hostile_names_are_harmless() -> None:
    drawn = [
        Drawn(f"M_0/DecoderLayer_0/{name.replace('/', '')}_0", name.replace("/", ""))
        for name in reports.HOSTILE_NAMES
    ]
    report = report_of(served([GEMM] * len(drawn)), graph(*drawn, shape="capture_\x1b[31m\u202e"))
    text = plain_report(report)
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    page = html_page(report)
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    valid(as_json(report))
