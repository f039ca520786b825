"""The test over all rows: what it promises, held against numbers drawn with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from specscope.analyzers import compare_test

ROWS = 40
FLOOR = np.full(ROWS, 1e-6)
Float = compare_test.Float


def drawn(rng: np.random.Generator, cycles: int) -> Float:
    """Rows as cycles have them: quiet, heavy-tailed, of two heights; waits shared by rows."""
    quiet = rng.normal(100, 0.3, (cycles, 15))
    waits = 10 ** rng.uniform(0, 1, (cycles, 10))
    two = np.where(rng.random((cycles, 10)) < 0.5, 5.0, 20.0)
    shared = waits[:, :5] + rng.normal(0, 0.1, (cycles, 5))
    return np.concatenate([quiet, waits, two, shared], axis=1)


def named(a: Float, b: Float) -> list[int]:
    return np.flatnonzero(compare_test.test(a, b, FLOOR).named).tolist()


@pytest.mark.parametrize("sides", [(8, 8), (7, 8), (5, 5), (30, 30)])
def test_equal_runs_have_no_row_named_in_95_of_100_draws(sides: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    draws = 200
    wrong = sum(bool(named(drawn(rng, sides[0]), drawn(rng, sides[1]))) for _ in range(draws))
    # 5 % of 200 are 10; 17 and more would come up in 2 of 100 such tests at the limit itself.
    assert wrong <= 16


def test_neighbours_that_resemble_each_other_are_no_witnesses_of_their_own() -> None:
    rng = np.random.default_rng(2)
    draws, wrong = 100, 0
    for _ in range(draws):
        # Two cycles in a row have nearly the same value.
        a, b = (np.repeat(drawn(rng, 4), 2, axis=0) for _ in range(2))
        wrong += bool(named(a, b))
    assert wrong <= 9


def test_three_percent_in_a_quiet_row_is_found_and_named_beside_waits() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(50):
        a, b = drawn(rng, 8), drawn(rng, 8)
        b[:, 0] *= 1.03
        found += 0 in named(a, b)
    assert found >= 45


def test_a_row_that_never_varies_is_not_named_and_does_not_divide_by_zero() -> None:
    same = np.full((8, 3), 7.0)
    with np.errstate(all="raise"):
        found = compare_test.test(same, same.copy(), np.full(3, 0.1))
    assert not found.named.any()
    assert np.isfinite(found.least).all()
    assert (found.p == 1).all()


def test_what_is_named_exceeds_the_smallest_change_that_could_be_shown() -> None:
    rng = np.random.default_rng(4)
    a, b = drawn(rng, 8), drawn(rng, 8)
    b[:, :3] *= 1.2
    found = compare_test.test(a, b, FLOOR)
    assert found.named[:3].all()
    assert ((np.abs(found.difference) > found.least) == found.named).all()


def test_the_smallest_change_is_not_smaller_beside_a_large_one() -> None:
    rng = np.random.default_rng(5)
    a, b = drawn(rng, 8), drawn(rng, 8)
    quiet = compare_test.test(a[:, :1], b[:, :1], FLOOR[:1])
    loud = compare_test.test(a[:, :1], b[:, :1] + 50, FLOOR[:1])
    assert loud.least[0] > 0.8 * quiet.least[0]


def test_exchanged_sides_say_the_same_with_the_other_sign() -> None:
    rng = np.random.default_rng(6)
    a, b = drawn(rng, 7), drawn(rng, 9)
    b[:, 0] *= 1.05
    there, back = compare_test.test(a, b, FLOOR), compare_test.test(b, a, FLOOR)
    assert there.difference == pytest.approx(-back.difference)
    assert there.p == pytest.approx(back.p)
    assert (there.named == back.named).all()


def test_few_cycles_are_dealt_in_every_way_many_in_a_sample() -> None:
    rng = np.random.default_rng(7)
    few = compare_test.test(drawn(rng, 8), drawn(rng, 8), FLOOR)
    assert (few.blocks, few.ways, few.exact) == ((4, 4), 70, True)
    many = compare_test.test(drawn(rng, 90), drawn(rng, 90), FLOOR)
    assert (many.blocks, many.ways, many.exact) == ((9, 9), compare_test.DRAWS, False)
    uneven = compare_test.test(drawn(rng, 8), drawn(rng, 90), FLOOR)
    assert uneven.blocks == (4, 45)


@pytest.mark.parametrize(
    ("sides", "can"), [((3, 3), False), ((3, 4), True), ((4, 4), True), ((8, 8), True)]
)
def test_three_cycles_a_side_can_name_nothing(sides: tuple[int, int], can: bool) -> None:
    assert compare_test.can_name(*sides) is can
    rng = np.random.default_rng(8)
    a, b = drawn(rng, sides[0]), drawn(rng, sides[1]) * 5
    found = compare_test.test(a, b, FLOOR)
    assert bool(found.named.any()) is can
    assert bool(np.isfinite(found.least).all()) is can
