"""Secrets in what is written: masked; counts of tokens: not."""

from __future__ import annotations

import pytest

from specscope.profiler import masking


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--api-key", "s3cr3t-value"],
        ["serve", "--api-key=s3cr3t-value"],
        ["env", "HF_TOKEN=s3cr3t-value", "python"],
        ["serve", "--admin-api-key", "s3cr3t-value", "--tp", "2"],
        ["serve", "--proxy", "http://user:s3cr3t-value@host/"],
        ["curl", "-H", "Authorization: Bearer s3cr3t-value"],
        ["serve", "--json", '{"api_key": "s3cr3t-value"}'],
        ["serve", "sk-s3cr3t-value", "hf_s3cr3t-value"],
    ],
)
def test_secrets_of_a_command_line_are_masked(arguments: list[str]) -> None:
    assert "s3cr3t-value" not in " ".join(masking.command(arguments))


def test_a_command_line_without_secrets_stays_as_it_is() -> None:
    command = ["python", "-m", "x", "--max-tokens", "64", "--tokenizer", "llama", "--key-value=1"]
    assert masking.command(command) == command


def test_values_are_masked_at_any_depth_by_their_name() -> None:
    data = {"a": [{"api_key": "x", "num_tokens": 3}], "token": "", "hf_token": "y"}
    masked = {"a": [{"api_key": "***", "num_tokens": 3}], "token": "", "hf_token": "***"}
    assert masking.values(data) == masked
