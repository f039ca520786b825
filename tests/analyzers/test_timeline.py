"""The timeline of a run: exact at every zoom."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import specscope
from specscope.analyzers.report import Report
from specscope.analyzers.timeline import BLOCKING, CLASSES, Lane, Timeline, timeline
from specscope.analyzers.words import STAGES
from tests.shared import shared_path

EXAMPLE = "examples/tp2-70b-eagle3"


@pytest.fixture(scope="module")
def report() -> Report:
    return specscope.analyze(specscope.load(EXAMPLE))


@pytest.fixture(scope="module")
def found(report: Report) -> Timeline:
    made = timeline(report)
    assert made is not None
    return made


def owners(lane: Lane) -> list[tuple[int, int, int]]:
    """The lane's time without overlaps, the slow way: the earlier keeps what two share."""
    out = []
    reach = -(1 << 62)
    for start, end, code in zip(lane.start, lane.end, lane.code, strict=True):
        low = max(int(start), reach)
        if end > low:
            out.append((low, int(end), int(code)))
        reach = max(reach, int(end))
    return out


def test_columns_are_exact_at_any_zoom(found: Timeline) -> None:
    rng = random.Random(5)
    for lane in found.lanes:
        pieces = owners(lane)
        for _ in range(6):
            low, high = sorted(rng.sample(range(-1000, found.length_ns + 1000), 2))
            edges = np.linspace(low, high, 8).astype(np.int64)
            ns = lane.shares(edges) * np.maximum(np.diff(edges), 1)
            for column, (left, right) in enumerate(itertools.pairwise(edges)):
                wanted = [0] * len(CLASSES)
                for start, end, code in pieces:
                    wanted[code] += max(0, min(end, int(right)) - max(start, int(left)))
                assert ns[:, column] == pytest.approx(wanted, abs=1e-3)


def test_the_columns_of_the_whole_run_hold_all_of_the_time(found: Timeline) -> None:
    edges = np.linspace(0, found.length_ns, 601).astype(np.int64)
    for lane in found.lanes:
        ns = (lane.shares(edges) * np.diff(edges)).sum()
        assert round(ns) == sum(end - start for start, end, _ in owners(lane))


def test_bars_are_the_ops_and_calls_that_touch_the_stretch(report: Report, found: Timeline) -> None:
    ops = report.tables["ops"].to_pylist()
    calls = {(row["rank"], row["call_id"]): row for row in report.tables["calls"].to_pylist()}
    low, high = found.length_ns // 3, found.length_ns // 3 + 2_000_000
    lanes = found.of(None)
    bars = [bar for bar in found.bars(lanes, low, high) if not lanes[bar.lane].on_host]
    wanted = []
    for op in ops:
        zero = found.zero[op["rank"]]
        start, end = op["start_ns"] - zero, op["end_ns"] - zero
        if start < high and end > low:
            call = calls.get((op["rank"], op["call_id"]))
            delay = None if call is None else op["start_ns"] - call["start_ns"]
            wanted.append((op["name"], op["stage"], op["activity"], start, end - start, delay))
    assert len(wanted) > 20
    shown = [
        (bar.name, CLASSES[bar.code], bar.activity, bar.start_ns, bar.ns, bar.delay_ns)
        for bar in bars
    ]
    assert sorted(shown) == sorted(wanted)
    assert found.count(lanes, low, high) >= len(bars)


def test_host_lanes_hold_the_launches_of_the_stretch_and_what_blocks(found: Timeline) -> None:
    lanes = found.of(0)
    bars = [bar for bar in found.bars(lanes, 0, found.length_ns) if lanes[bar.lane].on_host]
    kinds = {CLASSES[bar.code] for bar in bars}
    assert {"draft", "verify", "blocking"} <= kinds
    assert all(bar.delay_ns is None for bar in bars)
    assert any(bar.code == BLOCKING and "Synchronize" in bar.name for bar in bars)


def test_lanes_of_one_rank_are_its_own(found: Timeline) -> None:
    assert {lane.rank for lane in found.lanes} == {0, 1}
    assert {lane.rank for lane in found.of(1)} == {1}
    assert CLASSES[:BLOCKING] == STAGES


def test_ranks_lie_on_one_clock(report: Report, found: Timeline) -> None:
    """Collectives end on both ranks within microseconds there."""
    rows = report.tables["matched_collectives"].to_pylist()
    ends: dict[int, dict[int, int]] = {}
    ops = {(row["rank"], row["op_id"]): row["end_ns"] for row in report.tables["ops"].to_pylist()}
    for row in rows:
        end = ops[(row["rank"], row["op_id"])] - found.zero[row["rank"]]
        ends.setdefault(row["collective"], {})[row["rank"]] = end
    apart = [abs(one[0] - one[1]) for one in ends.values() if len(one) == 2]
    assert len(apart) > 100
    assert np.median(apart) < 5_000


def test_a_run_without_ops_has_no_timeline() -> None:
    path = shared_path("cases", "b10_no_gpu_events.json")
    assert timeline(specscope.analyze(specscope.load(path))) is None
