"""SGLang itself, on the CPU with stand-in kernels, with specscope's hooks. Long.

Needs the interpreter of an environment with sglang and `specscope[server]` in
SPECSCOPE_SGLANG_PYTHON (docs/attach.md has the commands), and `../shared/engines-cpu` for the
stand-in kernels and the tiny models.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import launch
from tests.engines.ranges_of import (
    OTHER_SITE,
    accept_lengths,
    by_cycle,
    nested,
    ranges_of,
    tiny_models,
)
from tests.shared import shared_path

pytestmark = pytest.mark.long

PYTHON = os.environ.get("SPECSCOPE_SGLANG_PYTHON", "")
READY_SECONDS = 240
PROMPT = {
    "text": "w10 w11 w12 w13",
    "sampling_params": {"temperature": 0, "max_new_tokens": 32, "ignore_eos": True},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(PYTHON, "SPECSCOPE_SGLANG_PYTHON", tmp_path_factory.mktemp("models"))


class Server:
    """A server on a free port while the context is entered."""

    def __init__(self, models: Path, algorithm: str, tp: int, log: Path, env: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        draft = {"EAGLE3": "eagle3", "STANDALONE": "draft"}.get(algorithm)
        arguments = (
            f"--model-path {models}/target --device cpu --dtype float32 --host 127.0.0.1 "
            f"--port {self.port} --tp {tp} --attention-backend torch_native "
            "--prefill-attention-backend intel_amx --decode-attention-backend intel_amx "
            "--max-total-tokens 4096 --context-length 1024 --disable-radix-cache "
            "--max-running-requests 8 --skip-server-warmup "
            f"--speculative-algorithm {algorithm} --speculative-num-draft-tokens 4"
        )
        if draft:
            arguments += (
                f" --speculative-draft-model-path {models}/{draft} --speculative-num-steps 3"
                " --speculative-eagle-topk 1 --speculative-draft-attention-backend intel_amx"
            )
        self.log = log
        self.command = [PYTHON, "-m", "sglang.launch_server", *arguments.split()]
        self.env = env

    def __enter__(self) -> Server:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, env=self.env, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + READY_SECONDS
        while "fired up" not in self.log.read_text("utf-8", errors="replace"):
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                pytest.fail(self.log.read_text("utf-8", errors="replace")[-3000:])
            time.sleep(0.5)
        return self

    def __exit__(self, *raised: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            time.sleep(2)
        self.process.wait()

    def post(self, path: str, data: Any) -> bytes:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            json.dumps(data).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=180) as answer:
            body: bytes = answer.read()
        return body

    def generate(self) -> Any:
        return json.loads(self.post("generate", PROMPT))


class Run:
    """The answers of a server without hooks and of one with them."""

    def __init__(self, models: Path, folder: Path, algorithm: str, tp: int) -> None:
        self.algorithm, self.tp, self.folder = algorithm, tp, folder
        stubs = shared_path("engines-cpu", "sglang_cpu_stubs")
        site, self.accepts = folder / "site", folder / "accept"
        site.mkdir()
        self.accepts.mkdir()
        theirs = f"exec(compile(open({str(stubs / 'sitecustomize.py')!r}).read(), 'stubs', 'exec'))"
        (site / "sitecustomize.py").write_text(f"{theirs}\n{OTHER_SITE}", "utf-8")
        base = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")},
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        if tp > 1:
            base["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(tp)))
        plain = {**base, "PYTHONPATH": str(stubs), "SPECSCOPE_DISABLE": "1"}
        with Server(models, algorithm, tp, folder / "plain.log", plain) as server:
            self.plain = [server.generate() for _ in range(2)]
        hooked = launch.environment(
            {**base, "PYTHONPATH": f"{site}:{stubs}", "ACCEPT_DIR": str(self.accepts)},
            log=folder / "log",
        )
        traces = folder / "traces"
        with Server(models, algorithm, tp, folder / "hooked.log", hooked) as server:
            first = server.generate()
            profile = {"output_dir": str(traces), "activities": ["CPU"], "with_stack": False}
            server.post("start_profile", profile)
            self.hooked = [first, server.generate()]
            server.post("stop_profile", {})
            until = time.monotonic() + 30
            while len(list(traces.glob("*.gz"))) < tp and time.monotonic() < until:
                time.sleep(0.5)
            time.sleep(2)
        self.ranges = [ranges_of(path) for path in sorted(traces.glob("*.gz"))]

    @property
    def meta(self) -> Any:
        return self.hooked[1]["meta_info"]


@pytest.fixture(
    scope="module",
    params=[(name, tp) for name in ("EAGLE3", "STANDALONE", "NGRAM") for tp in (1, 2)],
    ids=lambda case: f"{case[0]}-tp{case[1]}".lower(),
)
def run(request: Any, models: Path, tmp_path_factory: Any) -> Iterator[Run]:
    yield Run(models, tmp_path_factory.mktemp("run"), *request.param)


def test_output_tokens_equal_those_of_an_unhooked_server(run: Run) -> None:
    for hooked, plain in zip(run.hooked, run.plain, strict=True):
        assert hooked["text"] == plain["text"]
        assert hooked.get("output_ids") == plain.get("output_ids")


def test_every_cycle_of_every_rank_carries_its_stages(run: Run) -> None:
    assert len(run.ranges) == run.tp
    for rank, found in enumerate(run.ranges):
        assert nested(found)
        cycles = [names for names in by_cycle(found).values() if names[0].stage not in ("prefill",)]
        assert len(cycles) == run.meta["spec_verify_ct"]
        for names in cycles:
            stages = [name.stage for name in names if name.step is None]
            ends = [] if run.algorithm == "NGRAM" else ["draft_extend"]
            assert stages == ["cycle", "draft", "verify", "accept", *ends]
            steps = [name.step for name in names if name.step is not None]
            assert steps == ([] if run.algorithm == "NGRAM" else [0, 1])
            assert {(name.batch, name.k, name.rank) for name in names} == {(1, 3, rank)}


def test_accept_lengths_equal_those_in_the_answers(run: Run) -> None:
    """Every rank resolves them; all ranks the same."""
    found = accept_lengths(run.accepts)
    metas = [answer["meta_info"] for answer in run.hooked]
    assert len(found) == run.tp * sum(meta["spec_verify_ct"] for meta in metas)
    correct = sum(length - 1 for _, lengths in found for length in lengths)
    assert correct == run.tp * sum(meta["spec_num_correct_drafts"] for meta in metas)
    assert None not in {cycle for cycle, _ in found}


def test_no_hook_failed(run: Run) -> None:
    reports = [json.loads(p.read_text("utf-8")) for p in (run.folder / "log").glob("attach-*.json")]
    assert not [hook for report in reports for hook in report["hooks"] if hook["faults"]]
    active = [r for r in reports if any(h["role"] == "cycle" and h["fired"] for h in r["hooks"])]
    assert len(active) == run.tp
