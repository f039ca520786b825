"""Run by the interpreter that has vLLM: speculation on the tiny models; tokens and counters out.

usage: generate_vllm.py CASE OUT.json

CASE is a JSON object: `models` (folder), `method`, and where wanted `tp`, `compiled` ("once" or
"piecewise"), `forks` and `traces` (a folder: the second of the two generations is recorded by the
torch profiler).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROMPTS = [f"w{10 + i} w{11 + i} w{12 + i} w{13 + i}" for i in range(4)]
TOKENS = 64


def speculation(models: str, method: str, tp: int) -> dict[str, Any]:
    """vLLM's `speculative_config` of a method on the tiny models."""
    if method == "ngram":
        return {
            "method": method,
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    if method == "mtp":
        return {"method": method, "num_speculative_tokens": 1}
    folder = {"eagle3": "eagle3", "eagle": "eagle", "draft_model": "draft"}[method]
    config = {"method": method, "model": f"{models}/{folder}", "num_speculative_tokens": 3}
    return config | ({"draft_tensor_parallel_size": tp} if method == "draft_model" else {})


def compile_counts(worker: Any) -> dict[str, Any]:
    """What Dynamo and vLLM's own compiler counted in a worker; read inside it."""
    from dataclasses import asdict

    from torch._dynamo import utils
    from vllm.compilation.counter import compilation_counter

    reasons = [
        str(metric.recompile_reason)
        for metric in utils.get_compilation_metrics()
        if getattr(metric, "recompile_reason", None)
    ]
    dynamo = {name: dict(counts) for name, counts in utils.counters.items()}
    # Which caches were hit is not the hooks' affair.
    names = ("frames", "graph_break", "stats", "unimplemented")
    kept = {name: dynamo.get(name, {}) for name in names}
    return {"dynamo": kept, "recompiles": reasons, "vllm": asdict(compilation_counter)}


def after_the_platform(change: Callable[[Any, Any], None]) -> None:
    """Have `change(before, config)` called when vLLM has settled what a CPU can do."""
    from vllm.platforms import current_platform

    platform: Any = type(current_platform)
    update = platform.check_and_update_config

    def check_and_update_config(config: Any) -> None:
        before = config.compilation_config.mode
        update(config)
        change(before, config)

    platform.check_and_update_config = staticmethod(check_and_update_config)


def compile_piecewise(wanted: Any, config: Any) -> None:
    """Keep vLLM's own compiler, which cuts the model at its attention.

    For a CPU vLLM takes another one. Here the pieces are the ones of a GPU, only that no CUDA
    graph is made of them.
    """
    from vllm.config import CompilationMode

    if wanted == CompilationMode.VLLM_COMPILE:
        config.compilation_config.mode = wanted
        # Inductor would look for CUDA's fused kernels in the pieces.
        config.compilation_config.backend = "eager"
        config.compilation_config.compile_sizes = []


def start_by_fork(wanted: Any, config: Any) -> None:
    """Fork EngineCore and the workers, as vLLM does elsewhere; on a CPU it spawns them."""
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"


def main(case: dict[str, Any], out: Path) -> None:
    from vllm import LLM, SamplingParams

    models, method, tp = case["models"], case["method"], case.get("tp", 1)
    options: dict[str, Any] = {}
    traces = case.get("traces")
    if traces:
        options["profiler_config"] = {
            "profiler": "torch",
            "torch_profiler_dir": traces,
            "torch_profiler_with_stack": False,
        }
    if case.get("compiled") == "piecewise":
        after_the_platform(compile_piecewise)
    if case.get("forks"):
        after_the_platform(start_by_fork)
    started = time.monotonic()
    engine = LLM(
        model=f"{models}/mimo_mtp" if method == "mtp" else f"{models}/target",
        tokenizer=f"{models}/target",
        tensor_parallel_size=tp,
        enforce_eager=not case.get("compiled"),
        speculative_config=speculation(models, method, tp),
        max_model_len=512,
        max_num_seqs=8,
        dtype="float32",
        disable_log_stats=False,
        block_size=32,
        seed=0,
        **options,
    )
    parameters = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
    tokens = []
    for profiled in (False, True):
        if profiled and traces:
            engine.start_profile()
        answers = engine.generate(PROMPTS, parameters, use_tqdm=False)
        tokens.append([list(answer.outputs[0].token_ids) for answer in answers])
        if profiled and traces:
            engine.stop_profile()
    counters = {}
    for metric in engine.get_metrics():
        if "spec_decode" in metric.name:
            counters[metric.name] = getattr(metric, "value", None) or getattr(metric, "values", 0)
    counts = engine.collective_rpc(compile_counts) if case.get("compiled") else None
    result = {
        "tokens": tokens,
        "counters": counters,
        "compiled": counts,
        "seconds": round(time.monotonic() - started, 1),
    }
    out.write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
