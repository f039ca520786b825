"""Several ranks together: the shared cases to the nanosecond, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.report import Report
from tests.shared import shared_path

CASES = shared_path("cases")
EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_text())
RANKS = [name for name in EXPECTED if name.endswith("(collectives)")]


def together(*files: Path) -> Report:
    return specscope.analyze(specscope.load(list(files), cache=False))


def case(name: str) -> Report:
    stem = name.split(maxsplit=1)[0]
    return together(*(CASES / f"{stem}_rank{rank}.json" for rank in (0, 1)))


@pytest.mark.parametrize("name", RANKS)
def test_wait_transfer_and_straggler_are_exactly_the_answer(name: str) -> None:
    rows = case(name).tables["matched_collectives"].to_pylist()
    assert len(rows) == 2 * len(EXPECTED[name])
    for answer in EXPECTED[name]:
        mine = {str(row["rank"]): row for row in rows if row["sequence"] == answer["seq"]}
        assert {rank: row["wait_ns"] for rank, row in mine.items()} == answer["wait_ns"]
        assert {rank: row["transfer_ns"] for rank, row in mine.items()} == answer["transfer_ns"]
        assert {row["late_rank"] for row in mine.values()} == {answer["straggler"]}


def test_the_offset_of_another_hosts_clock_is_exact() -> None:
    rows = case("r03_clock_skew").tables["rank_clocks"].to_pylist()
    assert [row["offset_ns"] for row in rows] == [0, 250_000]


def test_a_longer_compute_is_named_as_what_made_the_rank_late() -> None:
    rows = case("r01_straggler").tables["matched_collectives"].to_pylist()
    named = {row["sequence"]: (row["cause"], row["cause_ns"]) for row in rows}
    assert named[2] == ("compute", 11_500)
    assert named[3] == ("compute", 2_250)


def test_the_launch_call_and_the_op_before_are_named() -> None:
    report = case("r01_straggler")
    ops = {(row["rank"], row["op_id"]): row for row in report.tables["ops"].to_pylist()}
    rows = report.tables["matched_collectives"].to_pylist()
    for row in rows:
        own = ops[row["rank"], row["op_id"]]
        assert row["call_id"] == own["call_id"] is not None
    # The collectives have a stream of their own here: before each of them ran the last one.
    first = [row for row in rows if row["rank"] == 0]
    assert [row["before_op_id"] for row in first] == [None, *(r["op_id"] for r in first[:-1])]


def test_a_recorded_sequence_number_goes_before_the_order() -> None:
    group = case("r01_straggler").group
    assert group is not None and group.measured is not None
    assert group.measured.matched.by == "sequence"


def test_sampled_ranks_are_refused_with_the_reason() -> None:
    public = shared_path("traces", "public")
    report = together(*(public / f"2023-04-llm-train-rank{r}of128.json.gz" for r in (0, 1)))
    assert report.group is not None
    assert "sampled or filtered" in report.group.refused
    assert "matched_collectives" not in report.tables
    assert any(note.code == "ranks_not_aligned" for note in report.warnings)


def test_ranks_of_different_runs_are_refused() -> None:
    own = shared_path("traces", "own")
    first = own / "tp2-8b-eagle3-k3-nvlink-bs1" / "rank0.trace.json.gz"
    second = own / "tp2-70b-eagle3-k3-nvlink-bs1" / "rank1.trace.json.gz"
    report = together(first, second)
    assert report.group is not None
    assert "not one capture" in report.group.refused
    assert report.verdict.withheld


def test_one_rank_alone_includes_waiting_and_has_no_group() -> None:
    report = together(CASES / "r01_straggler_rank0.json")
    assert report.group is None
    assert "matched_collectives" not in report.tables
    note = next(note for note in report.warnings if note.code == "one_rank")
    assert "include waiting" in note.text


def test_two_groups_in_files_are_measured_each_by_itself(tmp_path: Path) -> None:
    """The straggler's case twice, as ranks 0 and 1 and as ranks 2 and 3 of a world of four."""
    files = []
    for number in range(4):
        tree = json.loads((CASES / f"r01_straggler_rank{number % 2}.json").read_text())
        group = [number // 2 * 2, number // 2 * 2 + 1]
        info = tree["distributedInfo"]
        info |= {"rank": number, "world_size": 4}
        info["pg_config"] = [
            {"pg_name": f"{group[0]}", "pg_desc": "tp", "pg_size": 2, "ranks": group}
        ]
        for event in tree["traceEvents"]:
            args = event.get("args", {})
            if "Process Group Name" in args:
                args["Process Group Name"] = f"{group[0]}"
            if isinstance(event.get("tid"), int) and event["tid"] > 1_000:
                event["tid"] += 10_000 * number
        files.append(tmp_path / f"rank{number}.json")
        files[-1].write_text(json.dumps(tree))
    report = together(*files)
    assert report.group is not None and not report.group.refused
    assert [one.title for one in report.group.parts] == ["tp (ranks 0-1)", "tp (ranks 2-3)"]
    rows = report.tables["matched_collectives"].to_pylist()
    assert len(rows) == 16
    for answer in EXPECTED[RANKS[0]]:
        for first in (0, 2):
            group_rows = [r for r in rows if r["sequence"] == answer["seq"]]
            mine = {str(r["rank"] - first): r for r in group_rows if r["rank"] - first in (0, 1)}
            assert {k: row["wait_ns"] for k, row in mine.items()} == answer["wait_ns"]
            assert {k: row["transfer_ns"] for k, row in mine.items()} == answer["transfer_ns"]
