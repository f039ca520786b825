"""The formulas from time to tokens, with the exact figures of published cases."""

from __future__ import annotations

import pytest

from specscope.analyzers.acceptance import (
    Acceptance,
    by_position_of,
    length_of_counts,
    length_of_probability,
)
from specscope.analyzers.throughput import (
    Baseline,
    StageCost,
    Throughput,
    cycle_of_rate,
    free_gain,
)

MS = 1e6


def throughput(
    cycle_ms: float,
    accept_length: float | None = None,
    plain_per_second: float | None = None,
    k: int | None = None,
    batch: int | None = 1,
    **stages: float,
) -> Throughput:
    return Throughput(
        cycle_ns=cycle_ms * MS,
        cycle_source="--cycle-ms",
        profiled=False,
        batch=batch,
        k=k,
        acceptance=Acceptance(accept_length, "--accept-length") if accept_length else None,
        baseline=Baseline(1e9 / plain_per_second, "a rate") if plain_per_second else None,
        stages=tuple(StageCost(s, ms * MS, (ms * MS, ms * MS)) for s, ms in stages.items()),
    )


def test_rate_break_even_and_speed_up_of_a_cycle_of_30_ms() -> None:
    found = throughput(30.0, 2.1, 90.0)
    assert found.tokens_per_second == pytest.approx(70.0, rel=1e-12)
    assert found.break_even == pytest.approx(2.70, rel=1e-12)
    assert found.speed_up == pytest.approx(0.778, abs=0.0005)


def test_a_published_rate_gives_its_cycle_and_break_even() -> None:
    cycle = cycle_of_rate(159.78, 1.86)
    assert cycle == pytest.approx(11.641 * MS, abs=0.0005 * MS)
    found = throughput(cycle / MS, 1.86, 222.47)
    assert found.tokens_per_second == pytest.approx(159.78)
    assert found.break_even == pytest.approx(2.590, abs=0.0005)
    assert found.speed_up == pytest.approx(0.718, abs=0.0005)


def test_the_cycle_of_a_batch_counts_the_rate_of_the_whole_batch() -> None:
    assert cycle_of_rate(454.0, 2.0938, batch=8) == pytest.approx(36.89 * MS, rel=1e-3)


def test_verify_ratios_of_a_width_sweep() -> None:
    found = [throughput(w, None, 1e3 / 8.47, verify=w) for w in (8.47, 13.49, 15.64, 20.67, 28.13)]
    ratios = [round(one.stage_ratio("verify") or 0, 3) for one in found]
    assert ratios == [1.000, 1.593, 1.847, 2.440, 3.321]


@pytest.mark.parametrize(
    ("cycle", "verify", "draft", "shares", "gain"),
    [(27.7, 20.8, 4.9, (75.1, 17.7), 1.215), (26.2, 23.7, 2.6, (90.5, 9.9), 1.110)],
)
def test_what_a_free_draft_gives_at_most(
    cycle: float, verify: float, draft: float, shares: tuple[float, float], gain: float
) -> None:
    found = throughput(cycle, verify=verify, draft=draft)
    each = tuple(round(100 * found.stage_ns(s) / found.cycle_ns, 1) for s in ("verify", "draft"))
    assert each == shares
    assert round(free_gain(found.cycle_ns, found.stage_ns("draft")) or 0, 3) == gain


def test_a_part_that_is_all_of_the_cycle_has_no_highest_gain() -> None:
    assert free_gain(5.0, 5.0) is None


def test_accept_length_from_one_probability() -> None:
    assert round(length_of_probability(0.65, 5), 3) == 2.642
    assert length_of_probability(1.0, 5) == 6.0
    assert length_of_probability(0.0, 5) == 1.0


def test_accept_length_and_rate_of_counts() -> None:
    assert round(length_of_counts(87, 167), 2) == 2.92
    assert round(167 / 259, 3) == 0.645


def test_a_histogram_gives_acceptance_by_position() -> None:
    found = by_position_of([10, 20, 10], 3)
    assert found == (0.75, 0.25, 0.0)
    assert 1 + sum(found) == length_of_counts(40, 0 * 10 + 1 * 20 + 2 * 10)
    assert by_position_of([0, 0]) == ()


def test_the_conditional_rate_is_given_the_position_before() -> None:
    found = Acceptance(2.0, "x", by_position=(0.8, 0.4, 0.0, 0.0)).conditional
    assert found == (0.8, 0.5, 0.0, None)
    assert Acceptance(2.0, "x").conditional == ()


def test_perfect_acceptance_emits_every_draft_token_and_the_bonus() -> None:
    found = throughput(30.0, 2.1, 90.0, k=5)
    assert found.perfect_tokens_per_second == pytest.approx(200.0)
    assert found.perfect_speed_up == pytest.approx(6 / 2.7)


def test_what_stages_cost_for_a_token_adds_up_to_the_time_for_a_token() -> None:
    found = throughput(30.0, 2.0, batch=8, draft=5.0, verify=20.0, schedule=5.0)
    each = [found.per_token_ns(one) or 0 for one in found.stages]
    assert sum(each) == pytest.approx(1e9 / (found.tokens_per_second or 0))


def test_a_figure_without_its_input_is_none() -> None:
    found = throughput(30.0, batch=None)
    assert found.tokens_per_second is found.break_even is found.speed_up is None
    assert found.perfect_speed_up is found.perfect_tokens_per_second is None
    assert found.plain_tokens_per_second is found.break_even_cycle_ns is None
    assert found.stage_ratio("verify") is None
