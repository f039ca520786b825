"""Cost of a verify by its tokens: the line, its error, its refusals; larger batches by it."""

from __future__ import annotations

import pytest

from specscope.analyzers.throughput_growth import growth_of
from specscope.analyzers.verify_cost import STARTS_APART, Line, Point, line_through

MS = 1e6


def line(*points: tuple[float, float], plain: tuple[float, float] | None = None) -> Line | None:
    found = [Point(tokens, ms * MS, "x") for tokens, ms in points]
    if plain:
        found.append(Point(plain[0], plain[1] * MS, "plain", True))
    return line_through(found)


def test_points_on_a_line_give_it_without_an_error() -> None:
    found = line((4, 6), (8, 7), (32, 13))
    assert found is not None
    assert found.per_token_ns == pytest.approx(0.25 * MS)
    assert found.fixed_ns == pytest.approx(5 * MS)
    assert found.error_ns == pytest.approx(0, abs=1e-3)
    assert found.at(16) == pytest.approx(9 * MS)


def test_points_beside_a_line_give_its_error() -> None:
    """Residuals 1, -2, 1 of x = 0, 1, 2: 6 / (3 - 2) = 6; slope error sqrt(6 / 2)."""
    found = line((1, 1), (2, 0), (3, 5))
    assert found is not None
    assert found.per_token_ns == pytest.approx(2 * MS)
    assert found.error_ns == pytest.approx(6**0.5 * MS)
    assert found.per_token_error_ns == pytest.approx(3**0.5 * MS)
    assert found.per_token_range_ns == pytest.approx(((2 - 3**0.5) * MS, (2 + 3**0.5) * MS))


def test_two_points_do_not_scatter_about_their_line_yet_their_slope_has_an_error() -> None:
    found = line((4, 6), (8, 7))
    assert found is not None
    assert found.error_ns is None
    error = STARTS_APART * (6**2 + 7**2) ** 0.5 / 4
    assert found.per_token_range_ns == pytest.approx(((0.25 - error) * MS, (0.25 + error) * MS))


@pytest.mark.parametrize("points", [(), ((4, 6),), ((4, 6), (4, 7), (4, 8))])
def test_fewer_than_two_numbers_of_tokens_are_refused(
    points: tuple[tuple[float, float], ...],
) -> None:
    assert line(*points) is None


def test_a_plain_step_bounds_what_a_token_costs() -> None:
    found = line((4, 6), plain=(1, 3))
    assert found is not None
    assert found.with_plain
    assert found.per_token_range_ns == pytest.approx((0, MS))


def test_a_plain_step_takes_no_part_where_verify_has_points_enough() -> None:
    found = line((4, 6), (8, 7), plain=(1, 1))
    assert found is not None
    assert not found.with_plain
    assert len(found.points) == 2


def test_outside_of_what_was_measured_nothing_is_said() -> None:
    found = line((4, 6), (32, 13))
    assert found is not None
    assert found.measured == (4, 32)
    assert found.at(3.9) is None
    assert found.at(33) is None


def test_a_published_width_sweep_has_a_cost_a_token() -> None:
    """Widths 1, 2, 3, 5, 8 of field-problems 3.26: 8.47 to 28.13 ms."""
    found = line((1, 8.47), (2, 13.49), (3, 15.64), (5, 20.67), (8, 28.13))
    assert found is not None
    assert found.per_token_ns == pytest.approx(2.68 * MS, abs=0.01 * MS)
    assert found.error_ns == pytest.approx(1.037 * MS, abs=0.001 * MS)


def test_a_larger_batch_by_the_line() -> None:
    found = line((4, 6), (32, 13))
    assert found is not None
    rows = growth_of(found, width=4, cycle_ns=8 * MS, verify_ns=6 * MS, accept_length=2.0)
    assert [row.batch for row in rows] == [1, 2, 4, 8]
    last = rows[-1]
    assert last.verify_ns == pytest.approx(13 * MS)
    assert last.cycle_ns == pytest.approx(15 * MS)
    assert last.tokens_per_second == pytest.approx(8 * 2 / 15e-3)
    assert last.break_even is None  # no plain step was measured


def test_break_even_of_a_batch_needs_a_plain_step_among_the_points() -> None:
    found = line((8, 10), plain=(2, 4))
    assert found is not None
    (row,) = growth_of(found, width=4, cycle_ns=12 * MS, verify_ns=10 * MS, accept_length=2.5)[-1:]
    assert row.batch == 2
    assert row.break_even == pytest.approx(3.0)
    assert row.speed_up == pytest.approx(2.5 / 3.0)
