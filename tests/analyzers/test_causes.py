"""Causes by their signs: on the shared cases, on own recordings, and on tables of figures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specscope
from specscope.analyzers import cause_rules, figures, server_flags, signs
from specscope.analyzers.accept_positions import sign_of
from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.causes import STATES, Causes, judge, with_mends
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Baseline, Throughput
from specscope.traces.errors import UsageError
from tests.build import ALL_REDUCE, ATTENTION, GEMM, Timeline
from tests.shared import shared_path

CASES = ("cases",)
OWN = ("traces", "own")


@cache
def report_of(*parts: str, files: tuple[str, ...] = ()) -> Report:
    paths = [shared_path(*parts, name) for name in files] or [shared_path(*parts)]
    return specscope.analyze(specscope.load(paths, cache=False))


def causes_of(report: Report) -> Causes:
    assert report.causes is not None
    return report.causes


def own(name: str) -> Report:
    return report_of(*OWN, name)


def case(*files: str) -> Causes:
    return causes_of(report_of(*CASES, files=files))


def ids(found: Causes, state: str = "seen") -> list[str]:
    return [one.id for one in found.of(state)]


# The shared cases.


def test_a_read_back_in_verify_is_a_hidden_sync() -> None:
    one = case("a07_item_sync.json")["C8"]
    assert one.state == "seen"
    assert "10.0 % of the cycle" in one.sentence
    assert "in verify 8.0 %" in one.sentence
    assert "copies from the GPU to the host inside draft and verify: 1" in one.sentence
    # 12.5 us of 125 us are gone at most.
    assert one.gain == pytest.approx(125 / 112.5)


def test_a_draft_that_takes_longer_to_launch_than_to_run_is_held_back_by_the_host() -> None:
    found = case("a11_three_draft_steps.json")
    one = found["C6"]
    assert one.state == "seen"
    assert "launches a cycle: 3" in one.sentence
    assert "waits 22 us a cycle for the host and its launch calls and works 16 us" in one.sentence
    assert one.gain == pytest.approx(130 / (130 - 21.75))
    assert found["C10"].state == "absent"  # verify is a graph


def test_where_verify_dominates_no_cause_outside_it_is_seen() -> None:
    found = case("a12_verify_dominates.json")
    assert ids(found) == []
    assert ids(found, "suspected") == []
    assert found["C2"].missing == ("verify.ratio",)
    assert found["C2"].ask == "give --baseline or --baseline-tokens-per-second"
    assert found["C7"].state == "absent"
    table = figures.complete(signs.of(report_of(*CASES, files=("a12_verify_dominates.json",))))
    assert table["draft.gain"] == pytest.approx(1.032, abs=0.001)


def test_a_straggler_is_seen_with_what_speaks_against_it() -> None:
    found = case("r01_straggler_rank0.json", "r01_straggler_rank1.json")
    one = found["C5"]
    assert one.state == "seen"
    assert "waits 6.2 % of the cycle" in one.sentence
    assert "rank 1 has 100.0 % of the lateness" in one.sentence
    assert "mostly because its compute takes longer" in one.sentence
    assert one.against == ("transferring takes more, 10.3 % of the cycle",)


def test_one_rank_alone_does_not_tell_waiting_from_transferring() -> None:
    found = case("r01_straggler_rank0.json")
    assert {found["C4"].state, found["C5"].state} == {"open"}
    assert found["C5"].ask == "give the traces of all ranks"


# Own recordings.


def test_8b_over_nvlink_is_held_back_by_host_and_launches_not_by_draft_or_wire() -> None:
    found = causes_of(own("tp2-8b-eagle3-k3-nvlink-bs1"))
    assert ids(found) == ["C18", "C13"]
    assert found["C7"].state == found["C4"].state == found["C5"].state == "absent"
    assert "stretches this cycle 1.30 times" in found["C18"].against[0]
    # Most of the idle inside verify is the profiler's price of the graph launch: the replay leaves
    # 0.45 ms of 6.86.
    assert found["C18"].gain == pytest.approx(1.07, abs=0.01)


def test_8b_over_nvlink_gains_nothing_from_speculation_and_acceptance_is_not_the_only_reason() -> (
    None
):
    report = own("tp2-8b-eagle3-k3-nvlink-bs1")
    measured = Throughput(
        cycle_ns=6.8599e6,
        cycle_source="run.json",
        profiled=False,
        batch=1,
        k=3,
        acceptance=Acceptance(2.1245, "run.json", simulated=True),
        baseline=Baseline(3.252e6, "tokens per second"),
    )
    table = figures.complete(signs.of(replace(report, throughput=measured)))
    assert table["break_even"] == pytest.approx(2.11, abs=0.01)
    assert table["speed_up"] == pytest.approx(1.007, abs=0.005)
    found = judge(table)
    assert found["C1"].state == "absent"
    assert found["C2"].state == "absent"
    assert found["C18"].after == pytest.approx(1.08, abs=0.01)


@pytest.mark.parametrize(
    ("name", "share", "gain"),
    [
        ("tp2-70b-eagle3-k3-shm-bs8", 0.223, 1.293),
        ("tp4-70b-eagle3-k3-shm-bs8", 0.434, 1.735),
    ],
)
def test_70b_over_shared_memory_is_held_back_by_all_reduces_in_verify(
    name: str, share: float, gain: float
) -> None:
    report = own(name)
    found = causes_of(report)
    assert ids(found) == ["C4"]
    assert found["C4"].gain == pytest.approx(gain, abs=0.03)
    assert "162 of them" in found["C4"].sentence
    assert signs.of(report)["verify.transfer.share"] == pytest.approx(share, abs=0.01)
    assert found["C7"].state == "absent"


def test_lateness_that_is_the_wires_doing_is_only_suspected() -> None:
    one = causes_of(own("tp4-70b-eagle3-k3-shm-bs8"))["C5"]
    assert one.state == "suspected"
    assert any("the wire's doing" in text for text in one.against)


def test_an_eager_server_has_verify_and_draft_without_a_graph() -> None:
    found = causes_of(own("tp2-8b-eagle3-k3-eager-bs1-hooked"))
    assert ids(found)[0] == "C10"
    assert {"C10", "C6"} <= set(ids(found))
    assert "launches a cycle: 553" in found["C10"].sentence
    assert "launches a cycle: 94" in found["C6"].sentence
    assert "the server was told to run without graphs" in found["C10"].sentence
    assert found["C18"].state == "absent"
    assert found["C11"].state == "absent"  # told to capture up to batch 8, and to use no graph


def test_a_rank_that_comes_late_is_named_with_its_host() -> None:
    report = own("tp2-8b-eagle3-k3-legacycar-bs1-hooked")
    one = causes_of(report)["C5"]
    assert "rank 1 has 97.8 % of the lateness" in one.sentence
    assert "mostly because its host comes late with the launch" in one.sentence
    # A profiler that stretches a cycle by half slows hosts unevenly: nobody is blamed for sure.
    assert one.state == "suspected"
    assert "stretches this cycle 1.46 times" in one.against[0]
    measured = ("server.cycle.ms", "tokens_per_second")
    unknown = {name: v for name, v in signs.of(report).items() if name not in measured}
    assert judge(unknown)["C5"].state == "seen"


def test_prefill_among_the_cycles_is_seen_and_has_no_bound() -> None:
    one = causes_of(own("tp2-8b-eagle3-k3-nvlink-mixed-prefill"))["C12"]
    assert one.state == "seen"
    assert one.gain is None
    assert causes_of(own("tp2-8b-eagle3-k3-nvlink-bs1"))["C12"].state == "absent"


@pytest.mark.parametrize(
    ("name", "cycle_ms", "step_ms", "break_even"),
    [
        ("tp2-8b-eagle3-k3-nvlink-bs1", 6.86, 3.252, 2.11),
        ("tp2-70b-eagle3-k3-shm-bs8", 36.89, 23.17, 1.59),
        ("tp2-70b-eagle3-k3-nvlink-bs8", 29.11, 19.94, 1.46),
        ("tp4-70b-eagle3-k3-shm-bs1", 19.28, 14.40, 1.34),
    ],
)
def test_healthy_verify_passes_are_not_too_dear(
    name: str, cycle_ms: float, step_ms: float, break_even: float
) -> None:
    report = own(name)
    measured = Throughput(
        cycle_ns=cycle_ms * 1e6,
        cycle_source="run.json",
        profiled=False,
        batch=report.facts["batch"],
        k=3,
        acceptance=Acceptance(report.facts["accept_length"], "run.json", simulated=True),
        baseline=Baseline(step_ms * 1e6, "tokens per second"),
    )
    table = figures.complete(signs.of(replace(report, throughput=measured)))
    assert table["break_even"] == pytest.approx(break_even, abs=0.01)
    assert 1.1 < table["verify.ratio"] < 1.45
    found = judge(table)
    assert found["C2"].state == found["C1"].state == "absent"


def test_a_first_position_that_fails_is_told_beside_a_short_accept_length() -> None:
    report = own("tp2-70b-eagle3-k3-nvlink-bs8")
    acceptance = Acceptance(1.32, "server log", by_position=(0.2, 0.1, 0.02), cycles=400)
    measured = Throughput(
        cycle_ns=29.11e6,
        cycle_source="run.json",
        profiled=False,
        batch=8,
        k=3,
        acceptance=acceptance,
        baseline=Baseline(19.94e6, "tokens per second"),
        positions=acceptance,
        sign=sign_of(acceptance),
    )
    one = judge(signs.of(replace(report, throughput=measured)))["C1"]
    assert one.state == "seen"
    assert "accepted in 20.0 % of the cycles: wiring or template" in one.sentence


def test_70b_over_nvlink_asserts_nothing() -> None:
    found = causes_of(own("tp2-70b-eagle3-k3-nvlink-bs8"))
    assert ids(found) == ids(found, "suspected") == []


def test_a_server_without_speculation_is_not_asked_why_it_is_slow() -> None:
    assert own("tp2-8b-plain-nvlink-bs1").causes is None


def test_a_recorded_cycle_alone_does_not_prove_an_accept_length_too_low() -> None:
    report = own("tp2-8b-eagle3-k3-nvlink-bs1")
    measured = ("server.cycle.ms", "tokens_per_second", "recorded_only")
    table = {name: v for name, v in signs.of(report).items() if name not in measured}
    table |= {"plain.step.ms": 3.8}
    assert "server.cycle.ms" not in figures.complete(table)  # no way leads back from the trace
    assert judge(table | {"recorded_only": 1})["C1"].state == "suspected"
    assert judge(table | {"recorded_only": 0})["C1"].state == "seen"
    assert judge(table | {"server.cycle.ms": 6.86})["C1"].state == "absent"
    assert signs.of(report)["recorded_only"] == 0
    assert signs.of(report_of(*CASES, files=("a12_verify_dominates.json",)))["recorded_only"] == 1


def test_the_rate_of_a_recorded_cycle_is_not_taken_for_a_measured_one() -> None:
    report = own("tp2-8b-eagle3-k3-nvlink-mixed-prefill")
    assert report.unprofiled is None
    assert report.throughput is not None
    assert report.throughput.profiled
    assert report.throughput.tokens_per_second is not None
    table = figures.complete(signs.of(report))
    assert {"server.cycle.ms", "stretch", "tokens_per_second"} & set(table) == set()
    assert table["recorded_only"] == 1


# Drawn runs.


def healthy(rank: int, ranks: int) -> Timeline:
    """Cycles of two graphs, launched before the GPU is free: no idle, and no rank is late."""
    trace = Timeline(rank=rank, world_size=ranks)
    for c in trace.cycles(6, every=2000):
        c.mark(f"specscope:draft|c={c.i}|b=1", 0, 20)
        c.graph(5, 15, (GEMM, 20, 120))
        c.mark(f"specscope:verify|c={c.i}|b=1", 30, 60)
        c.graph(35, 50, (ATTENTION, 120, 420), (GEMM, 420, 1980), (ALL_REDUCE, 1980, 2020))
    return trace


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_without_a_fault_has_no_cause(ranks: int, tmp_path: Path) -> None:
    for rank in range(ranks):
        (tmp_path / f"rank{rank}.json").write_bytes(healthy(rank, ranks).to_json())
    report = specscope.analyze(specscope.load(tmp_path, cache=False))
    assert report.speculates
    found = causes_of(report)
    assert ids(found) == ids(found, "suspected") == []
    assert {"C6", "C8", "C9", "C10", "C12", "C13", "C15", "C17", "C18"} <= set(ids(found, "absent"))


# Tables of figures.


def test_nothing_is_known_of_an_empty_table() -> None:
    found = judge({})
    assert {one.state for one in found.findings} == {"open"}
    assert all(one.ask for one in found.findings)
    assert all(one.gain is None for one in found.findings)


def test_a_name_that_is_no_figure_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'verify\.speed' is no figure"):
        judge({"verify.speed": 1.0})


def test_a_rate_that_is_worked_out_from_a_recorded_cycle_is_no_measured_one() -> None:
    table = figures.complete({"cycle.ms": 10.0, "batch": 1, "accept_length": 2})
    assert {"tokens_per_second", "server.cycle.ms", "stretch"} & set(table) == set()


def test_what_is_not_finite_is_not_known() -> None:
    assert judge({"accept_length": float("nan"), "break_even": 3})["C1"].state == "open"


def test_idle_gains_no_more_than_the_cycle_without_a_profiler_has() -> None:
    table = {"cycle.ms": 10.0, "cycle.work.ms": 5.0, "between.host.ms": 4.0, "cycle.wait.ms": 0.0}
    assert judge(table)["C13"].gain == pytest.approx(10 / 6)
    assert judge(table | {"server.cycle.ms": 6.0})["C13"].gain == pytest.approx(6 / 5)
    full = judge(table | {"server.cycle.ms": 5.05})["C13"]
    assert full.state == "suspected"
    assert "hardly room" in full.against[0]


def test_recorded_waiting_leaves_room_for_idle_in_the_cycle_without_a_profiler() -> None:
    table = {"cycle.ms": 10.0, "cycle.work.ms": 5.0, "between.host.ms": 4.0, "cycle.wait.ms": 1.0}
    assert judge(table | {"server.cycle.ms": 6.0})["C13"].gain == pytest.approx(6 / 4)
    one_rank = {"cycle.ms": 10.0, "cycle.work.ms": 5.0, "between.host.ms": 4.0}
    # Nobody knows how much of its work is waiting: the recorded idle is the bound.
    assert judge(one_rank | {"server.cycle.ms": 6.0})["C13"].gain == pytest.approx(6 / 2)


def test_an_option_that_had_no_effect_is_told() -> None:
    table = {
        "cycle.ms": 40.0,
        "draft.work.ms": 24.0,
        "draft.collective.ms": 17.5,
        "draft.collectives": 10,
    }
    assert "had no effect" not in judge(table)["C7"].sentence
    assert "the option had no effect" in judge(table | {"draft.tp": 1})["C7"].sentence


@pytest.mark.parametrize(
    ("sizes", "state"),
    [
        ({"batch": 20, "graph.batch": 2}, "seen"),
        ({"batch": 2, "graph.batch": 2, "graph.tokens": 64, "draft_tokens": 4}, "absent"),
        ({"batch": 20, "draft_tokens": 4, "graph.tokens": 64}, "seen"),
        ({"batch": 2, "graph.batch": 2}, "absent"),
        ({"batch": 2}, "open"),
    ],
)
def test_a_batch_above_the_captured_sizes_is_seen_by_sequences_or_tokens(
    sizes: dict[str, float], state: str
) -> None:
    assert judge(sizes | {"verify.graph_launches": 0})["C11"].state == state
    assert judge(sizes | {"verify.graph_launches": 1})["C11"].state == "absent"
    # Without launches on record nobody knows whether a graph was found.
    assert judge(sizes)["C11"].state == ("open" if state == "seen" else state)


NAMES = sorted(
    {
        name
        for cause in cause_rules.causes()
        for condition in cause.conditions
        for name in condition.figures
    }
)
TABLES = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 100), max_size=len(NAMES))


@settings(max_examples=200, deadline=None)
@given(TABLES)
def test_no_cause_is_asserted_on_a_figure_that_is_not_known(
    given_figures: dict[str, float],
) -> None:
    table = figures.complete(given_figures)
    for one in judge(given_figures).findings:
        local = {"gain": one.gain, "after": one.after}
        known = table | {name: value for name, value in local.items() if value is not None}
        if one.state in ("seen", "suspected"):
            for sign in one.cause.signs:
                assert any(condition.holds(known) for condition in sign)
            assert not any("unknown" in text for text in (*one.signs, *one.beside, *one.against))
        elif one.state == "open":
            assert one.missing
            assert not set(one.missing) & set(table)


@settings(max_examples=200, deadline=None)
@given(TABLES, st.data())
def test_a_figure_less_never_makes_a_sign(table: dict[str, float], data: st.DataObject) -> None:
    fewer = {name: table[name] for name in table if data.draw(st.booleans())}
    for cause in cause_rules.causes():
        for condition in cause.conditions:
            assert condition.holds(fewer) in (None, condition.holds(table))


@given(TABLES)
@settings(max_examples=50, deadline=None)
def test_those_seen_come_first_by_what_they_can_gain(table: dict[str, float]) -> None:
    found = judge(table).findings
    order = [STATES.index(one.state) for one in found]
    assert order == sorted(order)
    gains = [one.gain or 0.0 for one in found if one.state == "seen"]
    assert gains == sorted(gains, reverse=True)
    assert all(one.gain is None or one.gain >= 1 for one in found)


# Server arguments.


@pytest.mark.parametrize(
    ("told", "figure", "value"),
    [
        (["--cuda-graph-max-bs", "8", "--cuda-graph-bs", "1", "16"], "graph.batch", 16.0),
        ({"cuda_graph_max_bs_decode": 4}, "graph.batch", 4.0),
        ("serve --cuda-graph-bs=2", "graph.batch", 2.0),
        (
            ["--speculative-config", '{"method": "eagle3", "draft_tensor_parallel_size": 1}'],
            "draft.tp",
            1.0,
        ),
        ({"speculative_config": {"draft_tensor_parallel_size": 1}}, "draft.tp", 1.0),
        ({"draft_tensor_parallel_size": 1}, "draft.tp", 1.0),
        (["--speculative-config.draft_tensor_parallel_size", "1"], "draft.tp", 1.0),
        ("serve --speculative-draft-tp-size=1", "draft.tp", 1.0),
        (["--cudagraph-capture-sizes", "1", "2", "64"], "graph.tokens", 64.0),
        (["--compilation-config", '{"max_cudagraph_capture_size": 32}'], "graph.tokens", 32.0),
        (["--disable-cuda-graph"], "graph.off", 1.0),
        ({"enforce_eager": False}, "graph.off", 0.0),
    ],
)
def test_server_arguments_give_figures(told: object, figure: str, value: float) -> None:
    assert server_flags.flags(told)[figure] == value


@pytest.mark.parametrize("told", [None, 3, {}, [], "", ["--speculative-config", "{"], [[], {}]])
def test_other_server_arguments_give_none(told: object) -> None:
    assert {"graph.batch", "draft.tp"} & set(server_flags.flags(told)) == set()


def test_the_flags_are_those_of_the_runs_own_engine_and_version() -> None:
    found = judge({"accept_length": 1.5, "break_even": 2.0})

    def flags(engine: str | None, version: str | None) -> set[str]:
        return {flag.name for flag in with_mends(found, engine, version)["C11"].flags}

    assert flags("sglang", "0.5.12.post1") == {"--cuda-graph-max-bs"}
    assert flags("sglang", "0.5.16") == {"--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"}
    assert flags("sglang", "0.5.23") == {"--cuda-graph-max-bs-decode"}
    assert flags("vllm", "0.32.0") == {"--max-cudagraph-capture-size"}
    assert flags("vllm", None) == flags(None, "0.5.23") == flags("sglang", "0.3.0") == set()
