"""Two runs beside each other: the answers of the drawn cases, and what own recordings must show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import specscope
from benchmarks.compare_errors import WAYS, measure, pick, resampled
from specscope.analyzers import compare_against, compare_report, compare_rows
from specscope.analyzers.activities import load_rules
from specscope.analyzers.compare import compare
from specscope.analyzers.compare_ops import Key
from specscope.analyzers.compare_series import series
from specscope.traces.load import load
from tests.analyzers.comparisons import case, changed, cycles_of, of_cases, of_own, own, report

BUNDLED = Path(__file__).resolve().parents[2] / "examples" / "tp2-70b-eagle3"

# The drawn cases.


def test_a_slower_verify_is_a_difference_of_its_size_and_nothing_else_is() -> None:
    found = of_cases("c01_base", "c01_slower")
    verify = changed(found, "verify")
    assert (verify.change, verify.differs) == (1_500_000, True)
    assert verify.relative == pytest.approx(0.075, abs=0.0001)
    assert changed(found, "verify.gemm").a == 20_000_000
    assert changed(found, "draft").change == 0
    assert changed(found, "cycle").change == 1_500_000
    assert {row.name for row in found.rows if row.differs} == {
        *("cycle", "verify", "verify.gemm", "verify.gemm.gemm.by_word")
    }
    assert found.headline.startswith("A difference: the cycle of B is 7.2 % longer")
    assert "verify gemm +1.50 ms (+7.5 %)" in found.headline


def test_the_call_in_python_gives_the_same() -> None:
    found = specscope.compare(case("c01_base"), case("c01_slower"))
    assert found.rows == of_cases("c01_base", "c01_slower").rows


def test_noise_of_the_same_speed_is_no_difference() -> None:
    found = of_cases("c01_base", "c01_noise")
    assert changed(found, "verify").change == 30_000
    assert not found.differs
    assert found.headline.startswith("No difference beyond noise")


def test_a_run_against_itself_is_all_zero() -> None:
    with np.errstate(all="raise"):
        found = of_cases("c01_base", "c01_base")
    assert all(row.change == 0 and row.relative == 0 for row in found.rows)
    assert not found.differs
    assert not found.kernels
    assert found.headline == "A and B are the same traces: every change is 0"


def test_every_row_says_what_change_it_could_show() -> None:
    for other in ("c01_slower", "c01_noise"):
        for row in of_cases("c01_base", other).rows:
            assert row.least is not None
            assert row.least > 0
            low, high = row.interval
            assert low <= row.change <= high
            assert row.differs <= (low > 0 or high < 0)


def test_exchanged_runs_change_the_sign_alone() -> None:
    there, back = of_cases("c01_base", "c01_slower"), of_cases("c01_slower", "c01_base")
    for row in there.rows:
        twin = changed(back, row.name)
        assert (twin.change, twin.differs) == (-row.change, row.differs)


def test_fewer_than_three_cycles_give_no_verdict_and_the_figures_all_the_same() -> None:
    found = of_cases("a07_item_sync", "c01_base")
    assert found.headline == "No verdict"
    assert found.refused == ("A has 1 steady whole cycle, 3 are needed",)
    assert not found.differs
    assert changed(found, "cycle").a == 125_000
    assert all(row.least is None and row.p is None for row in found.rows)


def test_three_cycles_a_side_cannot_show_any_difference_and_say_so() -> None:
    first = np.arange(3)
    a, b = (pick(series(case(name), load_rules()), first) for name in ("c01_base", "c01_slower"))
    rows, _, tested = compare_rows.rows(a, b, verdict=True)
    assert tested is None
    assert not any(row.differs for row in rows)


def test_a_kernel_that_only_b_runs_is_new_and_has_its_full_name() -> None:
    found = of_cases("a01_plain", "n01_kernel_names")
    new = {one.name: one for one in found.kernels if one.side == "b"}
    name = next(one for one in new if one.startswith("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"))
    assert (new[name].stage, new[name].activity) == ("verify", "collective")
    assert new[name].family == "nccl.allreduce"
    gone = [one.name for one in found.kernels if one.side == "a"]
    assert "void gemm_bf16_kernel<128, 64>(Params)" in gone


def test_another_kernel_for_the_same_work_is_marked_as_its_replacement() -> None:
    found = of_cases("a01_plain", "n01_kernel_names")
    by_place = {(one.stage, one.activity): one.replaces for one in found.kernels}
    assert by_place["verify", "gemm"] is True
    assert by_place["verify", "moe"] is False


# Own recordings.


def test_another_all_reduce_is_found_in_its_kernels_and_in_its_transfer() -> None:
    found = of_own("tp2-8b-eagle3-k3-nvlink-bs1-hooked", "tp2-8b-eagle3-k3-legacycar-bs1-hooked")
    assert changed(found, "verify.transfer").differs
    assert 0.6 < changed(found, "verify.transfer").relative < 0.9
    assert changed(found, "verify.collective").differs
    assert changed(found, "collectives").change == 0
    sides = {one.side: one.name for one in found.kernels if one.stage == "verify"}
    assert "all_reduce_one_shot" in sides["a"]
    assert "cross_device_reduce_1stage" in sides["b"]
    assert all(one.replaces for one in found.kernels)


def test_a_slow_link_is_transferring_not_waiting() -> None:
    found = of_own("tp2-70b-eagle3-k3-shm-bs8", "tp2-70b-eagle3-k3-nvlink-bs8")
    assert "link shm against nvlink" in found.openings[0]
    transfer, wait = changed(found, "verify.transfer"), changed(found, "verify.wait")
    assert transfer.differs
    assert -8_200_000 < transfer.change < -7_200_000
    assert not wait.differs
    cycle = changed(found, "cycle")
    assert cycle.differs
    assert -0.23 < cycle.relative < -0.19
    # Transferring is the cycle's change, within what launches take more of it.
    assert abs(transfer.change - cycle.change) < 0.1 * abs(cycle.change)


def test_different_models_and_batches_are_said_before_anything_else() -> None:
    found = of_own("tp2-8b-eagle3-k3-nvlink-bs1", "tp2-70b-eagle3-k3-nvlink-bs8")
    assert found.openings[0].startswith("Not the same work: ")
    assert "model llama8b against llama70b" in found.openings[0]
    assert "batch 1 against 8" in found.openings[0]


def test_other_numbers_of_ranks_are_said() -> None:
    found = of_own("tp2-70b-eagle3-k3-shm-bs1", "tp4-70b-eagle3-k3-shm-bs1")
    assert "tensor-parallel ranks 2 against 4" in found.openings[0]


# Speculation against plain decoding.

PLAIN, SPECULATION = "tp2-8b-plain-nvlink-bs1", "tp2-8b-eagle3-k3-nvlink-bs1"


def test_the_parts_of_a_verify_and_a_plain_step_sum_to_the_nanosecond() -> None:
    against = of_own(PLAIN, SPECULATION).against
    assert against is not None
    parts = against.parts
    for name, side in ((PLAIN, "a_ns"), (SPECULATION, "b_ns")):
        cycles = cycles_of(name).values[Key("cycle")]
        assert sum(getattr(part, side) for part in parts) == round(float(cycles.mean()))
    change = sum(part.b_ns for part in parts) - sum(part.a_ns for part in parts)
    assert sum(part.change_ns for part in parts) == change


def test_a_verify_costs_more_for_attention_and_the_host_not_for_its_matrices() -> None:
    against = of_own(PLAIN, SPECULATION).against
    assert against is not None
    more = {(p.state, p.what): p.change_ns for p in against.parts if p.stage == "verify"}
    assert 0.8e6 < more["work", "attention"] < 1.1e6
    assert more["idle", "launch_call"] > 0.7e6
    assert abs(more["work", "gemm"]) < 0.05e6
    assert 1.8 < against.verify_ns / against.step_ns < 2.2


def test_break_even_is_the_cycle_over_the_step_traced_and_unprofiled() -> None:
    against = of_own(PLAIN, SPECULATION).against
    assert against is not None
    assert against.traced.break_even == pytest.approx(against.cycle_ns / against.step_ns)
    assert against.unprofiled is not None
    assert against.unprofiled.break_even == pytest.approx(2.11, abs=0.005)
    assert against.unprofiled.speed_up == pytest.approx(1.01, abs=0.01)
    assert against.unprofiled.acceptance is not None
    assert against.unprofiled.acceptance.simulated


@pytest.mark.parametrize(
    ("plain", "speculation", "break_even"),
    [
        ("tp2-70b-plain-shm-bs8", "tp2-70b-eagle3-k3-shm-bs8", 1.59),
        ("tp2-70b-plain-nvlink-bs8", "tp2-70b-eagle3-k3-nvlink-bs8", 1.46),
        ("tp4-70b-plain-shm-bs1", "tp4-70b-eagle3-k3-shm-bs1", 1.34),
    ],
)
def test_break_even_of_the_large_servers(plain: str, speculation: str, break_even: float) -> None:
    against = of_own(plain, speculation).against
    assert against is not None
    assert against.unprofiled is not None
    assert against.unprofiled.break_even == pytest.approx(break_even, abs=0.005)


def test_the_plain_run_may_be_given_second() -> None:
    there, back = of_own(PLAIN, SPECULATION).against, of_own(SPECULATION, PLAIN).against
    assert there is not None
    assert back is not None
    assert (there.plain, back.plain) == ("a", "b")
    assert there.parts == back.parts
    line = of_own(SPECULATION, PLAIN).details[0]
    assert line.startswith("B decodes plainly")
    assert "A speculates" in line


def test_whole_means_keep_the_sum() -> None:
    sums = np.array([10, 11, 12, 0, 7], np.int64)
    means = compare_against.whole_means(sums, 3)
    assert means.sum() == round(40 / 3)
    assert (np.abs(means - sums / 3) < 1).all()


def test_kinds_that_do_not_correspond_are_refused() -> None:
    recorded = own(PLAIN)
    prefill = [row for row in own("tp2-8b-eagle3-k3-nvlink-mixed-prefill").cycles if row.leads]
    assert prefill[0].kind == "speculation"
    found = compare(recorded, own("tp2-8b-eagle3-k3-nvlink-mixed-prefill"))
    assert found.against is not None
    assert "batch 1 against 2" in found.openings[0]


def test_a_run_on_the_cpu_is_not_held_against_one_on_gpus() -> None:
    on_cpu = report("traces", "cpu", "sglang_eagle3_tp1_rank0.json.gz")
    found = compare(on_cpu, case("c01_base"))
    assert found.refused == ("times of A by the clock host, of B by gpu",)
    assert not found.kernels


def test_attention_that_differs_with_the_same_kernels_may_be_the_context() -> None:
    found = of_own("tp2-8b-eagle3-k3-nvlink-bs1-hooked", "tp2-8b-eagle3-k3-legacycar-bs1-hooked")
    assert changed(found, "verify.attention").differs
    assert any(note.startswith("attention of verify differs") for note in found.notes)


# What the test does on cycles of a real server (the large measurement: docs/compare.md).

LONG = "tp2-8b-eagle3-k3-nvlink-bs1-100cycles"


def test_cycles_of_one_server_dealt_to_two_sides_have_no_row_named() -> None:
    for way in ("dealt", "resampled", "turns"):
        found = measure(cycles_of(LONG), WAYS[way], 24, seed=1)
        assert found.named <= 3, way
        assert found.found["verify.gemm"] >= 0.85, way


@pytest.mark.parametrize("name", ["tp2-70b-eagle3-k3-nvlink-bs1", "tp2-70b-plain-shm-bs8"])
def test_three_percent_in_a_compute_activity_is_found_in_nine_of_ten_draws(name: str) -> None:
    found = measure(cycles_of(name), resampled, 24, seed=2)
    assert found.named <= 3
    assert found.found
    assert all(share >= 0.9 for share in found.found.values()), found.found


def test_waiting_that_one_run_does_not_tell_is_no_row() -> None:
    """Not known is not 0 us: one rank alone tells no waiting from transferring."""
    both, alone = (specscope.analyze(load(BUNDLED, rank=rank, cache=False)) for rank in (None, 0))
    waits = [
        [row for row in compare(both, other).rows if row.kind == compare_report.WAIT]
        for other in (both, alone)
    ]
    assert waits[0]
    assert not waits[1]
