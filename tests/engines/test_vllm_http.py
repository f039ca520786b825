"""vLLM's HTTP server, started by `specscope run`: the cycle log against `/metrics`. Long.

Needs what tests/engines/test_vllm_cpu.py needs. Tokens are compared with those of a server
that was started without specscope.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.engines.ranges_of import tiny_models
from tests.engines.vllm_runs import PYTHON, Case, clean_environment, cycle_logs

pytestmark = pytest.mark.long

READY_SECONDS = 240
K = 3
PROMPTS = [f"w{10 + i} w{11 + i} w{12 + i} w{13 + i}" for i in range(4)]
SPECULATION = "--speculative-config"


class Server:
    """A server on a free port while the context is entered."""

    def __init__(self, models: Path, output: Path, prefix: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        head = {"method": "eagle3", "model": f"{models}/eagle3", "num_speculative_tokens": K}
        arguments = (
            f"--model {models}/target --host 127.0.0.1 --port {self.port} --served-model-name tiny "
            "--enforce-eager --max-model-len 512 --max-num-seqs 8 --dtype float32 --block-size 32 "
            "--seed 0"
        )
        module = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", *arguments.split()]
        self.command = [*prefix, *module, SPECULATION, json.dumps(head)]
        self.output = output

    def __enter__(self) -> Server:
        env = clean_environment(Case("eagle3"))
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                self.command, env=env, stdout=output, stderr=output, start_new_session=True
            )
        until = time.monotonic() + READY_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                pytest.fail(self.output.read_text("utf-8", errors="replace")[-3000:])
            time.sleep(0.5)
        return self

    def is_ready(self) -> bool:
        try:
            self.get("health")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def __exit__(self, *raised: object) -> None:
        """As an operator does: SIGTERM to the server, which ends its workers itself."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def get(self, path: str, data: Any = None) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}")
        if data is not None:
            request.data = json.dumps(data).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=180) as answer:
            body: bytes = answer.read()
        return body

    def tokens(self) -> list[list[int]]:
        """The answers to the prompts, one request after the other."""
        answers = []
        for prompt in PROMPTS:
            wanted = {"model": "tiny", "prompt": prompt, "max_tokens": 32, "temperature": 0}
            wanted |= {"ignore_eos": True, "return_token_ids": True}
            body = json.loads(self.get("v1/completions", wanted))
            answers.append(body["choices"][0]["token_ids"])
        return answers

    def metrics(self) -> dict[str, float]:
        """The counters of speculation, by their name's end and position."""
        text = self.get("metrics").decode()
        found = re.findall(r"^vllm:spec_decode_(\w+)_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        out = {}
        for name, labels, value in found:
            position = re.search(r'position="(\d+)"', labels)
            out[f"{name}{position[1]}" if position else name] = float(value)
        return out


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path_factory.mktemp("models"))


def test_the_log_of_a_server_equals_its_metrics_and_its_tokens_those_of_a_plain_one(
    models: Path, tmp_path: Path
) -> None:
    with Server(models, tmp_path / "plain.txt", []) as server:
        plain, plain_metrics = server.tokens(), server.metrics()
    log = tmp_path / "log"
    run = [PYTHON, "-m", "specscope", "run", "--log", str(log), "--"]
    started = time.monotonic()
    with Server(models, tmp_path / "hooked.txt", run) as server:
        ready = time.monotonic() - started
        assert server.tokens() == plain
        time.sleep(2)  # the log is flushed every second
        metrics = server.metrics()
    assert metrics == plain_metrics

    logs = cycle_logs(log)
    lengths = [
        n
        for rows in logs.values()
        for row in rows
        if row["row"] == "accept"
        for n in row["accept_lengths"]
    ]
    print(f"http: ready after {ready:.0f} s, {len(lengths)} accept lengths, {metrics}")
    assert len(lengths) == metrics["num_drafts"] > 40
    assert sum(length - 1 for length in lengths) == metrics["num_accepted_tokens"]
    for place in range(K):
        accepted = sum(length - 1 > place for length in lengths)
        assert accepted == metrics[f"num_accepted_tokens_per_pos{place}"]
    verified = [row for row in logs["rank0"] if row["stage"] == "verify"]
    assert sum(row["tokens"] - row["batch"] for row in verified) == metrics["num_draft_tokens"]
    assert "specscope: " not in (tmp_path / "hooked.txt").read_text("utf-8", errors="replace")
