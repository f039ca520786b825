"""Wait, transfer and clocks of our own recordings are those of the reference reading."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specscope
from specscope.analyzers.report import Report
from specscope.analyzers.words import DRAFT
from tests.shared import shared_path

OWN = shared_path("traces", "own")

# Matched per rank, offsets in us, then rank by rank wait and transfer a cycle in us, of verify and
# of the draft: medians over cycles 1 to 7, whatever their marks.
REFERENCE: dict[str, dict[str, Any]] = {
    "tp2-8b-eagle3-k3-nvlink-bs1": {
        "matched": 702,
        "offsets": [0.3],
        "verify": (66, [(25, 171), (185, 159)]),
        "draft": (8, [(6, 28), (37, 27)]),
    },
    "tp2-8b-eagle3-k3-legacycar-bs1-hooked": {
        "matched": 702,
        "offsets": [0.3],
        "verify": (66, [(807, 290), (23, 289)]),
        "draft": (8, [(357, 39), (2, 39)]),
    },
    "tp2-70b-eagle3-k3-nvlink-bs1": {
        "matched": 1566,
        "offsets": [0.1],
        "verify": (162, [(240, 405), (915, 427)]),
        "draft": (8, [(12, 28), (279, 28)]),
    },
    "tp2-70b-eagle3-k3-shm-bs8": {
        "matched": 1566,
        "offsets": [0.4],
        "verify": (162, [(1024, 8383), (45, 8320)]),
        "draft": (8, [(120, 197), (1, 199)]),
    },
    "tp4-70b-eagle3-k3-shm-bs1-hooked": {
        "matched": 1566,
        "offsets": [0.1, -0.2, -0.2],
        "verify": (162, [(148, 3194), (1184, 3171), (1081, 3203), (1221, 3199)]),
        "draft": (8, [(12, 140), (500, 138), (410, 138), (471, 140)]),
    },
    "tp4-70b-eagle3-k3-shm-bs8": {
        "matched": 1566,
        "offsets": [-0.1, -0.3, -0.5],
        "verify": (162, [(1440, 12882), (481, 13858), (953, 13494), (640, 13324)]),
        "draft": (8, [(269, 261), (199, 261), (315, 260), (12, 260)]),
    },
}
STAGES = [(name, stage) for name in REFERENCE for stage in ("verify", "draft")]


@cache
def report_of(name: str) -> Report:
    return specscope.analyze(specscope.load(OWN / name, cache=False))


def sums(report: Report, stage: str, column: str) -> list[float]:
    """Rank by rank: the median over cycles 1 to 7 of the sums, in us."""
    table = report.tables["matched_collectives"]
    stages = np.array(table["stage"].to_pylist())
    cycle = np.array([-1 if c is None else c for c in table["cycle"].to_pylist()])
    rank, values = np.array(table["rank"]), np.array(table[column])
    of_rank = []
    for one in sorted(set(rank.tolist())):
        mine = (rank == one) & (stages == stage)
        of_rank.append(
            float(np.median([values[mine & (cycle == n)].sum() for n in range(1, 8)])) / 1e3
        )
    return of_rank


@pytest.mark.parametrize("name", REFERENCE)
def test_all_collectives_of_all_ranks_match(name: str) -> None:
    group = report_of(name).group
    assert group is not None and group.measured is not None
    matched = group.measured.matched
    assert (len(matched), set(matched.total)) == (
        REFERENCE[name]["matched"],
        {REFERENCE[name]["matched"]},
    )
    assert matched.by == "launch"
    assert not matched.differing


@pytest.mark.parametrize("name", REFERENCE)
def test_clocks_of_one_host_are_those_of_the_reference(name: str) -> None:
    group = report_of(name).group
    assert group is not None and group.measured is not None
    assert (group.measured.clocks.stage, group.measured.clocks.used) == (DRAFT, 72)
    rows = report_of(name).tables["rank_clocks"].to_pylist()
    assert [round(row["offset_ns"] / 1e3, 1) for row in rows[1:]] == pytest.approx(
        REFERENCE[name]["offsets"], abs=0.1001
    )
    assert all(row["drift_ppm"] == 0 for row in rows)
    assert all(row["residual_ns"] < 1_000 for row in rows)


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_wait_and_transfer_are_those_of_the_reference(name: str, stage: str) -> None:
    """Wait within 15 % or 30 us, transfer within 5 % or 0.3 us a call."""
    calls, reference = REFERENCE[name][stage]
    waits = sums(report_of(name), stage, "wait_ns")
    transfers = sums(report_of(name), stage, "transfer_ns")
    assert len(waits) == len(reference)
    for (wait, transfer), found_wait, found_transfer in zip(
        reference, waits, transfers, strict=True
    ):
        assert found_wait == pytest.approx(wait, rel=0.15, abs=30)
        assert found_transfer == pytest.approx(transfer, rel=0.05, abs=0.3 * calls)


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_calls_a_cycle_are_those_of_the_reference(name: str, stage: str) -> None:
    group = report_of(name).group
    assert group is not None
    row = group.row(stage)
    assert row is not None and row.calls == REFERENCE[name][stage][0]


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_wait_and_transfer_sum_to_the_time_since_arrival(name: str, stage: str) -> None:
    """Needs no clock: from the ops table alone, and within 1 % of the reference's sums."""
    report = report_of(name)
    table = report.tables["matched_collectives"].to_pandas()
    ops = report.tables["ops"].to_pandas()
    for rank in sorted(set(table["rank"])):
        own = ops[ops["rank"] == rank].sort_values("start_ns", kind="stable")
        before = own.groupby("stream")["end_ns"].transform(lambda e: e.cummax().shift())
        arrival = np.fmax(own["start_ns"], before)
        spent = (own["end_ns"] - arrival).set_axis(own["op_id"])
        mine = table[(table["rank"] == rank) & (table["stage"] == stage)]
        expected = spent.loc[mine["op_id"]].to_numpy()
        assert (mine["wait_ns"] + mine["transfer_ns"]).to_numpy() == pytest.approx(expected, abs=2)


def test_transfer_is_a_property_of_the_wire() -> None:
    """It agrees between the ranks within 1 % for NCCL on two ranks, 8 % for a ring of four."""
    for name, apart in (
        ("tp2-70b-eagle3-k3-shm-bs8", 0.01),
        ("tp4-70b-eagle3-k3-shm-bs1-hooked", 0.012),
        ("tp4-70b-eagle3-k3-shm-bs8", 0.08),
        ("tp2-70b-eagle3-k3-nvlink-bs1", 0.07),
    ):
        values = sums(report_of(name), "verify", "transfer_ns")
        assert max(values) / min(values) - 1 <= apart, name


def test_the_ring_of_four_ends_apart_and_the_report_says_that_it_is_the_wire() -> None:
    group = report_of("tp4-70b-eagle3-k3-shm-bs8").group
    assert group is not None
    rows = [row for row in group.rows if row.stage == "verify" and row.rank is not None]
    skew = [row.end_skew_ns or 0.0 for row in rows]
    assert 2_000 < max(skew) - min(skew) < 8_000
    late = max(rows, key=lambda row: row.late_share or 0)
    assert (late.rank, late.cause) == (1, "previous")
    assert late.late_share == pytest.approx(0.8, abs=0.05)


def test_the_answer_of_the_story_is_one_sentence() -> None:
    """There the wire inside verify takes 44 % of the cycle, the draft's under 1 %."""
    group = report_of("tp4-70b-eagle3-k3-shm-bs8").group
    assert group is not None
    verify, draft = group.row("verify"), group.row("draft")
    assert verify is not None and draft is not None
    assert verify.transfer_share == pytest.approx(0.44, abs=0.01)
    assert draft.transfer_share < 0.01
    assert group.sentence.startswith("The wire, not a late rank: ")
    assert "under 1 % inside the draft" in group.sentence
    assert "the wire's doing" in group.sentence


def test_a_host_that_comes_late_is_named() -> None:
    group = report_of("tp2-8b-eagle3-k3-legacycar-bs1-hooked").group
    assert group is not None
    assert group.sentence.startswith("A late rank, not the wire: ")
    row = group.row("verify", 1)
    assert row is not None and row.cause == "host"
    assert row.lateness_share is not None and row.lateness_share > 0.9


def test_waiting_for_the_start_of_the_profiler_is_named_and_not_counted() -> None:
    report = report_of("tp2-8b-eagle3-k3-nvlink-bs1")
    group = report.group
    assert group is not None and group.first_cycle is not None
    first = group.first_cycle
    assert (first.cycle, first.rank, first.late_rank) == (0, 0, 1)
    assert 30e6 < first.wait_ns < 45e6
    assert 0 not in group.cycles
    assert any(note.code == "profiler_start" for note in report.warnings)


@pytest.mark.parametrize("name", REFERENCE)
def test_the_critical_path_sums_to_the_cycle_of_the_group(name: str) -> None:
    group = report_of(name).group
    assert group is not None and group.measured is not None
    paths = group.measured.paths
    assert paths is not None
    for number in range(len(paths.cycles)):
        mine = paths.cycle == number
        start, end = paths.start[mine], paths.end[mine]
        assert (start[0], end[-1]) == (paths.borders[number], paths.borders[number + 1])
        assert (start[1:] == end[:-1]).all()
        assert (end > start).all()


def test_a_rank_that_is_not_read_leaves_nobody_to_blame(tmp_path: Path) -> None:
    source = shared_path("traces", "own", "tp4-70b-eagle3-k3-shm-bs1-hooked")
    for rank in (1, 2, 3):
        (tmp_path / f"rank{rank}.trace.json.gz").symlink_to(source / f"rank{rank}.trace.json.gz")
    group = specscope.analyze(specscope.load(tmp_path, cache=False)).group
    assert group is not None
    assert group.sentence.startswith("Rank 0 of 4 is not read: waiting for it counts as")


def test_ends_that_are_not_the_collectives_refuse_wait_and_transfer() -> None:
    """Nsight ended the draft's first all-reduces where the kernel that overlaps them begins."""
    source = shared_path("traces", "own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1", "node.sqlite")
    group = specscope.analyze(specscope.load(source, cache=False)).group
    assert group is not None
    assert "before they begin on another" in group.refused
    assert not group.sentence


def test_a_rank_whose_file_ends_early_is_not_compared(tmp_path: Path) -> None:
    source = shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1")
    (tmp_path / "rank0.trace.json.gz").symlink_to(source / "rank0.trace.json.gz")
    whole = (source / "rank1.trace.json.gz").read_bytes()
    (tmp_path / "rank1.trace.json.gz").write_bytes(whole[: len(whole) // 2])
    group = specscope.analyze(specscope.load(tmp_path, cache=False)).group
    assert group is not None
    assert group.refused.startswith("the file of rank 1 ends early")
