"""What is known to go wrong while a server is profiled, said before it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from specscope.profiler.engine_probe import SGLANG, VLLM, Engine

_OFF = {"", "0", "false", "no", "off", "n", "f"}


def _set(engine: Engine, name: str) -> bool:
    return (engine.setting(name) or "").strip().lower() not in _OFF


def _vllm_stacks(engine: Engine) -> bool:
    config = engine.arguments.get("profiler_config")
    return isinstance(config, dict) and config.get("torch_profiler_with_stack") is not False


def _frozen(engine: Engine) -> bool:
    return engine.name == SGLANG


# When it applies (to the engine), whether only with --stacks, and what to say.
_RULES: Final[tuple[tuple[Callable[[Engine], bool], bool, str], ...]] = (
    (
        lambda engine: True,
        True,
        "stacks make traces 5 to 20 times larger and their export slower by far, and have crashed "
        "servers",
    ),
    (
        _frozen,
        False,
        "the server stands still while it writes the traces (25 s at TP 8 was seen): health "
        "checks may fail, and a router may take it out",
    ),
    (
        lambda engine: engine.name == SGLANG and _set(engine, "SGLANG_PROFILE_V2"),
        False,
        "SGLANG_PROFILE_V2 is set: that profiler works by stage only, and does not end with "
        "speculation; start the server without it",
    ),
    (
        lambda engine: engine.name == VLLM and _vllm_stacks(engine),
        False,
        "the server records stacks (vLLM's default): minutes of export, traces 5 to 20 times "
        'larger; start it with "torch_profiler_with_stack": false in --profiler-config',
    ),
    (
        lambda engine: (
            engine.name == VLLM
            and engine.local is not None
            and not _set(engine, "VLLM_CUSTOM_SCOPES_FOR_PROFILING")
        ),
        False,
        "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 is not set: without it, or specscope's hooks, the "
        "trace does not name its stages",
    ),
)
SIMULATED: Final = (
    "acceptance is simulated on this server: times are real, accept length and tokens/s are not "
    "those of the models"
)


def before_profiling(engine: Engine, *, stacks: bool) -> list[str]:
    """The warnings that hold for this server."""
    return [
        text
        for applies, only_with_stacks, text in _RULES
        if applies(engine) and (stacks or not only_with_stacks)
    ]
