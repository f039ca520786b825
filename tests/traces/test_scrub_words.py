"""What is replaced in a text, by what the text is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from specscope.traces.scrub_words import Scrubber
from tests.traces.planted import ALL, ENVIRONMENT, HOME, HOST, SECRET, TEXT, TOKEN, USER

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture
def scrubber() -> Scrubber:
    """One that has seen an environment."""
    found = Scrubber()
    found.learn(ENVIRONMENT)
    return found


TEXTS = {
    f"python -m sglang.launch_server --model-path {HOME}/models/Llama-3 --tp 8": (
        "python -m sglang.launch_server --model-path /p/Llama-3 --tp 8"
    ),
    "serve --api-key abc --host 10.1.2.3 --port 30000": (
        "serve --api-key *** --host address1 --port 30000"
    ),
    "http://127.0.0.1:30000/generate": "http://127.0.0.1:30000/p/generate",
    "http://bob:pw@box.example.org:8080/a/b?token=z": "http://***@host2:8080/p/b",
    "tcp://10.9.8.7:29500": "tcp://address1:29500",
    "mailto a.b@c.org": "mailto user@host",
    f"{USER}@{HOST}:~/run/x": "user1@host1:/p/x",
    f"{HOST}.corp.example.com": "host1",
    f"{HOST}_123": "host1_123",
    f"-I{HOME}/include/x.h": "-I/p/x.h",
    "C:\\Users\\bob\\x.txt": "/p/x.txt",
    "PATH=/usr/bin:/opt/x/bin": "PATH=/p/bin:/p/bin",
    "file:///data/run/x.json": "file:///p/x.json",
    "fe80::1ff:fe23:4567:890a": "address1",
    "aa:bb:cc:dd:ee:ff": "address1",
    "GPU-7f3d2c1b-0a9f-4e8d-9c7b-6a5f4e3d2c1b": "id1",
    f"of {SECRET}.": "of ***.",
    "/home/carol then carol": "/p/user2 then user2",
    "/tmp/torchinductor_dora/a/x.py of dora": "/p/x.py of user2",
    "/nfs/users/dora/x and dora": "/p/x and user2",
    # These say nothing.
    "sglang::scheduler_TP0": None,
    "[TP00] 3000": None,
    "stream 7": None,
    "GPU 0": None,
    "/dev/nvidia0": None,
    "torch.nn.functional.linear": None,
    "a/b/c and 1/2": None,
    "driver 550.54.15, 12:34:56": None,
    "0000:17:00.0": None,
    "[[128, 64], [64, 32]]": None,
    "max_tokens=5, num_tokens: 7": None,
    "root on localhost": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_keeps_only_what_says_nothing(text: str, scrubber: Scrubber) -> None:
    wanted = TEXTS[text]
    assert scrubber.text(text) == (text if wanted is None else wanted)
    if wanted is None:
        assert not +scrubber.counts


@pytest.mark.parametrize("text", TEXTS)
def test_masking_what_was_masked_changes_nothing(text: str, scrubber: Scrubber) -> None:
    once = scrubber.text(text)
    assert scrubber.text(once) == once
    assert Scrubber().text(once) == once


FRAMES = {
    f"{HOME}/sglang/python/sglang/srt/speculative/eagle_worker.py(61): verify": (
        "/p/sglang/srt/speculative/eagle_worker.py(61): verify"
    ),
    "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py(3): f": (
        "/p/vllm/v1/worker/gpu_model_runner.py(3): f"
    ),
    ".venv/lib/python3.12/site-packages/mine/x.py(3): f": "/p/mine/x.py(3): f",
    f"{HOME}/secret_project/x.py(3): f": "/p/x.py(3): f",
    f"{USER}/x.py(3): f": "user1/x.py(3): f",
    "threading.py(1030): run": None,
    "sglang/srt/managers/scheduler.py(2919): _run_batch": None,
    "<built-in method run_backward of object at 0x7f>": None,
    "<string>(1): <module>": None,
    "nn.Module: Linear_0": None,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_keeps_what_its_evidence_needs(frame: str, scrubber: Scrubber) -> None:
    wanted = FRAMES[frame]
    assert scrubber.frame(frame) == (frame if wanted is None else wanted)


def names() -> list[str]:
    lines = (DATA / "kernel_names.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_no_kernel_name_is_touched(scrubber: Scrubber) -> None:
    assert len(names()) > 100
    assert [name for name in names() if scrubber.code(name) != name] == []
    assert [name for name in names() if scrubber.range_name(name) != name] == []
    assert not +scrubber.counts


RANGES = [
    "specscope:verify|c=3|s=0|b=8|k=3",
    "specscope:cycle|c=12",
    "step[TARGET_VERIFY bs=1 toks=4]",
    "execute_context_0(0)_generation_1(4)",
    "gpu_model_runner: forward",
    "ProfilerStep#3",
    "Torch-Compiled Region: 0/0",
    "## Call CompiledFxGraph fk2x3 ##",
    "nccl:all_reduce",
    "aten::copy_, op_id = 991065",
    "/model/layers.0/self_attn/MatMul + /model/layers.0/Add",
    "ncclGroupStart",
    "Optimizer.step#AdamW.step",
    "DistributedDataParallel.forward",
    "[Forward, 12 (Start Pos: 0, Seq Len: 4)]",
    "a: 1, key: 2",
]


@pytest.mark.parametrize("name", RANGES)
def test_names_of_ranges_stay(name: str, scrubber: Scrubber) -> None:
    assert scrubber.range_name(name) == name


def test_a_name_of_code_loses_tokens_secrets_and_paths_only(scrubber: Scrubber) -> None:
    text = f"gemm<{USER}, {TOKEN}, {SECRET}> at {HOME}/x.cu:3"
    assert scrubber.code(text) == f"gemm<{USER}, ***, ***> at /p/x.cu:3"


def test_users_with_common_names_are_no_users() -> None:
    scrubber = Scrubber()
    scrubber.learn({"USER": "root", "HOSTNAME": "localhost", "LOGNAME": "verify"})
    assert scrubber.text("root: verify on localhost") == "root: verify on localhost"


def test_short_values_of_secret_names_are_not_masked_elsewhere() -> None:
    scrubber = Scrubber()
    scrubber.learn({"API_KEY": "EMPTY", "HF_TOKEN": "1234567", "PASSWORD": "true"})
    assert scrubber.text("EMPTY 1234567 true") == "EMPTY 1234567 true"


def test_a_mapping_is_masked_by_its_keys(scrubber: Scrubber) -> None:
    found = scrubber.values(
        {
            "host": HOST,
            "api_key": "x",
            "tokens": 5,
            "enable_token_cache": True,
            "args": ["--hf-token", "abc", "--tp", 8],
            "env": ENVIRONMENT,
            "uuid": "12-34",
            TOKEN: TEXT,
        }
    )
    assert found["host"] == "host1"
    assert found["api_key"] == "***"
    assert found["tokens"] == 5
    assert found["enable_token_cache"] is True
    assert found["args"] == ["--hf-token", "***", "--tp", 8]
    assert found["env"]["NCCL_DEBUG"] == "INFO"
    assert {found["env"][name] for name in ENVIRONMENT if name != "NCCL_DEBUG"} == {"***"}
    assert found["uuid"] == "id1"
    assert not [word for word in ALL if word in str(found)]


def test_a_text_too_long_to_look_into_is_left_out(scrubber: Scrubber) -> None:
    assert scrubber.text("x" * (1 << 20) + TOKEN) == "(1,048,611 letters left out)"


def test_an_address_is_found_after_a_name_that_looks_alike() -> None:
    scrubber = Scrubber()
    assert scrubber.text("at fe11::1") == "at fe11::1"
    assert scrubber.text("at fe80::1") == "at address1"


def test_what_was_seen_before_changes_no_answer() -> None:
    """Texts alike but for their digits share a memory; each must come out as if it were alone."""
    draw = random.Random(7)
    pieces = [
        *("10.0.0.", "fe80::", "2001:db8::", "hf_aB", "user", "/home/bob", "/", ".", ":", "=", "@"),
        *("token", "sk-", " ", "node", "-", "0", "7", "25", "255", "300", "a", "Zx", "x.py(3): f"),
        *(HOST, HOST[:-1], USER, SECRET, SECRET[:-1] + "1", "AKIA", "--api-key ", "http://"),
    ]
    warm = {level: Scrubber() for level in ("text", "range_name", "code", "frame")}
    for level, one in warm.items():
        one.learn(ENVIRONMENT)
        for _ in range(1500):
            text = "".join(draw.choice(pieces) for _ in range(draw.randint(1, 6)))
            text = "".join(str(draw.randint(0, 9)) if c.isdigit() else c for c in text)
            cold = Scrubber()
            cold.learn(ENVIRONMENT)
            # What texts before taught is part of the answer.
            cold.users, cold.hosts = dict(one.users), dict(one.hosts)
            cold.addresses, cold.ids = dict(one.addresses), dict(one.ids)
            assert getattr(one, level)(text) == getattr(cold, level)(text), text
