"""Levers on own recordings: what must come out, and what was measured."""

from __future__ import annotations

import itertools

import pytest

import specscope
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.whatif import Asked, WhatIf, whatif
from tests.analyzers import own_replays

SHM, NVLINK = "tp2-70b-eagle3-k3-shm-bs8", "tp2-70b-eagle3-k3-nvlink-bs8"
TP4, SMALL = "tp4-70b-eagle3-k3-shm-bs8", "tp2-8b-eagle3-k3-nvlink-bs1"
LEVERS = (("draft-tp", 1.0), ("allreduce-speedup", 2.0))


def change(found: WhatIf, row: Prediction) -> tuple[float, float]:
    """By how much the cycle changes at both ends, in percent."""
    assert row.cycle_ns is not None
    assert found.corrected is not None
    low, high = (100 * (ns / found.corrected.cycle_ns - 1) for ns in row.cycle_ns)
    return low, high


@pytest.mark.parametrize(
    ("name", "shorter", "longer"), [(SMALL, 0.5, 4.0), (SHM, 0.9, 1.3), (TP4, 1.6, 3.3)]
)
def test_the_draft_on_one_gpu_hardly_changes_the_cycle(
    name: str, shorter: float, longer: float
) -> None:
    found = own_replays.asked_of(name, *LEVERS)
    low, high = change(found, found.asked[0])
    assert -shorter <= low <= high <= longer
    assert "the draft's compute decides" in found.asked[0].assumption


@pytest.mark.parametrize(("name", "least", "most"), [(SHM, 11, 13), (TP4, 21, 23)])
def test_a_faster_all_reduce_is_worth_what_it_takes_of_the_cycle(
    name: str, least: float, most: float
) -> None:
    found = own_replays.asked_of(name, *LEVERS)
    low, high = change(found, found.asked[1])
    assert least <= -high <= -low <= most
    assert found.ranked[0].lever == "allreduce-speedup"


def test_without_any_draft_collective_the_cycle_is_at_most_a_percent_shorter() -> None:
    found = own_replays.asked_of(SHM, *LEVERS)
    assert change(found, found.asked[0])[0] >= -1.0


def test_a_host_bound_server_is_told_to_mend_its_host_first() -> None:
    found = own_replays.asked_of(SMALL, *LEVERS)
    order = [row.lever for row in found.ranked if not row.refused]
    assert order[0] == "no-gaps"
    assert set(order[-2:]) == {"draft-tp", "allreduce-speedup"}


@pytest.mark.parametrize(
    ("name", "other", "error"),
    [
        (SHM, NVLINK, 0.03),
        (NVLINK, SHM, 0.03),
        ("tp2-70b-eagle3-k3-shm-bs1", "tp2-70b-eagle3-k3-nvlink-bs1", 0.03),
        (
            "tp2-8b-eagle3-k3-legacycar-bs1-hooked",
            "tp2-8b-eagle3-k3-nvlink-bs1-hooked",
            0.1,
        ),
    ],
)
def test_one_link_is_predicted_from_the_other(name: str, other: str, error: float) -> None:
    there = own_replays.report_of(other)
    found = whatif(own_replays.report_of(name), Asked((("transfers-from", 1),), there, other))
    (row,) = found.asked
    assert row.cycle_ns is not None
    assert there.unprofiled is not None
    assert row.cycle_ns[0] == pytest.approx(there.unprofiled.cycle_ns, rel=error)


def test_transfers_of_another_batch_are_refused() -> None:
    there = own_replays.report_of("tp2-70b-eagle3-k3-nvlink-bs1")
    found = whatif(own_replays.report_of(SHM), Asked((("transfers-from", 1),), there, "there"))
    assert "batch differ: 8 here, 1 in there" in found.asked[0].refused


def test_a_draft_that_is_a_graph_already_is_not_made_one() -> None:
    found = own_replays.asked_of(SMALL, ("draft-graph", 1.0))
    assert "as a graph already" in found.asked[0].refused


def test_an_eager_draft_would_be_shorter_as_a_graph() -> None:
    found = own_replays.asked_of("tp2-8b-eagle3-k3-eager-bs1-hooked", ("draft-graph", 1.0))
    low, high = change(found, found.asked[0])
    assert low < -5
    assert low < high <= 0


def test_another_batch_without_its_verify_cost_is_refused_with_what_to_give() -> None:
    found = own_replays.asked_of(SHM, ("batch", 2.0), ("draft-tokens", 6.0))
    assert all("--baseline" in row.refused for row in found.asked)


@pytest.mark.parametrize("lever", ["allreduce-speedup", "verify-speedup"])
def test_a_faster_lever_never_lengthens_the_cycle(lever: str) -> None:
    found = own_replays.asked_of(SHM, *LEVERS)
    rows = found.grid[lever]
    ends = [row.cycle_ns for row in rows if row.cycle_ns is not None]
    assert [float(row.value) for row in rows] == sorted(float(row.value) for row in rows)
    for earlier, later in itertools.pairwise(ends):
        assert later[0] <= earlier[0] * 1.0005
        assert later[1] <= earlier[1] * 1.0005


def test_no_lever_beats_its_bound() -> None:
    for name in (SHM, SMALL, TP4):
        for row in own_replays.asked_of(name, *LEVERS).ranked:
            if row.bound_ns is not None and row.cycle_ns is not None:
                assert row.bound_ns <= row.cycle_ns[0]


def test_as_many_steps_as_there_are_change_nothing() -> None:
    found = own_replays.asked_of(SHM, *LEVERS)
    assert found.curve is not None
    assert found.corrected is not None
    now = found.curve.rows[2]
    assert now.cycle_ns == pytest.approx((found.corrected.cycle_ns,) * 2)
    cycles = [row.cycle_ns[1] for row in found.curve.rows if row.cycle_ns is not None]
    assert cycles == sorted(cycles)
    assert "simulated by the server" in found.curve.basis


def test_with_a_baseline_a_verify_of_fewer_tokens_costs_at_least_the_plain_step() -> None:
    """Batch 4 lies half-way between the plain step's 8 tokens and the verify's 32."""
    inputs = Inputs(plain=own_replays.report_of("tp2-70b-plain-shm-bs8"))
    report = analyze(specscope.load(own_replays.OWN / SHM, cache=False), Options(inputs=inputs))
    found = whatif(report, Asked((("batch", 4.0), ("batch", 16.0))))
    assert report.throughput is not None
    line = report.throughput.verify_line
    assert line is not None
    half, outside = found.asked
    assert half.cycle_ns is not None
    assert found.corrected is not None
    now = found.corrected.cycle_ns
    # The host's time before verify does not shrink with it, so not quite all of it is gained.
    assert now - half.cycle_ns[0] == pytest.approx(24 * line.per_token_ns, rel=0.1)
    assert half.cycle_ns[1] == pytest.approx(now)
    assert "outside of those measured (8 to 32)" in outside.refused
    assert "steps" in {row.lever for row in found.ranked}


def test_steps_are_not_in_the_list_where_nobody_measured_what_a_token_costs() -> None:
    found = own_replays.asked_of(SHM, *LEVERS)
    assert found.curve is not None
    assert "steps" not in {row.lever for row in found.ranked}


def test_a_plain_run_has_no_draft_and_still_an_all_reduce() -> None:
    found = own_replays.asked_of("tp2-70b-plain-shm-bs8", *LEVERS)
    assert "no draft stage" in found.asked[0].refused
    low, _ = change(found, found.asked[1])
    assert -10 < low < -5
