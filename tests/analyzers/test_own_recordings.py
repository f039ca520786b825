"""Our own recordings, against the reference reading of ../shared/traces/own/shares.json."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import specscope
from specscope.analyzers import activities, attribution, cycles, stages
from specscope.analyzers import rank as ranks
from specscope.analyzers.report import Report
from specscope.analyzers.words import EVIDENCE
from tests.shared import shared_path

OWN = shared_path("traces", "own")
SHARES: dict[str, dict[str, Any]] = json.loads((OWN / "shares.json").read_text())
READ = [(name, int(rank)) for name, rows in SHARES.items() for rank in rows]
STAGES = ("verify", "draft", "draft_extend", "schedule")
HOOKED = [name for name in SHARES if "hooked" in name]

# CUDA events without a profiler: verify and draft of the cycle, medians of the per-cycle ratio,
# for the recordings whose server was measured so (same model, TP, batch and link).
EVENTS = {
    name: name.replace("eagle3-k3-", "").replace("-hooked", "").replace("-100cycles", "")
    for name in SHARES
    if not any(word in name for word in ("stack", "eager", "legacycar", "v1", "shapes"))
}


@cache
def report_of(name: str, evidence: tuple[str, ...] = EVIDENCE) -> Report:
    run = specscope.load(OWN / name, cache=False)
    return specscope.analyze(run, specscope.Options(evidence=evidence))


def percent(report: Report, rank: int, stage: str) -> dict[str, float]:
    row = report.share(stage, rank)
    if row is None:
        return {"total": 0.0, "work": 0.0, "of_it_collective": 0.0}
    return {
        "total": 100 * row.cycle_share.value,
        "work": 100 * row.work_share,
        "of_it_collective": 100 * row.collective_share,
    }


@pytest.mark.parametrize(("name", "rank"), READ)
def test_cycles_are_those_of_the_reference(name: str, rank: int) -> None:
    row = next(r for r in report_of(name).cycles if r.leads and r.rank == rank)
    reference = SHARES[name][str(rank)]
    assert row.count == reference["cycles"]
    assert row.median_ns / 1e6 == pytest.approx(reference["median_cycle_ms"], abs=0.001)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("name", "rank"), READ)
def test_stage_shares_are_those_of_the_reference(name: str, rank: int, stage: str) -> None:
    """Ranges: within half a point. Without: work within 1, total within 3."""
    found = percent(report_of(name), rank, stage)
    reference = SHARES[name][str(rank)].get(stage, {"total": 0, "work": 0, "of_it_collective": 0})
    hooked = name in HOOKED
    assert found["total"] == pytest.approx(reference["total"], abs=0.5 if hooked else 3)
    assert found["work"] == pytest.approx(reference["work"], abs=0.5 if hooked else 1)
    assert found["of_it_collective"] == pytest.approx(
        reference["of_it_collective"], abs=0.5 if hooked else 1
    )


@pytest.mark.parametrize(("name", "rank"), READ)
def test_idle_in_all_is_that_of_the_reference(name: str, rank: int) -> None:
    parts = report_of(name).tables["parts"].to_pylist()
    ns = {
        row["cycle"]: row["end_ns"] - row["start_ns"]
        for row in report_of(name).tables["cycles"].to_pylist()
        if row["rank"] == rank
    }
    idle = dict.fromkeys(ns, 0)
    for row in parts:
        if row["rank"] == rank and row["state"] == "idle":
            idle[row["cycle"]] += row["ns"]
    share = median(100 * idle[cycle] / ns[cycle] for cycle in ns)
    assert share == pytest.approx(SHARES[name][str(rank)]["idle"], abs=0.5)


@pytest.mark.parametrize("name", SHARES)
def test_nothing_is_unlinked(name: str) -> None:
    assert all(c.linked_ops == c.ops for c in report_of(name).coverage)


@pytest.mark.parametrize("name", [n for n in SHARES if "stack" not in n])
def test_stage_totals_agree_between_the_ranks(name: str) -> None:
    """Within 2 points, schedule 3, although their work differs by waiting."""
    report = report_of(name)
    for stage in STAGES:
        totals = [percent(report, c.rank, stage)["total"] for c in report.coverage]
        assert max(totals) - min(totals) <= (3 if stage == "schedule" else 2), stage


@pytest.mark.parametrize("evidence", [("structure",)])
@pytest.mark.parametrize(("name", "rank"), READ)
def test_structure_alone_comes_near_the_annotated_reading(
    name: str, rank: int, evidence: tuple[str, ...]
) -> None:
    """Work within 2 points, totals within 5, and the report says what it rests on."""
    alone, annotated = report_of(name, evidence), report_of(name)
    for stage in STAGES:
        a, b = percent(alone, rank, stage), percent(annotated, rank, stage)
        assert a["work"] == pytest.approx(b["work"], abs=2), stage
        assert a["total"] == pytest.approx(b["total"], abs=5), stage
    assert alone.verdict.evidence == ("structure",)
    assert alone.verdict.confidence in ("low", "none")


@pytest.mark.parametrize("rank", [0, 1])
def test_frames_alone_come_near_the_annotated_reading(rank: int) -> None:
    name = "tp2-8b-eagle3-k3-nvlink-bs1-stack"
    alone, annotated = report_of(name, ("frames",)), report_of(name, ("engine", "structure"))
    for stage in STAGES:
        a, b = percent(alone, rank, stage), percent(annotated, rank, stage)
        assert a["work"] == pytest.approx(b["work"], abs=2), stage
        assert a["total"] == pytest.approx(b["total"], abs=5), stage
    assert alone.verdict.evidence == ("frames",)


def test_two_cycles_give_figures_and_no_verdict() -> None:
    report = report_of("tp2-8b-eagle3-k3-nvlink-bs1-stack", ("frames",))
    assert report.share("verify") is not None
    assert report.verdict.share is None
    assert report.verdict.refused[0].startswith("2 whole speculation cycles")
    assert "start_profile" in report.verdict.recapture


@pytest.mark.parametrize("name", HOOKED)
def test_ranges_and_engine_marks_tell_the_same(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stage's total within 3 points of the truth (eager: 5); both columns are printed.

    A cycle of worker v1 holds its scheduling in draft by the ranges: the two go together.
    """
    truth, read = report_of(name), report_of(name, ("engine", "structure"))
    lines = []
    for coverage in truth.coverage:
        for stage in STAGES:
            a = percent(truth, coverage.rank, stage)["total"]
            b = percent(read, coverage.rank, stage)["total"]
            lines.append(f"{name} rank {coverage.rank} {stage:13s} {a:6.2f} {b:6.2f}")
            assert b == pytest.approx(a, abs=5 if "eager" in name else 3), lines[-1]
    with capsys.disabled():
        print("\n" + "\n".join(("recording, stage, by ranges, by engine and structure", *lines)))


def _events(name: str) -> list[list[dict[str, float]]]:
    files = sorted((OWN / "events-unprofiled").glob(f"{EVENTS[name]}-gpu*.json"))
    return [json.loads(path.read_text())[5:] for path in files]


@pytest.mark.parametrize("name", EVENTS)
def test_verify_and_draft_come_near_the_undisturbed_truth(name: str) -> None:
    rows = _events(name)
    assert rows, f"no events for {name}"
    report = report_of(name)
    for stage in ("verify", "draft"):
        truth = median(
            median(100 * cycle[f"{stage}_ms"] / cycle["cycle_ms"] for cycle in rank)
            for rank in rows
        )
        share = report.share(stage)
        assert share is not None
        assert 100 * share.cycle_share.value == pytest.approx(truth, abs=3), stage


@pytest.mark.parametrize("name", EVENTS)
def test_the_unprofiled_range_holds_the_undisturbed_share(name: str) -> None:
    rows = _events(name)
    truth = median(
        median(cycle["verify_ms"] / cycle["cycle_ms"] for cycle in rank) for rank in rows
    )
    row = report_of(name).share("verify")
    assert row is not None
    assert row.unprofiled is not None
    low, high = row.unprofiled
    assert low <= truth <= high


@pytest.mark.parametrize("name", SHARES)
def test_no_server_of_ours_reaches_95_percent(name: str) -> None:
    row = report_of(name).share("verify")
    assert row is not None
    assert row.cycle_share.value < 0.95
    assert "95 % or more of the cycle: yes" not in report_of(name).verdict.sentence


def test_prefill_makes_a_mixed_cycle_and_the_wait_after_it_an_outlier() -> None:
    """One cycle of 212 ms, one of 409 ms, and from there on batch 2 in rows of its own."""
    report = report_of("tp2-8b-eagle3-k3-nvlink-mixed-prefill")
    mine = [row for row in report.tables["cycles"].to_pylist() if row["rank"] == 0]
    assert len(mine) == 37
    mixed = [row for row in mine if row["kind"] == "mixed"]
    assert [round((row["end_ns"] - row["start_ns"]) / 1e6) for row in mixed] == [212]
    after = mine[mine.index(mixed[0]) + 1]
    assert round((after["end_ns"] - after["start_ns"]) / 1e6) == 409
    assert after["mark"] == "outlier"
    assert {row["batch"] for row in mine} == {1, 2}
    assert len({(row.kind, row.batch) for row in report.cycles}) >= 3


PLAIN_MS = {
    "tp2-70b-plain-nvlink-bs1": 19.64,
    "tp2-70b-plain-nvlink-bs8": 19.99,
    "tp2-70b-plain-shm-bs1": 21.33,
    "tp2-70b-plain-shm-bs8": 23.20,
    "tp2-8b-plain-nvlink-bs1": 3.24,
    "tp4-70b-plain-shm-bs1": 14.60,
}


@pytest.mark.parametrize("name", PLAIN_MS)
def test_plain_decode_says_so_and_gives_steps(name: str) -> None:
    report = report_of(name)
    # The reference starts a step with its graph, the design with the copies before it.
    match = re.match(
        r"No speculation in this trace: 8 decode steps, median ([\d.]+) ms\.",
        report.verdict.sentence,
    )
    assert match
    assert float(match[1]) == pytest.approx(PLAIN_MS[name], rel=0.02)
    assert not report.speculates
    assert report.verdict.share is None


@pytest.mark.parametrize(
    ("name", "rank", "ms"),
    [
        ("tp2-8b-eagle3-k3-nvlink-bs1-hooked", 0, 42.3),
        ("tp2-8b-eagle3-k3-nvlink-bs1", 0, 47.7),
        ("tp2-8b-plain-nvlink-bs1", 0, 55.0),
        ("tp4-70b-eagle3-k3-shm-bs1-hooked", 2, 43.3),
    ],
)
def test_the_first_cycle_that_waits_for_another_rank_is_warm_up(
    name: str, rank: int, ms: float
) -> None:
    rows = [r for r in report_of(name).tables["cycles"].to_pylist() if r["rank"] == rank]
    assert (rows[0]["end_ns"] - rows[0]["start_ns"]) / 1e6 == pytest.approx(ms, abs=0.1)
    assert rows[0]["mark"] == "warmup"


@pytest.mark.parametrize("name", SHARES)
def test_a_marked_cycle_is_marked_on_all_ranks(name: str) -> None:
    marks: dict[int, list[str]] = {}
    for row in report_of(name).tables["cycles"].to_pylist():
        marks.setdefault(row["rank"], []).append(row["mark"])
    first, *others = marks.values()
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    "name", sorted(p.name for p in OWN.iterdir() if (p / "meta.json").exists())
)
def test_parts_sum_to_the_cycle_on_every_recording(name: str) -> None:
    report = report_of(name)
    sums: dict[tuple[int, int], int] = {}
    for row in report.tables["parts"].to_pylist():
        key = (row["rank"], row["cycle"])
        sums[key] = sums.get(key, 0) + row["ns"]
    for row in report.tables["cycles"].to_pylist():
        assert sums[row["rank"], row["cycle"]] == row["end_ns"] - row["start_ns"]


def test_event_order_changes_nothing(tmp_path: Path) -> None:
    import gzip
    import random

    source = OWN / "tp2-8b-eagle3-k3-nvlink-bs1-stack" / "rank0.trace.json.gz"
    lines = gzip.decompress(source.read_bytes()).decode()
    trace = json.loads(lines, parse_float=lambda text: f"@{text}@")
    random.Random(7).shuffle(trace["traceEvents"])
    text = json.dumps(trace)
    path = tmp_path / "shuffled.json"
    path.write_text(re.sub(r'"@([^"@]*)@"', r"\1", text))
    rules = activities.load_rules()

    def parts(file: Path) -> list[dict[str, Any]]:
        one = ranks.prepare(specscope.load(file, cache=False).ranks[0], rules)
        placed = stages.place(one)
        assert placed is not None
        attributed = attribution.attribute(one, placed, cycles.cut(one, placed))
        rows = attribution.parts_table(attributed, attribution.sums(attributed)).to_pylist()
        return [dict(row) for row in rows]

    assert parts(path) == parts(source)
