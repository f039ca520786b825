"""The cycle without a profiler: from the options, else from the run."""

from __future__ import annotations

import pytest

from specscope.analyzers.unprofiled import Reference, cycle_ns
from specscope.traces.errors import UsageError


def test_cycle_is_batch_times_accept_length_over_the_rate() -> None:
    given = Reference(tokens_per_second=71.0, accept_length=2.1, batch=1)
    found = cycle_ns(given, {}, None)
    assert found is not None
    assert found[0] / 1e6 == pytest.approx(29.58, abs=0.01)


def test_an_option_overrides_the_run() -> None:
    found = cycle_ns(Reference(cycle_ms=7.0), {"cycle_ms": 9.0}, None)
    assert found == (7e6, "--cycle-ms")


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(UsageError, match="--accept-length and --batch"):
        cycle_ns(Reference(tokens_per_second=71.0), {}, None)


def test_the_batch_of_the_trace_is_taken_where_none_is_given() -> None:
    found = cycle_ns(Reference(tokens_per_second=100.0, accept_length=2.0), {}, 8)
    assert found is not None
    assert found[0] == pytest.approx(160e6)


def test_nothing_known_is_nothing() -> None:
    assert cycle_ns(Reference(), {}, 1) is None


@pytest.mark.parametrize("given", [Reference(cycle_ms=0.0), Reference(cycle_ms=-1.0)])
def test_a_cycle_of_no_length_is_refused(given: Reference) -> None:
    with pytest.raises(UsageError, match="above 0"):
        cycle_ns(given, {}, None)


def test_a_cycle_measured_at_another_batch_is_not_used() -> None:
    assert cycle_ns(Reference(), {"cycle_ms": 8.0, "batch": 1}, 2) is None
    assert cycle_ns(Reference(), {"cycle_ms": 8.0, "batch": 2}, 2) is not None


def test_an_accept_length_under_one_is_refused() -> None:
    given = Reference(tokens_per_second=71.0, accept_length=0.5, batch=1)
    with pytest.raises(UsageError, match="bonus token"):
        cycle_ns(given, {}, None)
