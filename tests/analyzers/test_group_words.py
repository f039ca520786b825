"""The sentence about wire and late ranks says what outweighs what."""

from __future__ import annotations

import pytest

from specscope.analyzers.group_rows import RankStage
from specscope.analyzers.group_words import sentence


def row(
    rank: int | None, wait: float, transfer: float, lateness: float = 0.5, cause: float = 0.9
) -> RankStage:
    return RankStage(
        rank=rank,
        stage="verify",
        calls=8,
        wait_ns=wait * 1e7,
        transfer_ns=transfer * 1e7,
        wait_share=wait,
        transfer_share=transfer,
        fused=False,
        late_share=None if rank is None else lateness,
        late_ns=None if rank is None else lateness * 1e6,
        lateness_share=None if rank is None else lateness,
        cause=None if rank is None else "compute",
        cause_share=None if rank is None else cause,
        end_skew_ns=None,
    )


def said(wait: float, transfer: float) -> str:
    """Rank 0 waits that share of the cycle for rank 1."""
    rows = [row(None, wait / 2, transfer), row(0, wait, transfer, 0.1), row(1, 0, transfer, 0.9)]
    return sentence(rows)


@pytest.mark.parametrize(
    ("wait", "transfer", "begins"),
    [
        (0.02, 0.03, "Neither is the wire slow nor a rank late: "),
        (0.04, 0.30, "The wire, not a late rank: "),
        (0.30, 0.04, "A late rank, not the wire: "),
        (0.20, 0.25, "Both the wire and a late rank: "),
    ],
)
def test_it_says_which_of_the_two_it_is(wait: float, transfer: float, begins: str) -> None:
    assert said(wait, transfer).startswith(begins)


def test_it_names_the_late_rank_how_late_and_why() -> None:
    assert said(0.3, 0.04).endswith(
        "in verify rank 1 is late, by 900 us a cycle and last in 90 % of the collectives, mostly "
        "because its compute takes longer."
    )


def test_nobody_is_named_where_no_rank_waits_long() -> None:
    assert "rank 1" not in said(0.005, 0.3)


def test_ranks_that_are_late_in_turn_are_called_so() -> None:
    rows = [row(None, 0.2, 0.01), *(row(rank, 0.2, 0.01, 0.25) for rank in range(4))]
    assert "the ranks are late in turn" in sentence(rows)


def test_without_collectives_there_is_no_sentence() -> None:
    assert sentence([]) == ""


def test_two_ranks_that_are_late_alike_are_late_in_turn() -> None:
    rows = [row(None, 0.2, 0.01), *(row(rank, 0.2, 0.01, 0.5) for rank in range(2))]
    assert "the ranks are late in turn" in sentence(rows)


def test_a_cause_of_half_of_the_lateness_is_not_called_most_of_it() -> None:
    rows = [row(None, 0.2, 0.01), row(0, 0.3, 0.01, 0.1), row(1, 0, 0.01, 0.9, cause=0.5)]
    assert sentence(rows).endswith(", partly because its compute takes longer.")
