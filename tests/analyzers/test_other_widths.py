"""What a verify costs by tokens, from other recordings of the server (`--also`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import specscope
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.other_widths import points_from
from specscope.analyzers.report import Report
from specscope.analyzers.verify_cost import STARTS_APART, Line, Point, line_through
from specscope.traces.errors import UsageError

DATA = Path(__file__).resolve().parents[1] / "data"
MS = 1e6


@pytest.fixture(scope="module")
def experts() -> Report:
    return analyze(specscope.load(DATA / "own-moe-tp2/tp2-moe-eagle3-k3-nvlink-bs8", cache=False))


def test_a_recording_gives_the_tokens_and_the_cost_of_its_verify(experts: Report) -> None:
    assert experts.throughput is not None
    (point,) = points_from([experts], experts.facts, profiled=False)
    assert point.tokens == 32  # 8 sequences, 3 draft tokens and the one before
    assert point.ns == experts.throughput.stage_ns("verify")


def test_a_recording_of_another_model_is_refused(experts: Report) -> None:
    with pytest.raises(UsageError, match=r"--also is of model 'qwen3moe', this run of 'llama8b'"):
        points_from([experts], {**experts.facts, "model": "llama8b"}, profiled=False)


def test_a_recording_without_speculation_is_refused(experts: Report) -> None:
    plain = analyze(specscope.load(DATA / "own-moe-tp2/tp2-moe-plain-nvlink-bs8", cache=False))
    with pytest.raises(UsageError, match="--also holds no verify"):
        points_from([plain], experts.facts, profiled=False)


def test_a_profiled_cycle_is_not_held_against_one_without_profiler(experts: Report) -> None:
    with pytest.raises(UsageError, match="without a profiler is not known of this run"):
        points_from([experts], experts.facts, profiled=True)


def test_the_same_recording_adds_no_second_width(experts: Report) -> None:
    again = analyze(experts.run, Options(inputs=Inputs(others=(experts,))))
    assert again.throughput is not None
    assert again.throughput.verify_line is None


def line(*points: tuple[float, float]) -> Line:
    found = line_through([Point(tokens, ms * MS, "measured") for tokens, ms in points])
    assert found is not None
    return found


def test_between_two_widths_a_verify_costs_what_lies_between_them() -> None:
    found = line((4, 20), (16, 25), (64, 26))
    assert found.between(32) == (25 * MS, 26 * MS)
    assert found.between(16) == (25 * MS, 25 * MS)
    assert found.between(3) is None
    assert found.between(65) is None


def test_the_slope_of_two_recordings_is_no_better_known_than_starts_differ() -> None:
    found = line((8, 30), (16, 30))
    error = STARTS_APART * (2**0.5) * 30 * MS / 8
    assert found.per_token_range_ns == pytest.approx((0, error))
