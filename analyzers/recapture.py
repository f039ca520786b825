"""The exact call for a capture that would answer, by engine."""

from __future__ import annotations

SGLANG = (
    "curl -X POST http://HOST:30000/start_profile -H 'Content-Type: application/json' "
    '-d \'{"output_dir": "/tmp/traces", "num_steps": 20, '
    '"activities": ["CPU", "GPU"], "with_stack": false, "record_shapes": false}\''
)
VLLM = (
    "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 vllm serve MODEL ... --profiler-config "
    '\'{"profiler": "torch", "torch_profiler_dir": "/tmp/traces", '
    '"torch_profiler_with_stack": false, "max_iterations": 20}\'; '
    "then, under steady load: curl -X POST http://HOST:8000/start_profile"
)


NSYS = (
    "under steady load, graphs recorded node by node: specscope record -- COMMAND\n"
    "by hand: nsys profile -t cuda,nvtx --sample=none --cpuctxsw=none "
    "--cuda-graph-trace=node --trace-fork-before-exec=true COMMAND"
)
LOG = "let the server run under steady load, then analyze the log again"


def call(engine: str | None) -> str:
    """The call for that engine; for both when it is unknown."""
    engine = (engine or "").lower()
    if "sglang" in engine:
        return f"under steady load: {SGLANG}"
    if "vllm" in engine:
        return VLLM
    return f"SGLang, under steady load: {SGLANG}\nvLLM: {VLLM}"
