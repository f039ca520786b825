"""`specscope capture` against the engines themselves, on the CPU, over HTTP. Long.

Interpreters as for the other suites here (docs/attach.md): SPECSCOPE_VLLM_PYTHON,
SPECSCOPE_SGLANG_PYTHON. `-s` shows the figures.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import specscope
from specscope.profiler import engine_probe, load, prometheus
from specscope.profiler.capture import Captured, Options, capture
from specscope.profiler.http_api import Api
from specscope.profiler.load import SglangDriver
from specscope.profiler.measure import fitting, measure
from specscope.traces.context import read_context
from tests.engines import test_sglang_cpu
from tests.engines.ranges_of import tiny_models
from tests.shared import shared_path

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
VLLM = os.environ.get("SPECSCOPE_VLLM_PYTHON", "")
SGLANG = os.environ.get("SPECSCOPE_SGLANG_PYTHON", "")
READY_SECONDS = 300
K, CYCLES = 3, 20


class VllmServer:
    """vLLM's HTTP server with EAGLE-3 on a free port, while the context is entered."""

    def __init__(self, models: Path, folder: Path, tp: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder / "profiler"
        self.log = folder / "server.log"
        speculation = {
            "method": "eagle3",
            "model": f"{models}/eagle3",
            "num_speculative_tokens": K,
        }
        profiler = {
            "profiler": "torch",
            "torch_profiler_dir": str(self.folder),
            "torch_profiler_with_stack": False,
        }
        arguments = (
            f"-m vllm.entrypoints.openai.api_server --model {models}/target --host 127.0.0.1 "
            f"--port {self.port} --dtype float32 --max-model-len 512 --max-num-seqs 8 "
            f"--block-size 32 --enforce-eager --tensor-parallel-size {tp} "
        ).split()
        self.command = [VLLM, *arguments]
        self.command += ["--speculative-config", json.dumps(speculation)]
        self.command += ["--profiler-config", json.dumps(profiler)]
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")},
            "OMP_NUM_THREADS": "1",
            "SPECSCOPE_DISABLE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        if tp > 1:
            self.env["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(tp)))

    def __enter__(self) -> VllmServer:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, env=self.env, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + READY_SECONDS
        while not self._healthy():
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                pytest.fail(self.log.read_text("utf-8", errors="replace")[-3000:])
            time.sleep(1)
        return self

    def __exit__(self, *raised: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            time.sleep(3)
        self.process.wait()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


@dataclass(frozen=True)
class Serving:
    """A server that runs: one at a time."""

    engine: str
    tp: int
    url: str


@pytest.fixture(
    scope="module", params=["vllm-1", "vllm-2", "sglang-1", "sglang-2"], ids=lambda name: name
)
def serving(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    engine, _, ranks = request.param.partition("-")
    folder, tp = tmp_path_factory.mktemp(engine), int(ranks)
    if engine == "vllm":
        models = tiny_models(VLLM, "SPECSCOPE_VLLM_PYTHON", folder / "models")
        with VllmServer(models, folder, tp) as server:
            yield Serving(engine, tp, server.url)
        return
    models = tiny_models(SGLANG, "SPECSCOPE_SGLANG_PYTHON", folder / "models")
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")},
        "PYTHONPATH": str(shared_path("engines-cpu", "sglang_cpu_stubs")),
        "SPECSCOPE_DISABLE": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    if tp > 1:
        env["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(tp)))
    log = folder / "server.log"
    with test_sglang_cpu.Server(models, "EAGLE3", tp, log, env) as running:
        yield Serving(engine, tp, f"http://127.0.0.1:{running.port}")


def captured(url: str, out: Path) -> Captured:
    return capture(
        Options(
            url,
            cycles=CYCLES,
            batch=4,
            prompt_tokens=32,
            tokens=256,
            out=out,
            timeout=300,
            say=print,
        )
    )


def test_a_capture_has_every_rank_every_cycle_and_what_was_measured(
    serving: Serving, tmp_path: Path
) -> None:
    done = captured(serving.url, tmp_path / "out")
    engine, tp = serving.engine, serving.tp
    assert not list((tmp_path / "out").glob("*async_llm*"))
    run: dict[str, Any] = json.loads(done.run.read_text("utf-8"))
    schema = json.loads((ROOT / "traces" / "run.schema.json").read_text("utf-8"))
    jsonschema.validate(run, schema)
    assert (run["engine"], run["tp"], run["k"]) == (engine, tp, K)
    assert run["simulated_acceptance"] is False
    rates = run["accept_by_position"]
    assert len(rates) == K
    assert rates == sorted(rates, reverse=True)
    assert run["accept_length"] == pytest.approx(1 + sum(rates), abs=0.001)
    product = 1e3 * run["running_batch"] * run["accept_length"] / run["cycle_ms"]
    assert run["tokens_per_second"] == pytest.approx(product, rel=0.001)
    assert len(done.traces) == tp
    context, notes = read_context(done.run.parent)
    assert notes == []
    assert context["cycle_ms"] == run["cycle_ms"]
    report = specscope.analyze(specscope.load(done.run.parent))
    counts = [row.count for row in report.cycles if row.leads]
    print(
        f"{engine} TP {tp}: {run['tokens_per_second']:.1f} tokens/s, cycle {run['cycle_ms']:.2f} "
        f"ms, accept length {run['accept_length']:.3f}, by position {rates}, {counts} cycles found"
    )
    assert len(counts) == tp
    assert min(counts) >= CYCLES - 2  # a hiccup of the batch makes cycles of another size
    assert report.unprofiled is not None
    assert report.unprofiled.source == "run.json"


def test_vllms_counters_are_those_of_the_load(serving: Serving) -> None:
    """The server's own, before and after: the load and nothing else is in them."""
    if serving.engine != "vllm":
        return
    api = Api(serving.url)
    engine = engine_probe.probe(api)
    sent: list[load.Answer] = []

    class Kept:
        inner = load.driver(api, engine)

        def generate(self, *args: Any, **more: Any) -> load.Answer:
            sent.append(self.inner.generate(*args, **more))
            return sent[-1]

    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")

    def counters() -> list[float]:
        page = api.get("/metrics").text
        return [prometheus.total(page, f"vllm:spec_decode_{name}") or 0 for name in names]

    before = counters()
    size = fitting(engine, batch=2, prompt_tokens=16, tokens=128, vocabulary=None)
    measured = measure(Kept(), size, 2, seconds=120)
    grown = [new - old for new, old in zip(counters(), before, strict=True)]
    totals = [sum(getattr(a, n) for a in sent) for n in ("verified", "drafted", "accepted")]
    assert totals == grown
    assert measured.notes == () or "others" not in " ".join(measured.notes)


def test_sglangs_accept_length_is_the_servers_own(serving: Serving) -> None:
    """Its `spec_accept_length` also counts the token of the prefill and what was cut off."""
    if serving.engine != "sglang":
        return
    api = Api(serving.url)
    prompts = load.Load(1, 16, 512, 64, 512).prompts(1)
    body = {
        "input_ids": prompts,
        "sampling_params": {"temperature": 0, "max_new_tokens": 512, "ignore_eos": True},
    }
    info = api.post("/generate", body, seconds=120).json()[0]["meta_info"]
    answer = SglangDriver(api).generate(prompts, 512, seconds=120)
    assert answer.verified == info["spec_verify_ct"]
    assert answer.accepted == info["spec_num_correct_drafts"]
    off = (K + 1) / info["spec_verify_ct"]
    assert answer.accept_length == pytest.approx(info["spec_accept_length"], abs=off)
