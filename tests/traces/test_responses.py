"""Acceptance from responses: the names of every version, streams, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.traces.errors import SpecscopeError, TraceFormatError
from specscope.traces.responses import read_responses
from specscope.traces.served import Served
from tests.shared import shared_path

NEW = {
    "spec_verify_ct": 40,
    "completion_tokens": 71,
    "spec_num_correct_drafts": 30,
    "spec_num_proposed_drafts": 120,
    "spec_correct_drafts_histogram": [15, 20, 5],
    "spec_accept_length": 1.775,
    "spec_accept_rate": 0.25,
}
OLD = {
    "spec_verify_ct": 40,
    "completion_tokens": 71,
    "spec_accept_token_num": 30,
    "spec_draft_token_num": 120,
    "spec_accept_histogram": [15, 20, 5],
    "spec_accept_rate": 0.58,
}
VLLM = {
    "mean_acceptance_length": 1.75,
    "acceptance_histogram": [15, 20, 5, 0],
    "num_spec_steps": 40,
    "num_accepted_draft_tokens": 30,
    "num_draft_tokens": 120,
    "num_spec_tokens": 3,
}


def read(folder: Path, content: Any) -> Served:
    path = folder / "answers.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_responses(path)


@pytest.mark.parametrize(
    ("content", "engine"),
    [
        ({"text": "x", "meta_info": NEW}, "sglang"),
        ([{"text": "x", "meta_info": OLD}], "sglang"),
        (NEW, "sglang"),
        ({"choices": [{"index": 0, "meta_info": NEW}], "usage": {}}, "sglang"),
        ({"choices": [], "metrics": {"speculative_decoding": VLLM}}, "vllm"),
        (json.dumps({"metrics": {"speculative_decoding": VLLM}}) + "\n" + "{}\n", "vllm"),
    ],
)
def test_counts_of_one_response(tmp_path: Path, content: Any, engine: str) -> None:
    found = read(tmp_path, content)
    assert found.engine == engine
    assert found.accept_length == pytest.approx(1.75)
    assert (found.cycles, found.accepted, found.drafted) == (40, 30, 120)
    assert found.by_position[:2] == pytest.approx((25 / 40, 5 / 40))
    assert found.source == "responses answers.json"


def test_an_old_response_without_counts_is_read_by_its_tokens(tmp_path: Path) -> None:
    """One of 71 tokens was made by the prefill: 70 in 40 passes."""
    found = read(tmp_path, {"meta_info": {"spec_verify_ct": 40, "completion_tokens": 71}})
    assert found.accept_length == pytest.approx(1.75)
    assert "behind the first" in found.convention
    assert found.by_position == ()


def test_a_response_with_only_a_mean_is_read_by_it(tmp_path: Path) -> None:
    found = read(tmp_path, {"meta_info": {"spec_verify_ct": 40, "spec_accept_length": 2.5}})
    assert found.accept_length == pytest.approx(2.5)


def test_requests_are_weighted_by_their_cycles(tmp_path: Path) -> None:
    few = {"spec_verify_ct": 10, "spec_num_correct_drafts": 30}
    many = {"spec_verify_ct": 90, "spec_num_correct_drafts": 90}
    found = read(tmp_path, "\n".join(json.dumps({"meta_info": one}) for one in (few, many)))
    assert found.accept_length == pytest.approx(1 + 120 / 100)
    assert (found.used, found.cycles) == (2, 100)


def test_of_a_stream_the_last_message_of_each_request_counts(tmp_path: Path) -> None:
    lines = [
        "data: "
        + json.dumps({"meta_info": {"id": name, "spec_verify_ct": n, "spec_num_correct_drafts": n}})
        for n in (1, 20, 40)
        for name in ("a", "b")
    ]
    found = read(tmp_path, "\n\n".join([*lines, "data: [DONE]"]))
    assert (found.used, found.cycles, found.damaged) == (2, 80, 0)


def test_every_answer_to_one_request_counts(tmp_path: Path) -> None:
    choices = [{"index": at, "meta_info": NEW} for at in range(3)]
    assert read(tmp_path, {"id": "cmpl-1", "choices": choices}).used == 3


def test_records_that_do_not_count_are_counted(tmp_path: Path) -> None:
    lines = [
        json.dumps({"meta_info": NEW}),
        "{broken",
        json.dumps({"meta_info": {"spec_verify_ct": -1}}),
        json.dumps({"meta_info": {"spec_verify_ct": "many"}}),
        json.dumps({"meta_info": {"spec_verify_ct": 5}}),
        json.dumps({"meta_info": {"spec_verify_ct": 0}}),
        json.dumps({"meta_info": {"completion_tokens": 9}}),
    ]
    found = read(tmp_path, "\n".join(lines))
    assert (found.used, found.damaged, found.empty) == (1, 4, 2)
    assert found.accept_length == pytest.approx(1.75)


def test_a_histogram_of_other_passes_gives_no_positions(tmp_path: Path) -> None:
    found = read(tmp_path, {"meta_info": NEW | {"spec_correct_drafts_histogram": [1, 1]}})
    assert found.by_position == ()
    assert found.accept_length == pytest.approx(1.75)


@pytest.mark.parametrize(
    "changed",
    [
        {"spec_num_correct_drafts": 130},
        {"spec_correct_drafts_histogram": [0, 0, 40]},
        {"spec_num_correct_drafts": 3},
    ],
)
def test_counts_that_exclude_one_another_do_not_count(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    found = read(tmp_path, [{"meta_info": NEW}, {"meta_info": NEW | changed}])
    assert (found.used, found.damaged) == (1, 1)


def test_server_info_of_sglang_gives_the_mean_since_the_start(tmp_path: Path) -> None:
    states = [{"avg_spec_accept_length": 2.5}, {"avg_spec_accept_length": 3.5}, {"x": 1}]
    found = read(tmp_path, {"tp_size": 2, "internal_states": states})
    assert (found.accept_length, found.engine) == (3.0, "sglang")
    assert found.source == "server info answers.json"


def test_a_document_that_ends_early_is_called_cut(tmp_path: Path) -> None:
    whole = json.dumps([{"meta_info": NEW}], indent=1)
    for end in (-3, -40, -60):
        with pytest.raises(TraceFormatError, match="is cut: its JSON ends early"):
            read(tmp_path, whole[:end])


def test_the_record_of_a_recording_gives_its_figures(tmp_path: Path) -> None:
    meta = shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1", "meta.json")
    found = read_responses(meta)
    assert (found.cycles, found.accepted, found.drafted) == (241, 270, 723)
    assert found.accept_length == pytest.approx(1 + 270 / 241)
    assert found.by_position == pytest.approx((1.0, 29 / 241))


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", "[" * 100_000, "{" * 9, "\0", '"x"', "NaN"])
def test_a_file_without_speculation_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceFormatError, match="no response with figures") as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


def test_nesting_without_end_is_not_followed(tmp_path: Path) -> None:
    deep: Any = {"meta_info": NEW}
    for _ in range(100):
        deep = [deep]
    with pytest.raises(TraceFormatError):
        read(tmp_path, deep)


VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.integers(-1, 9), max_size=4),
)  # fmt: skip
RECORD = st.dictionaries(st.sampled_from([*NEW, *OLD, *VLLM]), VALUE, max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(RECORD, max_size=4))
def test_no_record_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "drawn.json"
    path.write_text(json.dumps([{"meta_info": one} for one in records]))
    try:
        found = read_responses(path)
    except SpecscopeError:
        return
    assert (found.accept_length or 0) >= 1
    assert all(0 <= rate <= 1 for rate in found.by_position)
