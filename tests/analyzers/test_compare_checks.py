"""Checks on a comparison: one grammar, decided where the cycles can decide."""

from __future__ import annotations

import pytest

from specscope.analyzers import checks
from specscope.analyzers.compare_checks import COMPARISON, decide
from specscope.traces.errors import EvidenceError, UsageError
from tests.analyzers.comparisons import of_cases, of_own


def check(text: str) -> checks.Check:
    return checks.parse(text, COMPARISON)


@pytest.mark.parametrize(
    ("text", "value", "passed"),
    [
        ("verify.delta<=2%", 0.075, False),
        ("verify.delta<=0.08", 0.075, True),
        ("verify.delta_ms>1.4", 1.5, True),
        ("cycle.delta<=2%", 0.0723, False),
        ("verify.gemm.delta_ms<=1", 1.5, False),
        ("draft.delta==0", 0.0, True),
        ("launches.delta==0", 0.0, True),
        ("idle.host.delta<=10%", 0.0, True),
    ],
)
def test_a_change_is_decided_by_the_difference_of_medians(
    text: str, value: float, passed: bool
) -> None:
    outcome = decide(check(text), of_cases("c01_base", "c01_slower"))
    assert outcome.value == pytest.approx(value, abs=0.0001)
    assert outcome.passed is passed


def test_a_percentage_is_a_hundredth() -> None:
    assert check("verify.delta<=2%").number == check("verify.delta<=0.02").number == 0.02


def test_noise_passes_a_limit_that_the_cycles_can_hold_it_against() -> None:
    assert decide(check("verify.delta<=2%"), of_cases("c01_base", "c01_noise")).passed


@pytest.mark.parametrize("text", ["verify.delta<=0.1%", "verify.delta<=0", "cycle.delta_ms<0.05"])
def test_a_limit_inside_the_noise_is_not_decided(text: str) -> None:
    with pytest.raises(EvidenceError, match="of noise; record more cycles"):
        decide(check(text), of_cases("c01_base", "c01_noise"))


def test_a_change_far_beyond_a_narrow_limit_fails_all_the_same() -> None:
    assert not decide(check("verify.delta<=0.01%"), of_cases("c01_base", "c01_slower")).passed


def test_a_run_against_itself_passes_a_limit_of_nothing() -> None:
    assert decide(check("verify.delta<=0"), of_cases("c01_base", "c01_base")).passed


def test_too_few_cycles_decide_nothing() -> None:
    with pytest.raises(EvidenceError, match="A has 1 steady whole cycle, 3 are needed"):
        decide(check("verify.delta<=50%"), of_cases("a07_item_sync", "c01_base"))


def test_what_neither_run_has_is_named() -> None:
    with pytest.raises(EvidenceError, match=r"neither run has verify\.moe"):
        decide(check("verify.moe.delta<=1%"), of_cases("c01_base", "c01_slower"))


def test_what_only_b_has_is_relative_to_nothing() -> None:
    plain, speculation = "tp2-8b-plain-nvlink-bs1", "tp2-8b-eagle3-k3-nvlink-bs1"
    with pytest.raises(EvidenceError, match=r"check draft\.delta_ms"):
        decide(check("draft.delta<=1%"), of_own(plain, speculation))
    assert not decide(check("draft.delta_ms<=1"), of_own(plain, speculation)).passed


@pytest.mark.parametrize(
    "text",
    ["verify<=2%", "verify.share>=0.95", "verify.delta", "accept.delta<1%", "launches.delta_ms<1"],
)
def test_a_name_that_compare_does_not_know_is_refused_before_reading(text: str) -> None:
    with pytest.raises(UsageError):
        check(text)


def test_a_delta_above_one_without_a_percent_sign_is_asked_back() -> None:
    with pytest.raises(UsageError, match=r"write 2% or 0\.02"):
        check("verify.delta<=2")


def test_analyze_does_not_know_the_names_of_a_comparison() -> None:
    with pytest.raises(UsageError, match="unknown name"):
        checks.parse("verify.delta<=2%")
