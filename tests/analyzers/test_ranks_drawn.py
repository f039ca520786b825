"""Ranks drawn from one real rank: clocks, lateness and transfer come out as they were put in."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specscope
from specscope.analyzers import cycles, stages
from specscope.analyzers import rank as ranks
from specscope.analyzers.attribution import Attribution, attribute
from specscope.analyzers.words import DRAFT, VERIFY
from specscope.traces import schema
from tests.analyzers.drawn_ranks import (
    RULES,
    Delay,
    Distortion,
    Drawn,
    collectives_of,
    draw,
    tailed,
)
from tests.shared import shared_path

NAME = "tp2-70b-eagle3-k3-shm-bs8"
OFFSET_NS, DRIFT_PPM, JITTER_NS = 500_000, 50.0, 5_000


@cache
def source(name: str = NAME) -> Attribution:
    run = specscope.load(shared_path("traces", "own", name, "rank0.trace.json.gz"), cache=False)
    rank = ranks.prepare(run.ranks[0], RULES)
    placed = stages.place(rank)
    assert placed is not None
    return attribute(rank, placed, cycles.cut(rank, placed))


@cache
def places(stage: int) -> tuple[tuple[int, ...], ...]:
    """Collectives of one stage by whole cycle, in order."""
    one = source()
    rows = collectives_of(one)
    cycle = np.searchsorted(one.cycles.borders, one.rank.ops.start[rows], "right") - 1
    inside = one.placed.stage_of_op[rows] == stage
    return tuple(
        tuple(np.flatnonzero(inside & (cycle == number)).tolist())
        for number in range(len(one.cycles))
    )


def distortions(count: int, seed: int) -> list[Distortion]:
    random = np.random.default_rng(seed)
    return [
        Distortion(),
        *(
            Distortion(
                int(random.integers(-OFFSET_NS, OFFSET_NS)), random.uniform(-DRIFT_PPM, DRIFT_PPM)
            )
            for _ in range(count - 1)
        ),
    ]


def delays(stage: int, rank: int, ns: int, *, by_work: bool) -> list[Delay]:
    """The rank is late at every fourth collective of the stage."""
    return [Delay(i, rank, ns, by_work) for of in places(stage) for i in of[1::4]]


def check(drawn: Drawn, clocks: list[Distortion]) -> None:
    """Offsets within 2 us, transfer within 5 % a stage and rank, the path sums to the cycle."""
    group = drawn.group()
    assert not group.refused
    assert group.measured is not None
    found = group.measured.clocks
    at = np.array([found.middle_ns - drawn.attributed[0].rank.tables.facts["clock_base_ns"]])
    for clock, truth in zip(found.clocks, clocks, strict=True):
        offset = int((truth.seen(at, drawn.middle) - at)[0])
        assert clock.offset_ns == pytest.approx(offset, abs=2_000)
    times = group.measured.times
    assert times.wait.shape == drawn.wait.shape
    for stage in (DRAFT, VERIFY):
        mine = drawn.stage == stage
        true = drawn.transfer[:, mine].sum(axis=1)
        assert times.transfer[:, mine].sum(axis=1) == pytest.approx(true, rel=0.05)
    paths = group.measured.paths
    assert paths is not None
    sums = np.bincount(paths.cycle, weights=paths.ns).astype(np.int64)
    assert (sums == np.diff(paths.borders)).all()


@pytest.mark.parametrize("count", [2, 8, 64])
def test_clocks_and_transfer_come_out_as_they_were_put_in(count: int) -> None:
    clocks = distortions(count, seed=count)
    check(draw(source(), clocks, jitter_ns=JITTER_NS, seed=count), clocks)


@pytest.mark.parametrize("count", [2, 8, 64])
def test_scatter_of_the_times_as_recorded_does_no_harm(count: int) -> None:
    """Here the jitter is the profiler's: the times of every op are off by it."""
    clocks, late, ns = distortions(count, seed=count), 1, 100_000
    put_in = delays(VERIFY, late, ns, by_work=True)
    drawn = draw(source(), clocks, put_in)
    random = np.random.default_rng(5)
    for row, one in enumerate(drawn.attributed):
        ops = one.rank.ops
        off = [
            tailed(random, len(ops.start), JITTER_NS) * random.choice([-1, 1], len(ops.start))
            for _ in range(2)
        ]
        start = ops.start + off[0]
        shaken = replace(ops, start=start, end=np.maximum(ops.end + off[1], start))
        drawn.attributed[row] = attribute(replace(one.rank, ops=shaken), one.placed, one.cycles)
    check(drawn, clocks)
    group = drawn.group()
    assert group.measured is not None
    at = [delay.index for delay in put_in]
    assert (group.measured.times.late[at] == late).all()
    assert group.measured.times.late_ns[at].sum() == pytest.approx(ns * len(at), rel=0.05)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1 << 16),
    st.sampled_from([2, 8]),
    st.sampled_from([DRAFT, VERIFY]),
    st.integers(20_000, 400_000),
    st.booleans(),
)
def test_the_late_rank_and_its_lateness_come_out_as_they_were_put_in(
    seed: int, count: int, stage: int, ns: int, by_work: bool
) -> None:
    clocks = distortions(count, seed)
    late = seed % count
    put_in = delays(stage, late, ns, by_work=by_work)
    drawn = draw(source(), clocks, put_in, JITTER_NS, seed)
    check(drawn, clocks)
    group = drawn.group()
    assert group.measured is not None
    times = group.measured.times
    at = [delay.index for delay in put_in]
    assert (times.late[at] == late).all()
    true = drawn.arrival[:, at].max(axis=0) - np.median(np.delete(drawn.arrival[:, at], late, 0), 0)
    assert times.late_ns[at].sum() == pytest.approx(true.sum(), rel=0.05)
    row = group.row("verify" if stage == VERIFY else "draft", late)
    assert row is not None and row.lateness_share is not None
    assert row.lateness_share > 0.5
    if by_work:
        assert row.cause == "compute"


@pytest.mark.parametrize("stage", [DRAFT, VERIFY])
def test_lateness_that_is_put_in_appears_on_the_critical_path(stage: int) -> None:
    """The compute of the late rank on the path grows by what was put in, to the nanosecond."""
    ns, late = 100_000, 1
    put_in = delays(stage, late, ns, by_work=True)
    even = [Distortion(), Distortion(), Distortion()]
    found = []
    for delayed in ([], put_in):
        group = draw(source(), even, delayed).group()
        assert group.measured is not None and group.measured.paths is not None
        found.append(group.measured.paths)
    before, after = found
    assert len(before.cycles) == len(after.cycles)
    grown = np.diff(after.borders) - np.diff(before.borders)
    a_cycle = len(places(stage)[0][1::4])
    assert (grown == a_cycle * ns).all()
    delayed_on_path = (after.rank == late) & (after.stage == stage)
    for number in range(len(after.cycles)):
        own = after.ns[delayed_on_path & (after.cycle == number)].sum()
        assert own >= a_cycle * ns


def test_idle_of_the_device_is_told_from_work() -> None:
    put_in = delays(VERIFY, 0, 150_000, by_work=False)
    group = draw(source(), [Distortion(), Distortion(40_000)], put_in).group()
    row = group.row("verify", 0)
    assert row is not None and row.cause == "device"  # inside a graph nobody launches anew


def test_ranks_that_began_a_cycle_apart_are_matched_by_time() -> None:
    one = source()
    shorter = draw(one, [Distortion(), Distortion(300_000)])
    second = shorter.attributed[1]
    c = second.cycles
    cut = replace(
        c,
        start=c.start[1:],
        end=c.end[1:],
        host_start=c.host_start[1:],
        host_end=c.host_end[1:],
        number=c.number[1:],
        kind=c.kind[1:],
        batch=c.batch[1:],
        tokens=c.tokens[1:],
        k=c.k[1:],
        mark=c.mark[1:],
    )
    shorter.attributed[1] = attribute(second.rank, second.placed, cut)
    group = shorter.group()
    assert not group.refused
    assert group.measured is not None
    matched = group.measured.matched
    inside = matched.cycle[0] > 0
    assert (matched.cycle[0][inside] == matched.cycle[1][inside] + 1).all()
    assert group.measured.clocks.clocks[1].offset_ns == pytest.approx(300_000, abs=1)


def test_counts_that_differ_are_described_and_nothing_is_zipped() -> None:
    drawn = draw(source(), [Distortion(), Distortion()])
    second = drawn.attributed[1]
    lost = collectives_of(second)[places(VERIFY)[3][10]]
    activity = second.rank.activity.copy()
    activity[lost] = 0
    rank = replace(second.rank, activity=activity)
    drawn.attributed[1] = attribute(rank, second.placed, second.cycles)
    group = drawn.group()
    assert group.measured is not None
    matched = group.measured.matched
    assert len(matched.differing) == 1
    assert matched.differing[0].startswith("cycle 3, verify: rank 0 has ")
    stage_of_cycle = (matched.cycle[0] == 3) & (matched.stage == VERIFY)
    assert stage_of_cycle.sum() < len(places(VERIFY)[3])
    # What is left is matched with its own twin.
    assert (matched.op[0] == matched.op[1]).all()


def test_collectives_that_differ_everywhere_are_refused_with_the_counts() -> None:
    drawn = draw(source(), [Distortion(), Distortion()])
    second = drawn.attributed[1]
    activity = second.rank.activity.copy()
    activity[collectives_of(second)[[of[5] for of in places(VERIFY)]]] = 0
    activity[collectives_of(second)[[of[1] for of in places(DRAFT)]]] = 0
    rank = replace(second.rank, activity=activity)
    drawn.attributed[1] = attribute(rank, second.placed, second.cycles)
    refused = drawn.group().refused
    assert "do not correspond" in refused
    assert "rank 0 has" in refused


def test_ends_that_are_not_of_the_same_moments_are_refused() -> None:
    random = np.random.default_rng(3)
    drawn = draw(source(), [Distortion(), Distortion()])
    second = drawn.attributed[1]
    ops, rows = second.rank.ops, collectives_of(second)
    end = ops.end.copy()
    end[rows] += random.integers(0, 400_000, len(rows))
    rank = replace(second.rank, ops=replace(ops, end=end))
    drawn.attributed[1] = replace(second, rank=rank)
    assert "cannot be aligned" in drawn.group().refused


def test_too_few_collectives_are_refused_for_nothing_tells_clock_from_lateness() -> None:
    drawn = draw(source(), [Distortion(), Distortion(400_000)])
    kept = collectives_of(source())[[of[0] for of in places(VERIFY)[:3]]]
    for row, one in enumerate(drawn.attributed):
        activity = one.rank.activity.copy()
        rows = collectives_of(one)
        activity[rows[~np.isin(rows, kept)]] = 0
        rank = replace(one.rank, activity=activity)
        drawn.attributed[row] = attribute(rank, one.placed, one.cycles)
    assert "3 collectives are too few" in drawn.group().refused


def test_collectives_of_different_process_groups_are_never_matched() -> None:
    drawn = draw(source(), [Distortion(), Distortion()])
    for row, one in enumerate(drawn.attributed):
        rows = [
            {"op_id": int(op), "name": "allreduce", "group": "tp", "ranks": f"[{2 * row}]"}
            for op in collectives_of(one)
        ]
        tables = replace(
            one.rank.tables, collectives=pa.Table.from_pylist(rows, schema=schema.COLLECTIVES)
        )
        drawn.attributed[row] = replace(one, rank=replace(one.rank, tables=tables))
    assert "different process groups" in drawn.group().refused


def test_a_file_without_a_base_time_is_aligned_to_one_with_it() -> None:
    drawn = draw(source(), [Distortion(), Distortion(250_000)])
    second = drawn.attributed[1]
    tables = second.rank.tables
    base = tables.facts["clock_base_ns"]
    tables = replace(tables, facts=tables.facts | {"clock_base_ns": None})
    drawn.attributed[1] = replace(second, rank=replace(second.rank, tables=tables))
    group = drawn.group()
    assert group.measured is not None
    times = group.measured.times
    assert group.measured.clocks.clocks[1].offset_ns == pytest.approx(250_000 - base, abs=256)
    assert np.abs(times.transfer - drawn.transfer).max() <= 256


def test_a_wait_that_comes_in_some_cycles_only_has_an_interval_that_reaches_over_both() -> None:
    """Half of the cycles hold a late rank: the median alone says nothing."""
    late = [Delay(i, 1, 100_000) for of in places(VERIFY)[::2] for i in of[1::4]]
    group = draw(source(), [Distortion(), Distortion()], late).group()
    row, over = group.row("verify", 0), group.row("verify")
    assert row is not None and over is not None
    a_cycle = 100_000 * len(places(VERIFY)[0][1::4])
    assert row.wait_low_ns < 1_000
    assert row.wait_high_ns == pytest.approx(a_cycle, rel=0.01)
    assert row.wait_share_low < 0.001 < row.wait_share_high
    assert row.transfer_high_ns - row.transfer_low_ns < 0.1 * row.transfer_ns
    # Rank 1 never waits, so half of it is the median over the two.
    assert over.wait_high_ns == pytest.approx(a_cycle / 2, rel=0.01)


def test_a_clock_that_is_set_once_is_not_taken_for_one_that_drifts() -> None:
    """A step of 5 us in the middle, seen by every time of the second rank."""
    drawn = draw(source(), [Distortion(), Distortion(80_000)], jitter_ns=500)
    second = drawn.attributed[1]
    ops = second.rank.ops
    middle = drawn.middle + 80_000
    stepped = replace(
        ops,
        start=ops.start + np.where(ops.start > middle, 5_000, 0),
        end=ops.end + np.where(ops.end > middle, 5_000, 0),
    )
    drawn.attributed[1] = replace(second, rank=replace(second.rank, ops=stepped))
    group = drawn.group()
    assert group.measured is not None
    clock = group.measured.clocks.clocks[1]
    assert clock.drift_ppm == 0
    assert 80_000 <= clock.offset_ns <= 86_000


@pytest.mark.parametrize("ppm", [-50.0, 15.0])
def test_a_clock_that_drifts_is_still_found_to_drift(ppm: float) -> None:
    group = draw(source(), [Distortion(), Distortion(80_000, ppm)], jitter_ns=500).group()
    assert group.measured is not None
    assert group.measured.clocks.clocks[1].drift_ppm == pytest.approx(ppm, abs=1.5)
