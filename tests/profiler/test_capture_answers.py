"""Answers of another shape than the engines give are one line, never an internal error."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specscope.profiler import load
from specscope.profiler.capture import Options, capture
from specscope.profiler.http_api import Api, Reply
from specscope.profiler.server_errors import ServerError

META = {
    "completion_tokens": 64,
    "cached_tokens": 0,
    "spec_verify_ct": 20,
    "spec_num_correct_drafts": 40,
    "spec_num_proposed_drafts": 60,
    "spec_correct_drafts_histogram": [5, 5, 5, 5],
}
INFO = {
    "version": "0.5.23",
    "model_path": "target",
    "tp_size": 2,
    "pp_size": 1,
    "dp_size": 1,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_draft_tokens": 4,
    "context_length": 4096,
    "internal_states": [{"effective_max_running_requests_per_dp": 8}],
}
METRICS = """
vllm:generation_tokens_total 64
vllm:spec_decode_num_drafts_total 20
vllm:spec_decode_num_accepted_tokens_total 40
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 20
vllm:num_requests_running{engine="0"} 0
vllm:iteration_tokens_total_count 20
"""
SGLANG = {"/server_info": INFO, "/generate": [{"meta_info": META}], "/version": None}
SHORT = 8
SHORT_ANSWERS = {
    "/generate": [{"meta_info": {"completion_tokens": SHORT, "spec_verify_ct": 2}}],
    "/v1/completions": {"usage": {"completion_tokens": SHORT}},
}
VLLM = {
    "/version": {"version": "0.32.0"},
    "/v1/models": {"data": [{"id": "m", "root": "m", "max_model_len": 4096}]},
    "/v1/completions": {"usage": {"completion_tokens": 64}},
    "/server_info": {
        "vllm_config": {
            "parallel_config": {"tensor_parallel_size": 2},
            "scheduler_config": {"max_num_seqs": 8},
            "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3},
            "profiler_config": {"torch_profiler_dir": "/tmp/x"},
        }
    },
    "/metrics": METRICS,
}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**30, -1, 0, 1e308, "", "abc", "\0", "~nobody-here/x", "\ud800"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@st.composite
def altered(draw: st.DrawFn, value: Any) -> Any:
    """The value with something else in one place of it."""
    places = list(value.items()) if isinstance(value, dict) else []
    places = list(enumerate(value)) if isinstance(value, list) else places
    if not places or draw(st.integers(0, 3)) == 0:
        return draw(ANYTHING)
    key, inner = draw(st.sampled_from(places))
    copy = value.copy()
    copy[key] = draw(altered(inner))
    return copy


@contextlib.contextmanager
def answering(pages: dict[str, Any]) -> Iterator[None]:
    """Every server gives these answers; a page that is not there is 404."""

    asked = iter(range(1, 1_000_000))

    def call(self: Api, method: str, path: str, body: Any, **more: Any) -> Reply:
        name = path.partition("?")[0]
        page = pages.get(name)
        if str(SHORT) in json.dumps(body or {}).replace("}", " ").replace(",", " ").split():
            page = SHORT_ANSWERS[name]
        if isinstance(page, str):  # counters grow, from page to page by more
            grown = next(asked) ** 2
            return Reply(
                200, re.sub(r" (\d+)$", lambda m: f" {int(m[1]) * grown}", page, flags=re.M)
            )
        return Reply(404 if page is None else 200, json.dumps(page))

    clock = iter(range(1_000_000))
    with (
        mock.patch.object(Api, "call", call),
        mock.patch.object(load.time, "perf_counter", lambda: next(clock) ** 2 / 1e3),
        mock.patch.object(load, "_SETTLE_SECONDS", 0.0),
    ):
        yield


def told(pages: dict[str, Any], out: Path) -> str:
    """The line that a user gets; empty when the server was measured."""
    options = Options(
        "http://127.0.0.1:9",
        tokens=64,
        prompt_tokens=4,
        repetitions=1,
        profile=False,
        out=out,
        say=lambda text: None,
    )
    with answering(pages):
        try:
            capture(options).run.unlink()
        except ServerError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("pages", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_the_answers_that_are_altered_here_are_those_of_a_server(
    pages: dict[str, Any], tmp_path: Path
) -> None:
    assert told(pages, tmp_path) == ""


@pytest.mark.parametrize("pages", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_an_answer_of_any_shape_is_one_line(
    pages: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("out")

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from([p for p in pages if pages[p] is not None]))
        other = data.draw(altered(pages[path]) if path != "/metrics" else _metrics())
        line = told({**pages, path: other}, folder)
        assert "\n" not in line

    check()


def _metrics() -> st.SearchStrategy[str]:
    odd = st.sampled_from(["nan", "inf", "-1", "1e300", "1e14", "", "x", "0", "7", "64"])
    lines = METRICS.strip().splitlines()
    line = st.sampled_from(lines).flatmap(
        lambda text: odd.map(lambda value: f"{text.rpartition(' ')[0]} {value}")
    )
    place = st.sampled_from(["²", "-1", "x", "9" * 5000, "1"]).map(
        lambda p: f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}} 3'
    )
    return st.lists(line | place | st.sampled_from(lines), max_size=12).map("\n".join)


@pytest.mark.parametrize(
    ("page", "answer"),
    [
        ("/generate", [{"meta_info": None}]),
        ("/generate", [{"meta_info": [1]}]),
        ("/generate", []),
        ("/generate", [3]),
    ],
)
def test_an_answer_without_counts_is_named(page: str, answer: Any, tmp_path: Path) -> None:
    assert "answers /generate in a form that is not known" in told(
        {**SGLANG, page: answer}, tmp_path
    )


@pytest.mark.parametrize(
    ("pages", "alter"),
    [
        (SGLANG, lambda p: p | {"/server_info": INFO | {"internal_states": [3]}}),
        (VLLM, lambda p: p | {"/v1/models": {"data": [1]}}),
    ],
    ids=["internal_states", "models"],
)
def test_what_is_not_needed_may_have_any_form(
    pages: dict[str, Any], alter: Callable[[Any], Any], tmp_path: Path
) -> None:
    assert told(alter(pages), tmp_path) == ""


def test_a_histogram_of_another_form_says_nothing() -> None:
    found = load.sglang_answer([META | {"spec_correct_drafts_histogram": "abc"}], 1.0)
    assert (found.by_position, found.accept_length) == ((), 3.0)


def test_an_answer_nested_without_end_is_none() -> None:
    assert Reply(200, '{"a":' * 500 + "1" + "}" * 500).json() is None
    assert Reply(200, '{"a": [1]}').json() == {"a": [1]}
