"""What SGLang's accept rate counts, on both sides of the border 0.5.11."""

from __future__ import annotations

import pytest

from specscope.traces.accept_rates import rate_of_drafts

# A chain of 3 that accepts 1.1 of 3 a pass: 2.1 of 4 with the bonus token.
WITHOUT, WITH = 1.1 / 3, 2.1 / 4


@pytest.mark.parametrize(
    ("version", "printed"),
    [
        ("0.5.4", WITH),
        ("0.5.8.post1", WITH),
        ("0.5.9", WITH),
        ("0.5.10", WITH),
        ("0.5.11", WITHOUT),
        ("0.5.12.post1", WITHOUT),
        ("0.6.0", WITHOUT),
    ],
)
def test_a_rate_of_every_version_becomes_that_of_the_drafts(version: str, printed: float) -> None:
    assert rate_of_drafts(printed, version, 3, 4) == pytest.approx(WITHOUT)


@pytest.mark.parametrize(
    ("version", "draft_tokens", "rate"),
    [
        ("0.5.4", 16, (WITH * 4 - 1) / 3),  # by the steps
        ("0.5.7", 16, None),  # not known which
        ("0.5.9", 16, (WITH * 16 - 1) / 15),  # by all that is verified
        ("0.5.11", 16, WITH),
    ],
)
def test_the_rate_of_a_tree_divides_by_what_its_version_does(
    version: str, draft_tokens: int, rate: float | None
) -> None:
    assert rate_of_drafts(WITH, version, 3, draft_tokens) == (
        None if rate is None else pytest.approx(rate)
    )


@pytest.mark.parametrize("version", [None, "", "main", "٠.٥.١"])
def test_without_a_version_nothing_is_said(version: str | None) -> None:
    assert rate_of_drafts(0.5, version, 3, 4) is None


def test_a_rate_too_low_to_hold_the_bonus_token_is_none() -> None:
    assert rate_of_drafts(0.1, "0.5.9", 3, 4) is None
