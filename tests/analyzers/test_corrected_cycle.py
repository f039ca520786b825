"""The cycle without the profiler: one correction for throughput, causes and what would help."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import specscope
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.causes import judge
from specscope.analyzers.corrected_cycle import simple
from specscope.analyzers.corrected_parts import parts_of
from specscope.analyzers.replay import replay
from specscope.analyzers.report import Report
from specscope.analyzers.unprofiled import Reference
from specscope.analyzers.whatif import whatif
from specscope.analyzers.words import CAUSES
from specscope.dashboards import sections
from specscope.dashboards.json_report import as_json
from tests.analyzers import own_replays

SMALL = "tp2-8b-eagle3-k3-nvlink-bs1"
LONGER = "tp4-70b-eagle3-k3-shm-bs8"  # its profiled cycle is the shorter one


@cache
def with_cycle(name: str, cycle_ms: float) -> Report:
    run = specscope.load(own_replays.OWN / name, cache=False)
    return analyze(run, Options(Reference(cycle_ms=cycle_ms)))


@pytest.mark.parametrize("name", [SMALL, "tp4-70b-eagle3-k3-shm-bs1"])
def test_the_unchanged_replay_is_cut_as_the_recording_is(name: str) -> None:
    report, built = own_replays.report_of(name), own_replays.replay_of(name)
    time = replay(built.plan)
    rows = [row for row in report.shares if row.rank is None and row.part_of is None]
    # What the medians miss of the median cycle is put into idle: here nothing is to be missed.
    parts = parts_of(built, time, sum(row.work_ns + row.idle_ns for row in rows))
    assert [part.stage for part in parts.stages] == [row.stage for row in rows]
    for part in parts.stages:
        row = report.share(part.stage)
        assert row is not None
        assert part.work_ns == pytest.approx(row.work_ns, rel=1e-3, abs=1e3)
        assert part.idle_ns == pytest.approx(row.idle_ns, rel=1e-3, abs=1e3)
        recorded = {one.cause: one.ns for one in report.stage_idle if one.stage == part.stage}
        for cause, ns in zip(CAUSES, part.idle_by_cause, strict=True):
            assert ns == pytest.approx(recorded.get(cause, 0.0), rel=1e-3, abs=1e3)
    between = {one.cause: one.ns for one in report.stage_idle if one.stage == "between"}
    for cause, ns in zip(CAUSES, parts.between, strict=True):
        assert ns == pytest.approx(between.get(cause, 0.0), rel=1e-3, abs=1e3)


def test_predictions_are_made_on_the_replay_without_the_profiler() -> None:
    report = own_replays.report_of(SMALL)
    found = report.corrected
    assert found is not None
    assert report.throughput is not None
    assert found.method == "replay"
    assert not found.why
    assert sum(part.ns for part in found.stages) == pytest.approx(found.cycle_ns, rel=1e-9)
    assert {one.stage: one.ns for one in report.throughput.stages} == {
        part.stage: part.ns for part in found.stages
    }
    for one in report.throughput.stages:
        low, high = one.range_ns
        assert low <= one.ns <= high
    # The simple rule leaves verify idle that was the launch's own price under the profiler.
    recorded_ns = report.unprofiled.stretch * found.cycle_ns if report.unprofiled else 0.0
    even = simple(report.shares, found.cycle_ns, recorded_ns).part("verify")
    verify = found.part("verify")
    assert even is not None
    assert verify is not None
    assert verify.ns < 0.97 * even.ns


def test_whatif_starts_from_the_very_same_correction() -> None:
    report = own_replays.report_of(SMALL)
    assert report.corrected is not None
    assert whatif(report).corrected is report.corrected.replayed
    other = replace(report, unprofiled=with_cycle(SMALL, 6.54).unprofiled)
    again = whatif(other).corrected
    assert again is not None
    assert again.cycle_ns == pytest.approx(6.54e6, rel=1e-3)


def test_bounds_of_host_causes_take_the_idle_that_is_left() -> None:
    report = own_replays.report_of(SMALL)
    assert report.causes is not None
    assert report.corrected is not None
    part = report.corrected.part("verify")
    assert part is not None
    late = sum(part.idle_by_cause[CAUSES.index(cause)] for cause in ("host", "launch_call"))
    cycle = report.corrected.cycle_ns
    found = report.causes["C18"]
    assert found.gain == pytest.approx(cycle / (cycle - late))
    assert "verify.late.left.ms" in found.figures


def test_without_a_replay_the_recorded_idle_bounds_the_gain() -> None:
    recorded = judge({"cycle.ms": 10.0, "between.host.ms": 2.0})
    assert recorded["C13"].gain == pytest.approx(1.25)
    left = judge({"cycle.ms": 10.0, "between.host.ms": 2.0, "between.host.left.ms": 1.0})
    assert left["C13"].gain == pytest.approx(10 / 9)


def test_a_reference_longer_than_the_profiled_cycle_is_not_replayed_and_it_is_said() -> None:
    report = own_replays.report_of(LONGER)
    found = report.corrected
    assert found is not None
    assert report.throughput is not None
    assert (found.method, found.replayed) == ("simple", None)
    assert "no longer than that of meta.json" in found.why
    assert sum(part.ns for part in found.stages) == pytest.approx(found.cycle_ns, rel=1e-9)
    lines = " ".join(sections.unprofiled_lines(report))
    assert "work as recorded and of idle in proportion" in lines
    assert found.why in lines


def test_a_reference_shorter_than_the_work_gives_no_stages() -> None:
    report = with_cycle(SMALL, 3.0)
    assert report.corrected is not None
    assert report.corrected.method == "none"
    assert report.corrected.stages == ()
    assert "shorter than the GPU's work alone" in report.corrected.why
    assert report.throughput is not None
    assert report.throughput.stages == ()


def test_the_report_says_what_stretched_the_cycle() -> None:
    report = own_replays.report_of(SMALL)
    assert report.corrected is not None
    assert report.corrected.most is not None
    what, ns = report.corrected.most
    assert what == "graph launches"
    lines = sections.unprofiled_lines(report)
    assert lines[0].endswith(f"1.30 times that, most of it by {what} ({ns / 1e6:.2f} ms).")
    assert "replayed without the profiler's cost" in lines[1]


def test_json_has_the_stages_that_predictions_are_made_on() -> None:
    found = as_json(own_replays.report_of(SMALL))["corrected"]
    assert found["method"] == "replay"
    assert sum(row["ns"] for row in found["stages"]) == pytest.approx(found["cycle_ns"], abs=5)
    assert found["taken"][0]["what"] == "graph launches"
    assert np.isclose(sum(row["cycle_share"] for row in found["stages"]), 1, atol=1e-5)
    plain = as_json(own_replays.report_of("tp2-8b-plain-nvlink-bs1"))
    assert plain["corrected"] is None
