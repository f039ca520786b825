"""Break-even of our own recordings, from the figures measured in the same servers."""

from __future__ import annotations

from functools import cache

import pytest

import specscope
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Throughput
from specscope.analyzers.unprofiled import Reference
from specscope.traces.errors import UsageError
from tests.shared import shared_path

OWN = shared_path("traces", "own")


@cache
def plain(name: str) -> Report:
    return analyze(specscope.load(OWN / name, cache=False))


def speculating(name: str, baseline: str | None, reference: Reference | None = None) -> Throughput:
    inputs = Inputs(plain=plain(baseline) if baseline else None)
    options = Options(reference or Reference(), inputs=inputs)
    found = analyze(specscope.load(OWN / name, cache=False), options).throughput
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "baseline", "rate", "cycle_ms", "accept_length", "plain_ms", "break_even"),
    [
        ("tp2-8b-eagle3-k3-nvlink-bs1", "tp2-8b-plain-nvlink-bs1", 309.6, 6.86, 2.12, 3.25, 2.11),
        ("tp2-70b-eagle3-k3-shm-bs8", "tp2-70b-plain-shm-bs8", 454.0, 36.89, 2.08, 23.17, 1.59),
        (
            "tp2-70b-eagle3-k3-nvlink-bs8",
            "tp2-70b-plain-nvlink-bs8",
            570.0,
            29.11,
            2.08,
            19.94,
            1.46,
        ),
        ("tp4-70b-eagle3-k3-shm-bs1", "tp4-70b-plain-shm-bs1", 108.6, 19.28, 2.08, 14.40, 1.34),
    ],
)
def test_break_even_of_a_recording(
    name: str,
    baseline: str,
    rate: float,
    cycle_ms: float,
    accept_length: float,
    plain_ms: float,
    break_even: float,
) -> None:
    found = speculating(name, baseline)
    assert found.baseline is not None
    assert found.acceptance is not None
    assert not found.profiled
    assert round(found.cycle_ns / 1e6, 2) == cycle_ms
    assert round(found.baseline.step_ns / 1e6, 2) == plain_ms
    assert round(found.acceptance.accept_length, 2) == accept_length
    assert round(found.break_even or 0, 2) == break_even
    # The rate of another of the three runs: accept lengths of runs differ by a part of a percent.
    assert found.tokens_per_second == pytest.approx(rate, rel=0.01)
    assert found.acceptance.simulated
    assert "simulated" in found.acceptance.name


def test_stages_of_the_unprofiled_cycle_add_up_to_it() -> None:
    found = speculating("tp2-70b-eagle3-k3-shm-bs8", None)
    assert sum(one.ns for one in found.stages) == pytest.approx(found.cycle_ns, rel=1e-9)
    for one in found.stages:
        low, high = one.range_ns
        assert low <= one.ns <= high


def test_without_a_baseline_there_is_a_rate_and_no_break_even() -> None:
    found = speculating("tp2-8b-eagle3-k3-nvlink-bs1", None)
    assert found.tokens_per_second == pytest.approx(309.6, rel=0.01)
    assert found.break_even is None


def test_an_accept_length_that_is_given_goes_before_the_file() -> None:
    found = speculating("tp2-8b-eagle3-k3-nvlink-bs1", None, Reference(accept_length=3.0))
    assert found.acceptance is not None
    assert (found.acceptance.accept_length, found.acceptance.source) == (3.0, "--accept-length")
    assert not found.acceptance.simulated
    assert [one.source for one in found.others] == ["meta.json"]
    # The option says nothing of positions: the file's are kept.
    assert found.positions is found.others[0]


@pytest.mark.parametrize(
    ("baseline", "why"),
    [
        ("tp2-8b-plain-nvlink-bs1", "model"),
        ("tp2-70b-plain-shm-bs1", "batch"),
        ("tp2-70b-plain-nvlink-bs8", "link"),
        ("tp4-70b-plain-shm-bs1", "TP"),
        ("tp2-70b-eagle3-k3-shm-bs8", "speculates"),
    ],
)
def test_a_baseline_of_another_server_is_refused(baseline: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as error:
        speculating("tp2-70b-eagle3-k3-shm-bs8", baseline)
    assert "\n" not in str(error.value)
