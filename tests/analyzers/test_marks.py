"""Names of ranges are read as the tables say."""

from __future__ import annotations

import pytest

from specscope.analyzers import evidence_frames, marks
from specscope.analyzers.words import STAGES

EXAMPLES = [(rule, name) for rule in marks.rules() for name in rule.examples]


@pytest.mark.parametrize(("rule", "name"), EXAMPLES, ids=[name for _, name in EXAMPLES])
def test_every_example_hits_its_own_rule(rule: marks.Rule, name: str) -> None:
    mark = marks.read(name)
    assert mark is not None
    assert mark.rule == rule.id


@pytest.mark.parametrize("rule", evidence_frames.rules(), ids=lambda rule: rule.id)
def test_every_frame_example_is_the_stage_of_its_rule(rule: evidence_frames.Rule) -> None:
    assert evidence_frames.stage_of(rule.example) == rule.stage


@pytest.mark.parametrize(
    ("name", "batch", "tokens", "k", "kind"),
    [
        ("execute_context_0(0)_generation_4(16)", 4, 16, 3, "speculation"),
        ("execute_context_0(0)_generation_4(4)", 4, 4, 0, "decode"),
        ("execute_context_3(12)_generation_1(4)", 1, 4, None, "mixed"),
        ("execute_context_1(888_788544)_generation_0(0)", 1, 888, None, "prefill"),
        ("execute_context_0(0)_generation_0(0)", 0, 0, None, "empty"),
        ("execute_new_0_cached_4", 4, None, None, "cached"),
        ("execute_new_1_cached_3", 4, None, None, "mixed"),
        ("execute_new_2_cached_0", 2, None, None, "prefill"),
        ("execute_context_0(0)_generation_3(10)", 3, 10, None, "speculation"),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            *(32, 32, 0, "decode"),
        ),
    ],
)
def test_a_step_mark_gives_its_counts(
    name: str, batch: int, tokens: int | None, k: int | None, kind: str
) -> None:
    mark = marks.read(name)
    assert mark is not None
    assert (mark.batch, mark.tokens, mark.k, mark.kind) == (batch, tokens, k, kind)


@pytest.mark.parametrize("name", ["specscope.draft", "drafting", "my draft", "verify_all", ""])
def test_names_that_only_look_alike_mean_nothing(name: str) -> None:
    assert marks.read(name) is None


def test_a_huge_name_is_read_in_bounded_time() -> None:
    mark = marks.read("step[VERIFY bs=" + "9" * 1_000_000 + "]")
    assert mark is not None
    assert mark.role == "none"


@pytest.mark.parametrize("path", ["", "/sgl-workspace/sglang/python/"])
def test_frames_agree_between_installed_and_editable_paths(path: str) -> None:
    name = f"{path}sglang/srt/speculative/eagle_worker_v2.py(971): verify"
    stage = evidence_frames.stage_of(name)
    assert stage == "verify"
    assert stage in STAGES


@pytest.mark.parametrize(
    "name",
    [
        "mysglang/srt/speculative/eagle_worker.py(1): verify",
        "sglang/srt/speculative/eagle_worker.py(1): verify_tree",
        "sglang/srt/speculative/eagle_worker.py: verify",
    ],
)
def test_other_frames_are_no_stage(name: str) -> None:
    assert evidence_frames.stage_of(name) is None
