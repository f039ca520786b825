"""What is said of the rate: gains and losses in words, what is not known, hostile names."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from specscope.analyzers.accept_positions import Sign
from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Baseline, StageCost, Throughput
from specscope.analyzers.token_value import Step, values_of
from specscope.dashboards.throughput_sections import throughput_grids, throughput_lines

MS = 1e6
STORY = Throughput(
    cycle_ns=29.6 * MS,
    cycle_source="--cycle-ms",
    profiled=False,
    batch=1,
    k=5,
    acceptance=Acceptance(2.1, "--accept-length"),
    baseline=Baseline(1e9 / 90, "--baseline-tokens-per-second"),
    stages=(
        StageCost("draft", 1.48 * MS, (1.0 * MS, 2.96 * MS)),
        StageCost("verify", 28.12 * MS, (26.6 * MS, 28.6 * MS)),
    ),
)


def report(found: Throughput | None) -> Report:
    return cast(Report, SimpleNamespace(throughput=found, speculates=True))


def said(found: Throughput | None) -> str:
    return " ".join(throughput_lines(report(found)))


def test_the_story_loses_and_a_free_draft_would_not_save_it() -> None:
    text = said(STORY)
    assert "70.9 tokens/s (batch 1, accept length 2.10 (--accept-length), cycle 29.60 ms" in text
    assert "Break-even accept length 2.66" in text
    assert "speculation loses 21.2 %" in text
    assert "Perfect acceptance: 6 tokens a cycle, 203 tokens/s, 2.25 x plain decoding." in text
    # The upper end of the draft's range: 29.6 / (29.6 - 2.96).
    assert "at most 1.11 x (estimate 1.05 x)" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"acceptance": Acceptance(3.0, "x")}, "speculation gains 12.6 %"),
        ({"acceptance": Acceptance(2.68, "x")}, "no gain, 1.01 x plain decoding"),
        ({"k": 1}, "Not even perfect acceptance would win: 2 tokens a cycle, 0.75 x"),
        ({"profiled": True}, "stretched by the profiler"),
        ({"profiled": True}, "the cycle is a profiled one, the step is not"),
        ({"baseline": Baseline(11 * MS, "x", True)}, "the step is a profiled one, the cycle"),
        ({"acceptance": Acceptance(2.1, "x", True)}, "2.10 (x, simulated by the server)"),
        ({"batch": None}, "Accept length 2.10"),
        ({"acceptance": None}, "Rate not known (cycle 29.60 ms"),
        ({"others": (Acceptance(2.5, "server log y"),)}, "log y says an accept length of 2.50"),
        ({"sign": Sign(True, "The first draft token fails.")}, "The first draft token fails."),
        ({"missing": ("batch: give --batch",)}, "Not known: batch: give --batch."),
        (
            {"acceptance": None, "baseline": None, "missing": ("a: give b", "c: give d")},
            "Not known: a: give b; c: give d.",
        ),
    ],
)  # fmt: skip
def test_every_case_has_its_words(changes: dict[str, Any], words: str) -> None:
    assert words in said(replace(STORY, **changes))


def test_sources_that_agree_are_not_listed() -> None:
    assert "says" not in said(replace(STORY, others=(Acceptance(2.15, "server log y"),)))


@pytest.mark.parametrize(
    ("verify", "words"),
    [
        ((0.0, 0.0), "500 us to draft (x)"),
        ((0.5, 0.5), "500 us to draft and 500 us to verify (x)"),
        ((0.0, 9.0), "and 0 us to 9.00 ms to verify"),
    ],
)
def test_costs_of_a_draft_token_are_said_and_the_best_number_is_left_to_the_replay(
    verify: tuple[float, float], words: str
) -> None:
    step = Step(0.5 * MS, (verify[0] * MS, verify[1] * MS), "x")
    known = Acceptance(1.81, "x", by_position=(0.8, 0.01))
    values = values_of((0.8, 0.01), 29.6 * MS, step, None)
    found = replace(STORY, k=2, positions=known, step=step, token_values=values)
    assert words in said(found)
    assert "specscope whatif --steps 1..8" in said(found)
    assert "highest with" not in said(found)


def test_names_of_files_are_shown_safely() -> None:
    hostile = "server log \x1b[31m\u202e.log"
    known = Acceptance(2.1, hostile, by_position=(0.5,))
    found = replace(STORY, acceptance=known, positions=known)
    texts = [*throughput_lines(report(found))]
    texts += [grid.title for grid in throughput_grids(report(found))]
    assert all(text.isprintable() for text in texts)


def test_without_a_cycle_there_is_no_section() -> None:
    assert throughput_lines(report(None)) == []
    assert throughput_grids(report(None)) == []
