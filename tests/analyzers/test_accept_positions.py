"""The sign of acceptance by position: wiring or template, not the number of steps."""

from __future__ import annotations

import pytest

from specscope.analyzers.accept_positions import FIRST_LOW, sign_of
from specscope.analyzers.acceptance import Acceptance


def acceptance(*rates: float, cycles: float | None = 1000, simulated: bool = False) -> Acceptance:
    return Acceptance(1 + sum(rates), "x", simulated, rates, cycles)


@pytest.mark.parametrize(
    "rates",
    [
        (0.21, 0.13, 0.09),  # the first fails, who comes past it goes on
        (0.012, 0.0, 0.0),  # nothing is accepted: stale state
        (0.3,),
        (0.55, 0.44, 0.36),  # 0.55 against 0.81 given the one before
    ],
)
def test_a_first_position_that_fails_is_wiring_or_template(rates: tuple[float, ...]) -> None:
    sign = sign_of(acceptance(*rates))
    assert sign is not None
    assert sign.wiring
    assert f"{100 * rates[0]:.1f} %" in sign.sentence
    assert "not the number of steps" in sign.sentence


@pytest.mark.parametrize(
    "rates",
    [
        (0.566, 0.309, 0.177),  # published logs of drafts that work
        (0.921, 0.828, 0.674),
        (1.0, 1.0, 1.0, 1.0, 0.795, 0.614, 0.409),
        (0.8, 0.2, 0.05),  # later ones fail: that is length
        (0.81,),
        (FIRST_LOW, 0.16),
    ],
)
def test_a_draft_that_works_has_no_sign(rates: tuple[float, ...]) -> None:
    assert sign_of(acceptance(*rates)) is None


def test_both_figures_stand_in_the_sentence() -> None:
    sign = sign_of(acceptance(0.5, 0.45, 0.405))
    assert sign is not None
    assert "50.0 %" in sign.sentence
    assert "90.0 %" in sign.sentence


def test_few_cycles_say_nothing() -> None:
    assert sign_of(acceptance(0.1, 0.05, cycles=20)) is None
    # 0.5 of 30 cycles against 0.8 of 15 tries: within three standard errors, 0.41.
    assert sign_of(acceptance(0.5, 0.4, cycles=30)) is None
    assert sign_of(acceptance(0.5, 0.4, cycles=300)) is not None


def test_simulated_positions_say_nothing_of_the_draft() -> None:
    sign = sign_of(acceptance(0.1, 0.05, simulated=True))
    assert sign is not None
    assert not sign.wiring
    assert "simulated" in sign.sentence


def test_without_positions_there_is_no_sign() -> None:
    assert sign_of(Acceptance(1.1, "x")) is None
