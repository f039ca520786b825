"""What a step of an engine does, told from what its forward is given; nothing is computed.

`verify`, `decode`, `prefill`, `cycle` where one forward holds every stage of a cycle, or None
where the step is none: a dummy, a warm-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PREFILL: Final = "prefill"


def lmdeploy(inputs: Any, agent: Any) -> str | None:
    """`BaseModelAgent._forward_impl(inputs)`."""
    if inputs.is_dummy:
        return None
    if not inputs.is_decoding:
        return PREFILL
    return "verify" if agent.spec_agent._enabled else "decode"


def tensorrt_llm(scheduled: Any, executor: Any) -> str | None:
    """`PyExecutor._forward_step(scheduled_requests)`."""
    if getattr(executor, "is_warmup", False) is True:
        return None
    if scheduled.context_requests:
        return PREFILL
    if not scheduled.generation_requests:
        return None
    drafter = getattr(executor, "drafter", None)
    if drafter is not None and type(drafter).__name__ != "OneModelDrafter":
        return "verify"
    config = getattr(getattr(executor, "model_engine", None), "spec_config", None)
    return "decode" if config is None else "cycle"


BY_ENGINE: Final[dict[str, Callable[[Any, Any], str | None]]] = {
    "lmdeploy": lmdeploy,
    "tensorrt_llm": tensorrt_llm,
}
