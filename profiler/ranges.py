"""STAND-IN, replaced on merge by the emitters (NVTX, record_function, cycle log).

The same calls as the real module, with one emitter: a `record_function` range while a torch
profiler is active. Nothing here imports torch; a process without it emits nothing.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specscope.profiler import grammar

# The last accept lengths, bonus token included: (cycle, one length a sequence).
accepted: deque[tuple[int | None, list[int]]] = deque(maxlen=1024)
_on = False
configured: Config | None = None


class stage:  # noqa: N801 - reads as a statement: `with stage("verify"): ...`
    """A range of that stage while it is entered."""

    __slots__ = ("_range", "_text")

    def __init__(
        self,
        name: str,
        *,
        cycle: int | None = None,
        step: int | None = None,
        batch: int | None = None,
        tokens: int | None = None,
        k: int | None = None,
        rank: int | None = None,
        size: int | None = None,
    ) -> None:
        self._range: Any = None
        self._text = (
            grammar.write(grammar.RangeName(name, cycle, step, batch, tokens, k, rank, size))
            if _profiling()
            else ""
        )

    def __enter__(self) -> None:
        if self._text:
            profiler: Any = sys.modules["torch.autograd.profiler"]
            self._range = profiler.record_function(self._text)
            self._range.__enter__()

    def __exit__(self, *raised: object) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)


def cycle_range(**fields: int | None) -> stage:
    """The range of a whole cycle."""
    return stage(grammar.CYCLE, **fields)


def record_accept(cycle: int | None, lengths: Sequence[int]) -> None:
    """Keep the accept lengths of a cycle, the bonus token included."""
    if _on:
        accepted.append((cycle, list(lengths)))


@dataclass(frozen=True)
class Config:
    """What the emitters are told; the stand-in keeps it and does nothing with it."""

    log: Path | None = None
    engine: str = ""
    engine_version: str = ""


def configure(config: Config | None = None) -> None:
    """Choose what listens; ranges stay off."""
    global configured, _on
    configured, _on = config or Config(), False


def set_rank(rank: int | None, size: int | None = None) -> None:
    """Say which rank this process is; nothing in the stand-in asks for it."""


def enable() -> None:
    """Emit."""
    global _on  # noqa: PLW0603
    _on = True


def disable() -> None:
    """Emit nothing."""
    global _on  # noqa: PLW0603
    _on = False


def is_enabled() -> bool:
    """Are the ranges on?"""
    return _on


def shutdown() -> None:
    """Off, for good."""
    global configured  # noqa: PLW0603
    configured = None
    disable()


def emitters_report() -> dict[str, Any]:
    """What listens."""
    return {"torch": _on, "log": str(configured.log) if configured and configured.log else None}


def _profiling() -> bool:
    autograd: Any = sys.modules.get("torch.autograd")
    return _on and autograd is not None and bool(autograd._profiler_enabled())
