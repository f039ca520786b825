"""Acceptance that cannot be is refused with one line; what only looks wrong is doubted."""

from __future__ import annotations

import pytest

from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.acceptance_checks import checked
from specscope.analyzers.acceptance_sources import without_k
from specscope.analyzers.inputs import Inputs
from specscope.traces.served import Served


@pytest.mark.parametrize(
    ("length", "k", "kept", "code"),
    [
        (4.0, 3, True, None),
        (4.004, 3, True, None),
        (4.1, 3, False, "acceptance_impossible"),
        (500.0, 3, False, "acceptance_impossible"),
        (500.0, None, True, "acceptance_doubtful"),
        (5000.0, None, False, "acceptance_impossible"),
        (5000.0, 9000, False, "acceptance_impossible"),
        (8.0, None, True, None),
    ],
)
def test_a_cycle_gives_at_most_its_draft_tokens_and_one(
    length: float, k: int | None, kept: bool, code: str | None
) -> None:
    other = Acceptance(2.0, "y")
    found, notes = checked([Acceptance(length, "metrics x"), other], k)
    assert [one.source for one in found] == (["metrics x", "y"] if kept else ["y"])
    assert [note.code for note in notes] == ([code] if code else [])
    assert all("metrics x" in note.text for note in notes)


def test_counts_that_need_k_say_that_k_is_missing() -> None:
    inputs = Inputs(served=(Served("server log x", "vllm", accepted=5, drafted=9),))
    (note,) = without_k(inputs, None)
    assert (note.code, "k is missing" in note.text) == ("k_missing", True)
    assert without_k(inputs, 3) == []
