"""Secrets in what is written: masked; counts of tokens and ordinary words: not.

Each test holds for both rooms: their rules are one text.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.profiler import masking as of_profiler
from specscope.profiler import server_args, server_log
from specscope.traces import masking as of_traces

ROOT = Path(__file__).resolve().parents[2]
PLANTED = "PLANTED8x"
SECRET_NAMES = [
    "api_key", "API-Key", "apikey", "--api-key", "EMAIL_PASS", "--auth-pass", "GITHUB_PAT", "jwt",
    "clientSecret", "awsSecretKey", "dbPassword",
    "secret_value", "password_hash", "OPENAI_API_KEY_2", "OPENAI_API_KEY_PROD", "secretKey2",
    "HF_TOKEN", "hfToken", "HFTOKEN", "access_token", "accessToken", "Authorization", "X-Api-Key",
    "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "api_keys", "db_credentials", "COOKIE_JAR",
    "ssl_keyfile_password", "private_key_pem", "dbPwd", "tokens", "auth.token", "bearer",
]  # fmt: skip
PLAIN_NAMES = [
    "max_total_tokens", "speculative_num_draft_tokens", "tokens_per_s", "tokens_per_second",
    "num_key_value_heads", "bos_token_id", "stop_token_ids", "speculative_token_map", "tokenizer",
    "--skip-tokenizer-init", "keyword", "monkey", "PWD", "OLDPWD", "token_usage", "prompt_tokens",
    "ms_per_token", "key_cache_dtype", "hf_config_path", "author", "enable_prompt_tokens_details",
]  # fmt: skip
BOTH = pytest.mark.parametrize("masking", [of_profiler, of_traces], ids=["profiler", "traces"])


def test_both_rooms_have_the_same_rules() -> None:
    for name in ("masking.py", "secret_names.py", "secret_shapes.py"):
        one, other = (ROOT / room / name for room in ("profiler", "traces"))
        assert one.read_text("utf-8") == other.read_text("utf-8")


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_name_is_known_in_any_style(name: str) -> None:
    assert of_profiler.hides(name, PLANTED)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_name_with_a_word_in_common_is_no_secret(name: str) -> None:
    assert not of_profiler.is_secret_name(name)


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--api-key", PLANTED],
        ["serve", f"--api-key={PLANTED}"],
        ["serve", f"--api-key=-{PLANTED}"],
        ["serve", "--api-key", PLANTED, PLANTED],
        ["env", f"HF_TOKEN={PLANTED}", "python"],
        ["serve", "--admin-api-key", PLANTED, "--tp", "2"],
        ["curl", "-H", f"Authorization: Bearer {PLANTED}"],
        ["curl", "-H", f"Authorization: Token token {PLANTED}"],
        ["curl", "-H", "X-Api-Key:", PLANTED],
        ["serve", "--cfg", f'{{"api_key": "{PLANTED}"}}'],
        ["serve", "--cfg", f'{{"api_key": ["{PLANTED}"]}}'],
        ["serve", "--cfg", f'{{"api_key": ["x", "{PLANTED}"], "a": 1}}'],
        ["serve", "--cfg", f'{{"api_keys":["{PLANTED}"]}}'],
        ["serve", "--cfg", f'{{"api_key": {{"a": "}}", "b": "{PLANTED}"}}}}'],
        ["serve", "--cfg", f'{{"auth":{{"bearer":"{PLANTED}","cookie":"{PLANTED}"}}}}'],
        ["x", f"Args(api_key=['x', '{PLANTED}'], tp=2)"],
        ["x", f"Args(api_key=SecretStr('{PLANTED}'), tp=2)"],
        ["x", f"api_key=b'{PLANTED}'"],
        ["x", f"api_key: str = '{PLANTED}'"],
        ["sh", "-c", f'vllm serve m --kv "{{\\"api_key\\": \\"{PLANTED}\\"}}"'],
        ["sh", "-c", f'vllm serve m --kv "{{\\"api_key\\": [\\"{PLANTED}\\"]}}"'],
        ["sh", "-c", f"vllm serve m --api-key {PLANTED} 'a {PLANTED}'"],
        ["sh", "-c", f"OPENAI_API_KEY_2={PLANTED} vllm serve m"],
        ["python", "-c", f'import os; os.environ["HF_TOKEN"]="{PLANTED}"'],
        ["python", "-c", f'import os; os.environ.setdefault("HF_TOKEN", "{PLANTED}")'],
        ["python", "-c", f"import os; headers=[('Authorization', '{PLANTED}')]"],
        ["x", f"{{'clientSecret': '{PLANTED}'}}"],
        ["x", f'{{"api_key": "{PLANTED}'],
        ["x", f'{{"api_key": ["{PLANTED}'],
        ["x", f"http://user:{PLANTED}@host/"],
        ["x", f"http://user:a@{PLANTED}@host/path"],
        ["x", f"redis://default:a/{PLANTED}@h"],
        ["x", f"redis://:a#{PLANTED}@h"],
        ["x", f"http://a:80/x,http://u:{PLANTED}@h"],
        ["x", f"https://{PLANTED}@host/a"],
        ["x", f"NCCL_PROXY=user:{PLANTED}@host"],
        ["x", f"--proxy=user:a@{PLANTED}@host:3128"],
        ["x", f"NCCL_PROXY=user:a/{PLANTED}@host"],
        ["x", f"--proxy user:a/{PLANTED}@host"],
        ["x", f'{{"name": "api_key", "value": "{PLANTED}"}}'],
        ["x", f"Bearer {PLANTED}"],
        ["curl", "-u", f"bob:{PLANTED}", "http://h"],
        ["curl", f"-ubob:{PLANTED}", "http://h"],
        ["curl", "--user", f"bob:{PLANTED}"],
        ["curl", f"--user=bob:{PLANTED}"],
        ["curl", "-u", f"bob:a:/@{PLANTED}"],
        ["curl", "--proxy-user", f"bob:{PLANTED}"],
        ["sh", "-c", f"curl -u 'bob:{PLANTED}' http://h"],
        ["sh", "-c", f"curl -u 'bob:a b {PLANTED}' http://h"],
        ["sh", "-c", f'curl --user "bob:{PLANTED}" http://h'],
        ["x", f"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n{PLANTED}\n-----END RSA PRIVATE KEY-----"],
        ["x", f"-----BEGIN PRIVATE KEY-----\\nMIIEow\\n{PLANTED}\\n-----END PRIVATE KEY-----"],
        ["x", f"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEAs0\n{PLANTED}"],
        ["x", f"-----BEGIN OPENSSH PRIVATE KEY-----MIIEowIBAAKCAQEA{PLANTED}"],
        ["serve", "sk-s3cr3tPLANTED8x0value"],
        ["serve", "hf_AbcPLANTED8xdefGhi0123456789jkl"],
        ["serve", "sk-proj-abc-d3Fg5PLANTED8x_9-xyz"],
    ],
    ids=repr,
)
def test_a_secret_of_a_command_line_is_masked(arguments: list[str], masking: ModuleType) -> None:
    """Word by word, in one piece, and as the text of the list."""
    assert PLANTED not in json.dumps(masking.command(arguments))
    assert PLANTED not in masking.text(" ".join(arguments))
    assert PLANTED not in masking.text(repr(arguments))
    assert PLANTED not in masking.text(json.dumps(arguments))


@BOTH
@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize("value", [PLANTED, [PLANTED], ["x", PLANTED], {"a": [PLANTED]}])
def test_a_secret_in_a_text_is_masked_by_its_name(
    name: str, value: Any, masking: ModuleType
) -> None:
    data = {"a": 1, name: value, "b": [2]}
    texts = [json.dumps(data), json.dumps(data, indent=1), repr(data), json.dumps(json.dumps(data))]
    texts += [json.dumps(data, separators=(",", ":")), f"Config({name.strip('-')}={value!r}, b=2)"]
    for text in texts:
        masked = masking.text(text)
        assert PLANTED not in masked
        assert "b" in masked
    assert masking.values(data) == {"a": 1, name: "***", "b": [2]}


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        {"server_args": ["--api-key", PLANTED]},
        {"server_args": ["--api-key", [PLANTED]]},
        {"headers": [["Authorization", PLANTED], ["X-Api-Key", PLANTED]]},
        {"headers": (("Authorization", PLANTED),)},
        {"tokens": [PLANTED, PLANTED]},
        {"keys": {"alice": PLANTED}},
        {"a": [{"clientSecret": PLANTED}]},
        {"password": {"value": PLANTED}},
        {"env": [{"name": "HF_TOKEN", "value": PLANTED}]},
        {f"http://u:{PLANTED}@h": 1},
    ],
    ids=repr,
)
def test_a_secret_is_masked_at_any_depth(data: Any, masking: ModuleType) -> None:
    assert PLANTED not in json.dumps(masking.values(data))
    assert PLANTED not in json.dumps(server_args.plain(data))


ORDINARY = [
    ["python", "-m", "x", "--max-tokens", "64", "--tokenizer", "llama", "--key-value=1"],
    ["serve", "hf-internal-testing/tiny", "--hf-overrides", "{}", "--hf-config-path", "/a"],
    ["serve", "/mnt/hf_cache_2024/models--hf-internal-testing--tiny", "/x/sk-learn-intelex-2024"],
    ["serve", "--served-model-name", "hf_checkpoint2024", "--max-total-tokens=4096"],
    ["x", '{"max_total_tokens": 4096, "tokens": [1, 2], "bos_token_id": 5, "api_key": null}'],
    ["x", "tokens=[1, 2.5]", "key=3", "the basic training of bearer tokens"],
    ["x", "https://host:8000/@scope/x", "git@github.com:a/b.git", "lmsys/sglang:v1@sha256:ab12"],
    ["x", "http://[::1]:30000/v1", "12:30:01", "a:b:c"],
    ["x", '{"speculative_num_draft_tokens": 4, "num_key_value_heads": 8, "tokens_per_s": 3.5}'],
    ["--tokens", "64", "256", "--batch", "8"],
]


@BOTH
@pytest.mark.parametrize("command", ORDINARY, ids=repr)
def test_a_command_line_without_secrets_stays_as_it_is(
    command: list[str], masking: ModuleType
) -> None:
    assert masking.command(command) == command
    assert masking.text(" ".join(command)) == " ".join(command)


@BOTH
def test_a_sentence_with_a_colon_stays(masking: ModuleType) -> None:
    sentence = "top-level keys: name and args, without the bonus tokens: drafted"
    assert masking.text(sentence) == sentence


@BOTH
def test_numbers_stay_readable_where_a_name_may_count_something(masking: ModuleType) -> None:
    data = {"tokens": [32, 256], "key": 3, "num_tokens": 3, "enabled_token": True, "token": ""}
    assert masking.values(data) == data
    assert masking.values({"pin_token": 7, "password": 5}) == {
        "pin_token": "***",
        "password": "***",
    }


@BOTH
def test_what_stands_beside_a_secret_stays(masking: ModuleType) -> None:
    assert masking.text('{"api_key": ["a", "b"], "tp": 2}') == '{"api_key": ***, "tp": 2}'
    assert masking.text("R(api_key='a', tp=2)") == "R(api_key='***', tp=2)"
    assert masking.text("http://u:a@b@host:80/v1") == "http://***@host:80/v1"
    record = {"name": "api_key", "value": "x", "a": 1}
    assert masking.values(record) == {"name": "api_key", "value": "***", "a": 1}
    assert json.loads(masking.text(json.dumps(record))) == masking.values(record)
    assert masking.text("a?token=x&b=1") == "a?token=***&b=1"
    assert masking.command(["--api-key", "x", "--tp", "2"]) == ["--api-key", "***", "--tp", "2"]


@given(
    st.text(alphabet="ab\"'\\[]{}(),=: @/-\n", max_size=30),
    st.text(alphabet="ab\"'\\[]{}(),=: @/-\n", max_size=30),
)
def test_a_masked_text_is_masked_once_and_for_all(before: str, after: str) -> None:
    masked = of_profiler.text(f"{before}api_key='{PLANTED}'{after}")
    assert isinstance(of_profiler.text(masked), str)
    # Any text before may end in a word of the name; then it is another name.
    if not before or not (before[-1].isalnum() or before[-1] == "-"):
        assert PLANTED not in masked


VALUES = st.recursive(
    st.text(max_size=8).map(lambda text: text + PLANTED),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES, st.sampled_from(SECRET_NAMES))
def test_a_secret_of_any_content_is_masked_in_json(value: Any, name: str) -> None:
    for text in (json.dumps({"a": {name: value}, "n": 1}), repr({name: value})):
        assert PLANTED not in of_profiler.text(text)
    assert PLANTED not in json.dumps(of_profiler.values([{name: value}]))


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "key=",
        '"key": [',
        "a:",
        "x ",
        "\\",
        "'key' ",
        "http://",
        "a@",
        "-",
        "key=x'",
        "-u ",
        "-u a:",
        " --user=",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_a_long_text_takes_time_by_its_length_only(piece: str) -> None:
    """A search that begins anew at every letter would take minutes."""
    text = piece * (200_000 // len(piece))
    start = time.thread_time()
    of_profiler.text(f"--api-key {text}")
    of_profiler.text(text)
    assert time.thread_time() - start < 20


def test_words_that_count_are_no_secrets_to_search_a_log_for() -> None:
    """Else every such number of the server's log would be masked."""
    words = ["serve", "--tokens", "64", "--key=8", "--api-key", PLANTED, "x2"]
    found = server_log.secrets_of(words, [("HF_TOKEN", "y1"), ("MAX_TOKENS", "5")])
    assert sorted(found) == [PLANTED, "x2", "y1"]


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        ["docker", "run", "-u", "1000:1000", "image"],
        ["docker", "run", "--user", "0:0", "image"],
        ["python", "-u", "serve.py", "--tp", "2"],
        ["curl", "-u", "http://host:80/x"],
        ["x", "--user-agent", "a:b"],
        ["x", "no key begins with -----BEGIN PRIVATE KEY----- in that file"],
        ["x", "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEA\n-----END CERTIFICATE-----"],
    ],
)
def test_what_looks_like_an_account_or_a_key_and_is_none_stays(
    arguments: list[str], masking: ModuleType
) -> None:
    assert masking.command(arguments) == arguments
    assert masking.text(" ".join(arguments)) == " ".join(arguments)
