"""Bandwidth by the definitions of nccl-tests (doc/PERFORMANCE.md), with numbers worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specscope.analyzers.bandwidth import rates, table
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collective_times import Times
from specscope.analyzers.columns import ABSENT
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.fused_bounds import bounds
from specscope.analyzers.message_sizes import (
    MODEL_CONFIG,
    RECORDED,
    UNKNOWN_SIZE,
    Models,
    Sizes,
    sizes_of,
)
from specscope.analyzers.words import ACCEPT, DECODE, DRAFT, DRAFT_EXTEND, VERIFY
from specscope.traces.model_config import ModelWidth

WIDTH = ModelWidth(8192, 2)  # a 70B model in bfloat16


def matched(kinds: list[str], ranks: int = 2, **more: Any) -> Matched:
    count = len(kinds)
    facts: dict[str, Any] = {
        "ranks": tuple(range(ranks)),
        "op": np.tile(np.arange(count), (ranks, 1)),
        "stage": np.full(count, VERIFY, np.int64),
        "cycle": np.zeros((ranks, count), np.int64),
        "kind": tuple(kinds),
        "fused": np.array([kind.endswith("norm") for kind in kinds]),
        "in_graph": np.ones(count, dtype=bool),
        "group": (None,) * count,
        "sequence": np.full(count, ABSENT),
        "bytes": np.full(count, ABSENT),
        "by": "launch",
        "total": (count,) * ranks,
        "differing": (),
    }
    return Matched(**(facts | more))


def times(arrival: list[list[int]], end: list[list[int]]) -> Times:
    at, left = np.array(arrival), np.array(end)
    nothing = np.zeros(at.shape[1], np.int64)
    return Times(at, left, at, at.max(axis=0), nothing - 1, nothing, nothing, nothing)


def recorded(*sizes: int) -> Sizes:
    size = np.array(sizes, np.int64)
    known = np.where(size == ABSENT, UNKNOWN_SIZE, RECORDED).astype(np.int32)
    return Sizes(size, known)


@pytest.mark.parametrize(
    ("kind", "n", "message", "algbw", "busbw"),
    [
        # 1,000,000 bytes go in on each rank; the transfer takes 100,000 ns: 10 GB/s where S is
        # those bytes. Eight ranks: all-reduce 2 x 7/8 = 1.75, the others 7/8; two: 1 and 1/2.
        ("nccl.allreduce", 8, 1_000_000, 10.0, 17.5),
        ("nccl.allreduce", 2, 1_000_000, 10.0, 10.0),
        ("custom.allreduce", 4, 1_000_000, 10.0, 15.0),
        # S of an all-gather is what comes out: sendcount x size x n.
        ("nccl.allgather", 8, 8_000_000, 80.0, 70.0),
        ("nccl.allgather", 2, 2_000_000, 20.0, 10.0),
        # S of a reduce-scatter is recvcount x size x n, which is what goes in.
        ("nccl.reducescatter", 8, 1_000_000, 10.0, 8.75),
        ("ep.alltoall", 8, 1_000_000, 10.0, 8.75),
        ("nccl.broadcast", 8, 1_000_000, 10.0, 10.0),
        ("nccl.reduce", 8, 1_000_000, 10.0, 10.0),
        ("nccl.sendrecv", 2, 1_000_000, 10.0, 10.0),
    ],
)
def test_bandwidth_is_by_the_definitions_of_nccl_tests(
    kind: str, n: int, message: int, algbw: float, busbw: float
) -> None:
    one = matched([kind], n)
    when = times([[0]] * n, [[100_000]] * n)
    found = rates(one, when, recorded(1_000_000), n)
    assert found.message.tolist() == [message]
    assert found.algbw == pytest.approx(np.full((n, 1), algbw))
    assert found.busbw == pytest.approx(np.full((n, 1), busbw))


def test_waiting_is_no_part_of_the_time_that_divides() -> None:
    found = rates(
        matched(["nccl.allreduce"]), times([[0], [90_000]], [[100_000]] * 2), recorded(10_000), 2
    )
    assert found.algbw == pytest.approx(np.ones((2, 1)))


@pytest.mark.parametrize(
    ("kind", "size", "end"),
    [
        ("nccl.other", 1000, 100),  # no definition
        ("custom.allreduce_norm", 1000, 100),  # its time holds the norm
        ("nccl.allreduce", ABSENT, 100),
        ("nccl.allreduce", -4, 100),  # as a damaged trace has it
        ("nccl.allgather", (1 << 63) - 1, 100),
        ("nccl.allreduce", 1000, 0),  # no transfer within the clocks' error
    ],
)
def test_where_something_is_missing_there_is_no_rate(kind: str, size: int, end: int) -> None:
    found = rates(matched([kind]), times([[0], [0]], [[end], [end]]), recorded(size), 2)
    assert np.isnan(found.algbw).all() and np.isnan(found.busbw).all()


def test_a_group_of_which_ranks_are_missing_has_no_rates() -> None:
    one, when = matched(["nccl.allreduce"]), times([[0], [0]], [[100], [100]])
    found = rates(one, when, recorded(1000), None)
    assert np.isnan(found.algbw).all()
    assert table(one, when, recorded(1000), found, ()).rows == ()


def test_the_table_is_by_library_and_size_class_with_the_floor_of_the_smallest() -> None:
    kinds = ["nccl.allreduce"] * 4 + ["custom.allreduce", "custom.allreduce_norm", "nccl.other"]
    one = matched(kinds)
    ends = [300, 200, 1000, 3000, 50, 80, 70]
    # Rank 1 arrives last at the second: its own part takes 150; the other's 130 is by clocks.
    seen = [300, 180, *ends[2:]]
    when = times([[0] * 7, [0, 50, 0, 0, 0, 0, 0]], [seen, ends])
    sizes = recorded(1024, 1500, 4096, 4096, 1024, 1024, ABSENT)
    found = table(one, when, sizes, rates(one, when, sizes, 2), ())
    assert [(r.library, r.kind, r.low_bytes, r.high_bytes, r.count) for r in found.rows] == [
        ("custom", "allreduce", 1024, 1024, 1),
        ("custom", "allreduce_norm", 1024, 1024, 1),
        ("nccl", "allreduce", 1024, 1500, 2),
        ("nccl", "allreduce", 4096, 4096, 2),
    ]
    assert [row.transfer_ns for row in found.rows] == [50, 80, 225, 2000]
    assert found.rows[1].algbw is None
    # 4,096 bytes in 1,000 and in 3,000 ns: the median of 4.096 and 1.365.
    assert found.rows[3].algbw == pytest.approx((4.096 + 4.096 / 3) / 2)
    assert [(floor.library, floor.kind, floor.ns) for floor in found.floors] == [
        ("custom", "allreduce", 50),
        ("custom", "allreduce_norm", 80),
        ("nccl", "allreduce", 150),
    ]
    assert found.unknown == 1


def test_only_counted_cycles_enter_the_table() -> None:
    one = matched(["nccl.allreduce"] * 2, cycle=np.array([[0, 1], [0, 1]]))
    when = times([[0, 0]] * 2, [[100, 900]] * 2)
    sizes = recorded(1024, 1024)
    found = table(one, when, sizes, rates(one, when, sizes, 2), (1,))
    assert [(row.count, row.transfer_ns) for row in found.rows] == [(1, 900)]


def cycles(kind: str = "speculation", **more: Any) -> Cycles:
    zero = np.zeros(1, np.int64)
    facts: dict[str, Any] = {"batch": [None], "tokens": [None], "k": [None]} | more
    mark = np.zeros(1, np.int8)
    return Cycles(zero, zero + 1000, zero, zero, [None], [kind], mark=mark, **facts)


STAGES = np.array([DRAFT, VERIFY, ACCEPT, DRAFT_EXTEND])
NONE = None


@pytest.mark.parametrize(
    ("facts", "context", "tokens"),
    [
        # Batch 8, k 3: draft 8 x 1 tokens, verify and draft-extend 8 x 4.
        ({"batch": [8], "k": [3]}, {}, [8, 32, NONE, 32]),
        ({"batch": [8]}, {"k": 3}, [8, 32, NONE, 32]),
        ({}, {"k": 3, "batch": 8}, [8, 32, NONE, 32]),
        ({"batch": [2], "k": [3]}, {"k": 5, "batch": 8}, [2, 8, NONE, 8]),
        ({"batch": [1]}, {"k": 3, "topk": 4, "draft_tokens": 16}, [4, 16, NONE, 16]),
        ({"batch": [1]}, {"k": 3, "topk": 4}, [4, NONE, NONE, NONE]),  # a tree of unknown size
        ({"tokens": [21]}, {}, [NONE, 21, NONE, NONE]),
        ({"batch": [8]}, {}, [8, NONE, NONE, NONE]),
        ({"batch": [1 << 70], "k": [3]}, {}, [NONE, NONE, NONE, NONE]),  # not meant
        ({"tokens": [1 << 70]}, {}, [NONE, NONE, NONE, NONE]),
        ({}, {"k": 3, "batch": 7.5}, [NONE, NONE, NONE, NONE]),
        ({}, {"k": 3}, [NONE, NONE, NONE, NONE]),
    ],
)
def test_tokens_of_a_stage_are_by_batch_and_k_or_unknown(
    facts: dict[str, Any], context: dict[str, Any], tokens: list[int | None]
) -> None:
    one = matched(["nccl.allreduce"] * 4, stage=STAGES)
    found = sizes_of(one, cycles(**facts), context, Models(WIDTH))
    expected = [ABSENT if count is None else count * 16_384 for count in tokens]
    assert found.bytes.tolist() == expected
    assert found.source.tolist() == [
        UNKNOWN_SIZE if count is None else MODEL_CONFIG for count in tokens
    ]


def test_a_recorded_size_goes_before_the_config() -> None:
    one = matched(["nccl.allreduce"] * 2, bytes=np.array([777, ABSENT]))
    found = sizes_of(one, cycles(batch=[8], k=[3]), {}, Models(WIDTH))
    assert found.bytes.tolist() == [777, 524_288]
    assert found.source.tolist() == [RECORDED, MODEL_CONFIG]


def test_only_all_reduces_carry_the_hidden_size() -> None:
    kinds = ["nccl.allgather", "custom.allreduce_norm", "nccl.broadcast", "custom.barrier"]
    found = sizes_of(matched(kinds), cycles(batch=[8], k=[3]), {}, Models(WIDTH))
    assert found.bytes.tolist() == [ABSENT, 524_288, ABSENT, ABSENT]


def test_the_drafts_own_config_is_for_the_drafts_stages_alone() -> None:
    one = matched(["nccl.allreduce"] * 4, stage=STAGES)
    facts = cycles(batch=[8], k=[3])
    both = sizes_of(one, facts, {}, Models(WIDTH, ModelWidth(1024, 4)))
    assert both.bytes.tolist() == [8 * 4096, 524_288, ABSENT, 32 * 4096]
    alone = sizes_of(one, facts, {}, Models(None, ModelWidth(1024, 4)))
    assert alone.bytes.tolist() == [8 * 4096, ABSENT, ABSENT, 32 * 4096]
    assert "the target's config" in sizes_of(one, facts, {}, Models(WIDTH)).assumption


def test_a_draft_whose_first_pass_is_no_stage_of_its_own_has_no_size() -> None:
    one = matched(["nccl.allreduce"] * 2, stage=np.array([VERIFY, DRAFT]))
    found = sizes_of(one, cycles(batch=[8], k=[3]), {}, Models(WIDTH))
    assert found.bytes.tolist() == [524_288, ABSENT]


def test_an_eager_draft_extend_has_no_size_for_it_may_read_accepted_tokens_alone() -> None:
    one = matched(["nccl.allreduce"] * 4, stage=STAGES, in_graph=np.zeros(4, dtype=bool))
    found = sizes_of(one, cycles(batch=[8], k=[3]), {}, Models(WIDTH))
    assert found.bytes.tolist() == [131_072, 524_288, ABSENT, ABSENT]


@pytest.mark.parametrize(("kind", "size"), [("decode", 131_072), ("prefill", ABSENT)])
def test_without_speculation_a_step_reads_one_token_a_sequence(kind: str, size: int) -> None:
    one = matched(["nccl.allreduce"], stage=np.array([DECODE]))
    found = sizes_of(one, cycles(kind, batch=[8]), {"k": 3}, Models(WIDTH))
    assert found.bytes.tolist() == [size]


def test_outside_of_whole_cycles_nothing_is_said() -> None:
    one = matched(["nccl.allreduce"] * 2, cycle=np.array([[-1, 1], [-1, 1]]))
    found = sizes_of(one, cycles(batch=[8], k=[3]), {}, Models(WIDTH))
    assert (found.bytes == ABSENT).all()
    assert found.assumption == ""


FUSED = ["custom.allreduce_norm", "custom.allreduce", "custom.allreduce", "nccl.allreduce"]
# Rank 1 arrives last: its own part tells the transfer, without a clock.
FUSED_TIMES = times([[0] * 4, [10] * 4], [[90, 70, 80, 30]] * 2)


def test_of_a_fused_all_reduce_the_wire_takes_at_least_what_a_plain_one_of_its_size_takes() -> None:
    """80 ns of transfer; the plain ones of its library take 60 and 70, NCCL's is another."""
    [bound] = bounds(matched(FUSED), FUSED_TIMES, recorded(64, 64, 64, 64), np.array([0]))
    assert (bound.stage, bound.calls, bound.wire_ns, bound.transfer_ns) == ("verify", 1, 60, 80)
    assert bound.reason == "the quickest plain all-reduce of its library and size takes as long"


def test_of_another_size_a_plain_all_reduce_bounds_nothing() -> None:
    [bound] = bounds(matched(FUSED), FUSED_TIMES, recorded(64, 32, 128, 64), np.array([0]))
    assert bound.wire_ns is None and bound.transfer_ns == 80
    assert bound.reason.startswith("no plain all-reduce of its library and size")


def test_without_sizes_those_of_the_same_stage_bound_it() -> None:
    stage = np.array([VERIFY, DRAFT, VERIFY, VERIFY])
    unknown = recorded(ABSENT, ABSENT, ABSENT, ABSENT)
    [bound] = bounds(matched(FUSED, stage=stage), FUSED_TIMES, unknown, np.array([0]))
    assert bound.wire_ns == 70
    assert "and stage" in bound.reason


def test_a_wire_is_never_slower_than_the_fused_kernel_itself() -> None:
    when = times([[0] * 4, [10] * 4], [[50, 70, 80, 30]] * 2)
    [bound] = bounds(matched(FUSED), when, recorded(64, 64, 64, 64), np.array([0]))
    assert (bound.wire_ns, bound.transfer_ns) == (40, 40)
