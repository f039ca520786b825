"""Run by the interpreter that has vLLM: EAGLE-3 on the tiny models, tokens and counters out.

usage: generate_vllm.py MODELS TP OUT.json [TRACES]
With TRACES the second of two generations is recorded by the torch profiler.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(models: str, tp: int, out: str, traces: str = "") -> None:
    from vllm import LLM, SamplingParams

    options: dict[str, Any] = {}
    if traces:
        options["profiler_config"] = {
            "profiler": "torch",
            "torch_profiler_dir": traces,
            "torch_profiler_with_stack": False,
        }
    engine = LLM(
        model=f"{models}/target",
        tokenizer=f"{models}/target",
        tensor_parallel_size=tp,
        enforce_eager=True,
        speculative_config={
            "method": "eagle3",
            "model": f"{models}/eagle3",
            "num_speculative_tokens": 3,
        },
        max_model_len=512,
        max_num_seqs=8,
        dtype="float32",
        disable_log_stats=False,
        block_size=32,
        seed=0,
        **options,
    )
    parameters = SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True)
    prompts = [f"w{10 + i} w{11 + i} w{12 + i} w{13 + i}" for i in range(4)]
    tokens = []
    for profiled in (False, True):
        if profiled and traces:
            engine.start_profile()
        answers = engine.generate(prompts, parameters, use_tqdm=False)
        tokens.append([list(answer.outputs[0].token_ids) for answer in answers])
        if profiled and traces:
            engine.stop_profile()
    counters = {
        metric.name: metric.value
        for metric in engine.get_metrics()
        if "spec_decode" in metric.name and hasattr(metric, "value")
    }
    Path(out).write_text(json.dumps({"tokens": tokens, "counters": counters}), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
