"""What run.json and meta.json beside the traces say, and what they may never do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specscope.traces.context import read_context
from specscope.traces.masking import MASK, is_secret_name
from specscope.traces.masking import values as mask
from tests.shared import shared_path

PLANTED = "hf_PlantedSecretValue0123456789"


def write(folder: Path, content: Any, name: str = "run.json") -> Path:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("key", "most"), [("k", 1000), ("draft_tokens", 1 << 16), ("batch", 10**6)]
)
def test_more_tokens_or_sequences_than_any_server_has_are_left_out(
    tmp_path: Path, key: str, most: int
) -> None:
    (tmp_path / "meta.json").write_text(json.dumps({key: most}))
    assert read_context(tmp_path)[0][key] == most
    (tmp_path / "meta.json").write_text(json.dumps({key: 10**9}))
    context, notes = read_context(tmp_path)
    assert key not in context
    assert [note.code for note in notes] == ["context_value"]


def test_meta_json_of_a_recording_gives_the_figures_without_a_profiler() -> None:
    context, notes = read_context(shared_path("traces", "own", "tp2-70b-eagle3-k3-nvlink-bs1"))
    assert notes == []
    assert context["tokens_per_second"] == 83.13
    assert context["cycle_ms"] == 24.9501
    assert context["accept_length"] == pytest.approx(2.098, abs=0.001)
    assert (context["batch"], context["k"], context["tp"]) == (1, 3, 2)
    assert (context["topk"], context["draft_tokens"]) == (1, 4)
    assert (context["engine"], context["engine_version"]) == ("sglang", "0.5.12.post1")
    assert (context["model"], context["link"]) == ("llama70b", "nvlink")
    assert context["simulated_acceptance"] is True
    assert len(context["gpus"]) == 2
    assert context["source"] == "meta.json"


def test_run_json_goes_before_meta_json(tmp_path: Path) -> None:
    write(tmp_path, {"batch": 8}, "meta.json")
    write(tmp_path, {"batch": 4, "tokens_per_second": 71.0})
    context, _ = read_context(tmp_path)
    assert context == {"batch": 4, "tokens_per_second": 71.0, "source": "run.json"}


def test_a_folder_without_either_has_no_context(tmp_path: Path) -> None:
    assert read_context(tmp_path) == ({}, [])


@pytest.mark.parametrize("text", ["{broken", "[1, 2]", "", "[" * 100_000, "\0\0", '"x"'])
def test_a_broken_file_is_a_note_and_never_an_error(tmp_path: Path, text: str) -> None:
    context, notes = read_context(write(tmp_path, text))
    assert context == {}
    assert [note.code for note in notes] == ["context_unreadable"]
    assert notes[0].text.isprintable()


def test_values_of_the_wrong_type_are_left_out(tmp_path: Path) -> None:
    wrong = {"batch": "many", "k": -1, "tokens_per_second": float("nan"), "cycle_ms": True}
    context, notes = read_context(write(tmp_path, wrong | {"engine": ["x"], "tp": 8}))
    assert context == {"tp": 8, "source": "run.json"}
    assert [note.code for note in notes] == ["context_value"]


def test_unknown_keys_are_not_kept(tmp_path: Path) -> None:
    context, _ = read_context(write(tmp_path, {"environment": {"HF_TOKEN": PLANTED}, "k": 3}))
    assert context == {"k": 3, "source": "run.json"}


def test_a_planted_token_reaches_the_context_by_no_way(tmp_path: Path) -> None:
    content = {
        "server_args": {
            "api_key": PLANTED,
            "nested": {"AWS_SECRET": "x" + PLANTED, "session_cookie": 1.5},
            "list": ["--api-key", "abc", f"--hf-token={PLANTED}", "--port", "30000"],
            "note": f"use {PLANTED} here",
        },
        "engine": PLANTED,
    }
    context, _ = read_context(write(tmp_path, content))
    assert "Planted" not in json.dumps(context)
    assert context["server_args"]["list"] == [
        "--api-key",
        MASK,
        f"--hf-token={MASK}",
        "--port",
        "30000",
    ]


@pytest.mark.parametrize(
    "key", ["HF_TOKEN", "api_key", "--api-key", "Password", "db_credentials", "COOKIE_JAR"]
)
def test_secret_keys_are_known(key: str) -> None:
    assert is_secret_name(key)


@pytest.mark.parametrize(
    "key", ["tokens_per_second", "--max-total-tokens", "prompt_tokens", "--skip-tokenizer-init"]
)
def test_token_counts_are_no_secrets(key: str) -> None:
    assert not is_secret_name(key)


def test_numbers_are_never_masked() -> None:
    assert mask({"key": 3, "token": "abc"}) == {"key": 3, "token": MASK}


def test_a_value_that_cannot_be_meant_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"batch": "x", "cycle_ms": -1, "k": 3}')
    context, notes = read_context(tmp_path)
    assert context["k"] == 3
    assert "batch" not in context
    assert [note.code for note in notes] == ["context_value"]
    assert "cycle_ms" in notes[0].text


def test_another_schema_is_named_and_what_is_known_is_taken(tmp_path: Path) -> None:
    context, notes = read_context(write(tmp_path, {"schema_version": 2, "batch": 4}))
    assert context["batch"] == 4
    assert [note.code for note in notes] == ["context_version"]
    context, notes = read_context(write(tmp_path, {"schema_version": 1, "batch": 4}))
    assert notes == []


def test_a_key_inside_a_command_line_in_one_piece_is_masked(tmp_path: Path) -> None:
    """SGLang's server_info has `launch_command` so."""
    line = "--model-path m --api-key first second --hf-token=third --tp 2 --tokenizer-path t"
    context, _ = read_context(write(tmp_path, {"server_args": {"launch_command": line}}))
    masked = context["server_args"]["launch_command"]
    assert masked == "--model-path m --api-key *** --hf-token=*** --tp 2 --tokenizer-path t"
