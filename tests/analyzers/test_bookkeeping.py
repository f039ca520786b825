"""Roles of bookkeeping kernels: each example, the shared names, the look-alikes."""

from __future__ import annotations

from collections import Counter

import pytest

from specscope.analyzers import bookkeeping
from specscope.analyzers.activities import ACTIVITIES, classify
from specscope.analyzers.bookkeeping import BIT_OF_ROLE, ROLES, Kernel, kernels


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.id)
def test_examples_hit_their_row_and_none_before(kernel: Kernel) -> None:
    assert kernel.examples
    hits = [kernels()[row].id if row >= 0 else None for row in bookkeeping.match(kernel.examples)]
    assert hits == [kernel.id] * len(kernel.examples)


def test_rows_are_sound() -> None:
    assert max(Counter(kernel.id for kernel in kernels()).values()) == 1
    for kernel in kernels():
        assert kernel.roles <= set(ROLES), kernel.id
        assert kernel.engines, kernel.id
        assert kernel.stage in (None, "draft", "verify", "accept", "draft_extend"), kernel.id
        assert (kernel.stage is None) == (not kernel.roles), kernel.id


@pytest.mark.parametrize(
    ("name", "roles", "stage"),
    [
        ("assign_draft_cache_locs_page_size_1", {"opens_draft", "draft"}, "draft"),
        ("build_tree_efficient(long*, long*)", {"ends_draft", "draft"}, "draft"),
        ("void VerifyTreeGreedy<int, long>(int*)", {"accept"}, "accept"),
        ("fill_bonus_tokens", {"ends_verify", "accept"}, "accept"),
        (
            "create_extend_after_decode_spec_info",
            {"opens_draft_extend", "draft_extend"},
            "draft_extend",
        ),
        ("_draft_topk1_finalize_kernel", {"draft_step", "draft"}, "draft"),
        ("_draft_topk1_partial_argmax_kernel", {"draft"}, "draft"),
        ("_verify_prefix_stage1", {"verify"}, "verify"),
        ("pad_draft_extend_query_kernel", {"draft_extend"}, "draft_extend"),
        ("_rejection_kernel", {"accept"}, "accept"),
        ("rejection_greedy_sample_kernel", {"accept", "target_first"}, "accept"),
        ("expand_kernel", {"accept", "target_first"}, "accept"),
        ("_synthetic_rejection_sample_kernel", {"accept", "simulated"}, "accept"),
        ("eagle_prepare_next_token_padded_kernel", {"draft", "target_first"}, "draft"),
        ("assign_req_to_token_pool", set(), None),
        ("_post_update_kernel", set(), None),
    ],
)
def test_roles(name: str, roles: set[str], stage: str | None) -> None:
    assert bookkeeping.roles([name]) == [frozenset(roles)]
    assert bookkeeping.own_stages([name]) == [stage]


@pytest.mark.parametrize(
    "name",
    [
        "canary_verify_kernel",
        "_draft_step_kernel",
        "_engram_gather_kernel",
        "_qwen4_ngram_hash_kernel",
        "_lora_expand_kernel",
        "gdn_decode_post_conv_mtp_kernel",
        "my_assign_draft_cache_locs",
        "_fwd_kernel",
        "get_num_kv_splits_triton",
        "compute_position_kernel",
        "Memcpy DtoD (Device -> Device)",
        "",
    ],
)
def test_look_alikes_prove_nothing(name: str) -> None:
    assert bookkeeping.roles([name]) == [frozenset()]


def test_no_engine_both_opens_with_draft_and_with_the_target() -> None:
    for kernel in kernels():
        assert not {"opens_draft", "target_first"} <= kernel.roles, kernel.id
        if "target_first" in kernel.roles:
            assert "sglang" not in kernel.engines, kernel.id


def test_bits() -> None:
    names = ["_fwd_kernel", "fill_bonus_tokens", "assign_draft_cache_locs"]
    assert bookkeeping.role_bits(names).tolist() == [
        0,
        BIT_OF_ROLE["ends_verify"] | BIT_OF_ROLE["accept"],
        BIT_OF_ROLE["opens_draft"] | BIT_OF_ROLE["draft"],
    ]
    assert bookkeeping.role_bits([]).tolist() == []


def test_bookkeeping_has_an_activity_of_its_own() -> None:
    names = [name for kernel in kernels() for name in kernel.examples]
    found = {ACTIVITIES[code] for code in classify(names)}
    assert found <= {"tree", "sampling", "attention", "kv_write", "rope", "elementwise"}
