"""Speed-up, break-even, and which rows of a sweep can be told apart."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.profiler import sweep_figures, sweep_file
from specscope.profiler.sweep_figures import Row


def figure(*values: float) -> dict[str, Any]:
    return {
        "value": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "values": list(values),
    }


def plain(step: tuple[float, ...], batch: int = 1) -> Row:
    rate = figure(*(1e3 * batch / value for value in step))
    return sweep_file.empty(0, batch, None, tokens_per_second=rate, step_ms=figure(*step))


def row(steps: int, cycle: tuple[float, ...], accept: tuple[float, ...], batch: int = 1) -> Row:
    rates = (1e3 * batch * a / c for a, c in zip(accept, cycle, strict=True))
    return sweep_file.empty(
        steps,
        batch,
        None,
        tokens_per_second=figure(*rates),
        cycle_ms=figure(*cycle),
        accept_length=figure(*accept),
    )


def compared(*rows: Row) -> Row:
    return sweep_figures.with_comparisons(rows)[-1]


def test_the_founding_story_loses_a_fifth() -> None:
    """71 tokens/s at accept length 2.1 against 90 tokens/s: break-even 2.66."""
    cycle, step = 1e3 * 2.1 / 71, 1e3 / 90
    found = compared(plain((step,) * 4), row(5, (cycle,) * 4, (2.1,) * 4))
    assert found["break_even_accept_length"] == pytest.approx(2.662, abs=0.001)
    assert found["speedup"]["value"] == pytest.approx(71 / 90, abs=0.0001)
    assert found["pays"] == "no"


def test_a_cycle_longer_than_all_its_tokens_are_worth_never_pays() -> None:
    found = compared(plain((10.0,) * 4), row(1, (25.0,) * 4, (1.6,) * 4))
    assert found["pays"] == "never"


def test_a_cycle_that_was_once_short_enough_is_no_never() -> None:
    """As seen on a busy machine: the median says never, one repetition does not."""
    cycles = (9.48, 13.4, 13.4, 14.0)
    found = compared(plain((3.66, 3.8, 3.8, 3.9)), row(2, cycles, (2.2,) * 4))
    assert found["break_even_accept_length"] > 3
    assert found["pays"] == "no"


def test_three_repetitions_never_tell() -> None:
    """By chance three lie beyond three others once in ten times."""
    found = compared(plain((10.0,) * 3), row(3, (12.0,) * 3, (2.4,) * 3))
    assert found["speedup"]["value"] == pytest.approx(2.0)
    assert found["pays"] == "unclear"


def test_a_speed_up_on_both_sides_of_one_is_unclear() -> None:
    found = compared(plain((10.0,) * 4), row(3, (20.0,) * 4, (1.9, 2.0, 2.1, 2.2)))
    assert found["pays"] == "unclear"


def test_a_row_of_another_batch_is_no_baseline() -> None:
    found = compared(plain((10.0,) * 4, batch=8), row(3, (20.0,) * 4, (2.5,) * 4))
    assert found["speedup"] is found["pays"] is None


def test_a_server_that_counts_no_verifications_is_not_compared() -> None:
    blind = sweep_file.empty(3, 1, None, tokens_per_second=figure(100.0), step_ms=figure(10.0))
    assert compared(plain((10.0,) * 4), blind)["speedup"] is None


def test_rows_without_figures_are_compared_with_nothing() -> None:
    failed = sweep_file.empty(2, 1, "the server did not start")
    rows = sweep_figures.with_comparisons([plain((10.0,) * 4), failed])
    assert rows[1]["pays"] is None
    assert sweep_figures.best(rows) == []


@given(st.integers(1, 6), st.integers(1, 6))
def test_enough_repetitions_by_counting_every_order(first: int, second: int) -> None:
    orders = list(itertools.combinations(range(first + second), first))
    beyond = sum(
        1 for o in orders if o == tuple(range(first)) or o == tuple(range(second, first + second))
    )
    # n = m = 1 has two orders and both are such.
    assert sweep_figures.enough(first, second) == (beyond / len(orders) <= 0.05)


rates = st.lists(st.integers(50, 60), min_size=4, max_size=5)


@given(st.lists(rates, min_size=2, max_size=5))
def test_the_best_row_is_told_apart_from_a_row_iff_every_repetition_is_faster(
    found: list[list[int]],
) -> None:
    rows = [
        sweep_file.empty(steps, 1, None, tokens_per_second=figure(*values))
        for steps, values in enumerate(found)
    ]
    (entry,) = sweep_figures.best(rows)
    top = max(statistics.median(values) for values in found)
    mine = found[entry["steps"]]
    assert statistics.median(mine) == top
    near = [
        steps
        for steps, values in enumerate(found)
        if steps != entry["steps"] and not all(one > other for one in mine for other in values)
    ]
    assert entry["not_told_apart_from"] == near
    assert entry["told_apart"] == (not near)
