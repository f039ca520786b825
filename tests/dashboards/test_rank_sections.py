"""All ranks together as they are shown: terminal, page, issue text, JSON, tables."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

import specscope
import specscope.dashboards
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.group_rows import Group
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.report import Report
from specscope.dashboards.html import html_page
from specscope.dashboards.json_report import as_json
from specscope.dashboards.markdown import escape, markdown_text
from specscope.dashboards.parquet import write_tables
from specscope.dashboards.rank_lines import clock_lines
from specscope.dashboards.rank_sections import group_grids, group_lines, wait_grid
from specscope.dashboards.terminal import console_for, plain_report, print_group
from specscope.traces.load import load
from specscope.traces.model_config import ModelWidth
from specscope.traces.schema import GROUP
from tests.dashboards import reports
from tests.shared import shared_path

SCHEMA = Path(specscope.dashboards.__file__).with_name("report.schema.json")
TITLE = "Collectives of all ranks a cycle: waiting and transferring"


def valid(tree: Any) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(tree)


@cache
def alone() -> Report:
    return specscope.analyze(load(reports.ROOT / reports.BUNDLED, rank=0, cache=False))


def group_of(report: Report) -> Group:
    assert report.group is not None
    return report.group


def test_every_medium_says_the_sentence_and_has_the_tables() -> None:
    report = reports.bundled()
    sentence = group_of(report).sentence
    assert sentence.startswith("The wire, not a late rank: transferring takes 23.4 % of the cycle")
    printed, marked, page = plain_report(report), markdown_text(report), unescape(html_page(report))
    assert sentence in " ".join(printed.split())
    assert escape(sentence) in marked
    assert sentence in page
    for text in (printed, marked, page):
        assert TITLE in text
        assert "What holds the cycle of all ranks back" in text
        assert "residual 0.6 us" in " ".join(text.split())


def test_the_shares_of_the_table_are_those_of_the_json_report() -> None:
    tree = as_json(reports.bundled())
    valid(tree)
    group = tree["group"]
    verify = next(r for r in group["stages"] if r["rank"] is None and r["stage"] == "verify")
    assert verify["calls"] == 162
    row = next(r for r in group_grids(reports.bundled())[0].rows if r.cells[0] == "verify+accept")
    assert row.cells[5] == f"{100 * verify['transfer_share']:.1f} %"
    assert group["collectives"] == {
        "matched": 1566, "by": "launch", "on_record": [1566, 1566], "left_out": [],
    }  # fmt: skip
    assert group["clocks"]["stage"] == "draft"
    assert group["first_cycle"]["cycle"] == 0


def test_one_rank_has_no_section_no_key_and_no_tables() -> None:
    assert as_json(alone())["group"] is None
    valid(as_json(alone()))
    assert (group_lines(alone()), group_grids(alone()), clock_lines(alone())) == ([], [], [])
    assert not set(GROUP) & set(alone().tables)
    assert "All ranks together" not in plain_report(alone())


def test_refused_ranks_say_why_and_fit_the_schema() -> None:
    public = shared_path("traces", "public")
    files = [public / f"2023-04-llm-train-rank{rank}of128.json.gz" for rank in (0, 1)]
    report = specscope.analyze(load(files, cache=False))
    tree = as_json(report)
    valid(tree)
    assert "cannot be aligned" in tree["group"]["refused"]
    assert tree["group"]["stages"] == []
    assert group_lines(report) == []
    assert "cannot be aligned" in " ".join(plain_report(report).split())


def test_where_nothing_takes_long_the_sentence_is_all_that_is_said() -> None:
    report = reports.bundled()
    group = group_of(report)
    quiet = tuple(replace(row, wait_share=0.001, transfer_share=0.001) for row in group.rows)
    assert group_grids(replace(report, group=replace(group, rows=quiet))) == []
    assert group_grids(report) != []


def test_of_many_ranks_the_latest_are_shown_and_the_rest_counted() -> None:
    report = reports.bundled()
    group = group_of(report)
    draft = next(row for row in group.rows if row.stage == "draft" and row.rank == 0)
    over = next(row for row in group.rows if row.stage == "draft" and row.rank is None)
    many = [replace(draft, rank=rank, lateness_share=rank / 2016) for rank in range(64)]
    grid = wait_grid(report, replace(group, rows=(over, *many)), 8)
    names = [row.cells[0] for row in grid.rows]
    assert names == ["draft", *(f"rank {rank}" for rank in range(56, 64)), "56 ranks less late"]


@pytest.mark.parametrize("name", GROUP)
def test_tables_are_written_in_their_schema(name: str, tmp_path: Path) -> None:
    assert f"{name}.parquet" in write_tables(reports.bundled(), tmp_path)
    found = pq.read_table(tmp_path / f"{name}.parquet")
    assert found.schema.names == GROUP[name].names
    assert found.schema.types == GROUP[name].types
    assert found.num_rows


def test_the_command_prints_every_rank() -> None:
    file = io.StringIO()
    print_group(reports.bundled(), console_for(file, 80))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  rank ") for line in lines) == 2 * 3
    assert any(line.startswith("! In the first cycle rank 0 waits") for line in lines)


def test_json_with_sizes_is_valid_by_the_schema() -> None:
    models = Models(ModelWidth(8192, 2))
    report = analyze(load(reports.ROOT / reports.BUNDLED, cache=False), Options(models=models))
    tree = as_json(report)
    valid(tree)
    assert tree["group"]["bandwidth"]["sizes"]


def test_json_has_the_intervals_and_exposed_against_hidden_communication() -> None:
    tree = as_json(reports.bundled())["group"]
    for row in tree["stages"]:
        for name in ("wait", "transfer"):
            low, high = row[f"{name}_interval_ns"]
            assert low <= row[f"{name}_ns"] <= high
            low, high = row[f"{name}_share_interval"]
            assert low <= row[f"{name}_share"] <= high
    shares = {(row["rank"], row["stage"]): row for row in as_json(reports.bundled())["stages"]}
    assert {row["stage"] for row in tree["communication"]} >= {"draft", "verify", "draft_extend"}
    for row in tree["communication"]:
        said = shares[row["rank"], row["stage"]]
        assert (row["exposed_ns"], row["hidden_ns"]) == (
            said["collective_ns"],
            said["hidden_collective_ns"],
        )


def test_the_command_shows_exposed_and_hidden_communication() -> None:
    file = io.StringIO()
    print_group(reports.bundled(), console_for(file, 80))
    lines = file.getvalue().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Communication a cycle"))
    assert lines[at + 1].split() == ["exposed", "share", "hidden", "behind", "compute"]
    hidden = next(line for line in lines[at:] if line.startswith("draft-extend"))
    assert hidden.endswith("1.0 us")


def test_a_share_that_moves_is_shown_by_its_interval() -> None:
    row = next(r for r in group_grids(reports.bundled())[0].rows if r.cells[0] == "verify+accept")
    assert row.cells[3] == "0.8-1.8 %"
    assert row.cells[5] == "22.3 %"  # its ends are the same whole percent
