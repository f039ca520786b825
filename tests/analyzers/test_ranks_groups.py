"""Several process groups: each is matched and measured by itself, with the waits put in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.analyzers.group_rows import Group
from tests.analyzers.drawn_groups import DrawnGroups, Kind, Ranks, draw_groups
from tests.analyzers.drawn_ranks import RULES, Distortion, collectives_of
from tests.analyzers.test_ranks_drawn import source

NCCL = "ncclDevKernel_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL = (0, 1, 2, 3)
PAIRS = ((0, 1), (2, 3))
TP = Kind(PAIRS, group_name="attn_tp")
WORLD = Kind((ALL,), NCCL.format("AllGather"), ("_allgather_base",), "world")
EXPERTS = Kind((ALL,), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
               ("all_to_allv",), "moe_ep")  # fmt: skip
DEEP_EP = Kind((ALL,), "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", ("",), "moe_ep")
PIPE = Kind(((0, 2), (1, 3)), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            ("send", "recv"), "pp")  # fmt: skip
CLOCKS = [Distortion(), Distortion(120_000), Distortion(-250_000), Distortion(40_000)]


def every(count: int) -> Callable[[int], int]:
    """Every so manyth collective is of the second kind."""
    return lambda index: int(index % count == count - 1)


def lateness(ns: int, of: Ranks, step: int = 4) -> Callable[[int, int], int]:
    """The ranks are late at every `step`th collective."""
    return lambda index, rank: ns if rank in of and index % step == 1 else 0


@cache
def collective_kinds() -> list[str]:
    one = source()
    ops = one.rank.ops
    return RULES.families([ops.names[ops.name[row]] for row in collectives_of(one)])


def part(group: Group, ranks: Ranks) -> Group:
    [found] = [
        one
        for one in group.parts
        if one.measured is not None and one.measured.matched.ranks == ranks
    ]
    return found


def check(drawn: DrawnGroups, *groups: Ranks) -> Group:
    """Wait within 2 us a collective, transfer within 5 %, for every member of each group."""
    found = drawn.group()
    assert not found.refused
    assert {one.ranks for one in found.parts} == set(groups)
    for ranks in groups:
        measured = part(found, ranks).measured
        assert measured is not None
        rows = collectives_of(drawn.attributed[0])[drawn.of(ranks)]
        assert (measured.matched.op == rows).all()
        assert np.abs(measured.times.wait - drawn.wait(ranks)).max() <= 2_000
        true = drawn.transfer(ranks).sum(axis=1)
        assert measured.times.transfer.sum(axis=1) == pytest.approx(true, rel=0.05)
    return found


def test_two_tensor_parallel_groups_of_a_world_are_never_matched_with_each_other() -> None:
    """Replicas: nobody of one group waits for the other."""
    drawn = draw_groups(source(), [TP], lambda _: 0, CLOCKS, lateness(90_000, (3,)))
    found = check(drawn, *PAIRS)
    assert part(found, (0, 1)).measured is not None
    slow, quick = found.row("verify", 2, "attn_tp (ranks 2-3)"), found.row(
        "verify", 0, "attn_tp (ranks 0-1)"
    )  # fmt: skip
    assert slow is not None and quick is not None
    assert slow.wait_ns > 1_000_000 > quick.wait_ns
    late = found.row("verify", 3, "attn_tp (ranks 2-3)")
    assert late is not None and (late.cause, late.late_share) == (
        "compute",
        pytest.approx(0.25, abs=0.05),
    )  # noqa: E501
    assert "of attn_tp (ranks 2-3) rank 3 is late" in found.sentence


# On one host the clocks are as one; elsewhere they follow from what most collectives agree on.
ONE_HOST = [Distortion()] * 4


@pytest.mark.parametrize(
    ("recorded", "clocks", "least"),
    [(True, CLOCKS, 60_000), (False, CLOCKS, 30_000), (False, ONE_HOST, 60_000)],
)
def test_data_parallel_attention_has_rows_for_attention_groups_and_the_world(
    recorded: bool, clocks: list[Distortion], least: int
) -> None:
    """Where kernels record no group the layout follows from who leaves together."""
    kinds = collective_kinds()
    late = np.random.default_rng(7).integers(least, 60_001, len(kinds))

    def kind_of(index: int) -> int:
        return int(index % 4 == 3 or kinds[index] == "nccl.allgather")

    def of_rank(index: int, rank: int) -> int:
        return int(late[index]) if rank in (2, 3) and index % 4 == 1 else 0

    drawn = draw_groups(source(), [TP, WORLD], kind_of, clocks, of_rank, recorded=recorded)
    found = check(drawn, *PAIRS, ALL)
    waits = {
        rank: sum(r.wait_ns for r in found.rows if r.rank == rank and "world" in (r.group or ""))
        for rank in ALL
    }
    assert min(waits[0], waits[1]) > 10 * max(waits[2], waits[3])


@pytest.mark.parametrize(("kind", "family"), [(EXPERTS, "nccl.alltoall"), (DEEP_EP, "ep.dispatch")])
def test_all_to_alls_of_experts_are_a_kind_of_their_own(kind: Kind, family: str) -> None:
    drawn = draw_groups(source(), [TP, kind], every(3), CLOCKS, lateness(60_000, (1,)))
    found = check(drawn, *PAIRS, ALL)
    measured = part(found, ALL).measured
    assert measured is not None and set(measured.matched.kind) == {family}


def test_a_pipeline_has_pairs_that_send_and_receive() -> None:
    """The receiving ranks wait for the senders, which are late."""
    drawn = draw_groups(source(), [TP, PIPE], every(18), CLOCKS, lateness(60_000, (0, 1), 9))
    found = check(drawn, *PAIRS, (0, 2), (1, 3))
    measured = part(found, (0, 2)).measured
    assert measured is not None
    assert set(measured.matched.kind) == {"nccl.sendrecv"}
    assert measured.matched.names == (
        ("send",) * len(measured.matched),
        ("recv",) * len(measured.matched),
    )  # noqa: E501
    waited = measured.times.wait.sum(axis=1)
    assert waited[1] > 100_000 > waited[0]
