"""A cycle verifies in a step of the target, so a plain step that is longer is another server's."""

from __future__ import annotations

import pytest

from specscope.analyzers.baseline import impossible
from specscope.analyzers.throughput import Baseline

MS = 1e6


@pytest.mark.parametrize(
    ("cycle", "profiled", "step", "step_profiled", "refused"),
    [
        (6.9, False, 14.9, False, True),
        (9.0, True, 14.9, True, True),
        (14.0, False, 14.9, False, False),
        (12.0, False, 14.9, True, False),
        (8.0, False, 14.9, True, True),
    ],
)
def test_a_cycle_shorter_than_the_plain_step_refuses_it(
    cycle: float, profiled: bool, step: float, step_profiled: bool, refused: bool
) -> None:
    notes = impossible(cycle * MS, profiled, Baseline(step * MS, "--baseline", step_profiled))
    assert [note.code for note in notes] == (["baseline_impossible"] if refused else [])
    assert impossible(cycle * MS, profiled, None) == []
