"""What the ranges of a process know: what was chosen, what listens, which cycle a thread is in."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import emit_nvtx, emit_torch, metrics
from .cuda_events import Sampler
from .cycle_log import CycleLog, LogConfig

_logger = logging.getLogger("specscope")


@dataclass(frozen=True)
class Config:
    """What listens. `log` is a folder for the cycle log; None: no log.

    `nvtx`: `auto`, `package`, `torch` or `off`. `torch`: annotations while a torch profiler is
    on. `events_every`: CUDA events at the stage borders of every so many cycles, 0: never.
    `log_settings` bounds the log; its folder and rank are those given here. `metrics`: for
    Prometheus on 127.0.0.1, port `metrics` + rank; None: none.
    """

    log: Path | None = None
    nvtx: str = "auto"
    torch: bool = True
    events_every: int = 10
    rank: int | None = None
    size: int | None = None
    engine: str = ""
    engine_version: str = ""
    log_settings: LogConfig | None = None
    metrics: int | None = None


class Thread:
    """What one thread knows: the cycle it is in, and its sampler of CUDA events."""

    __slots__ = ("cycle", "number", "sampler")

    def __init__(self) -> None:
        self.cycle: int | None = None
        self.number = threading.get_native_id()
        self.sampler: Sampler | None = None


class Local(threading.local):
    """One `Thread` for each thread; an access costs as much as four of another object."""

    def __init__(self) -> None:
        self.thread = Thread()


class State:
    """The emitters of this process."""

    def __init__(self) -> None:
        self.on = False
        self.heard = False  # something listens, whatever torch's profiler does
        self.flag: Any = emit_torch.NEVER  # else its flag says so
        self.config: Config | None = None
        self.nvtx: emit_nvtx.Ranges | None = None
        self.nvtx_reason = "not configured"
        self.torch: emit_torch.TorchRanges | None = None
        self.log: CycleLog | None = None
        self.metrics: metrics.Exporter | None = None
        self.metrics_reason = ""
        self.events = False
        self.local = Local()
        self.samplers: list[Sampler] = []
        self.sampled: list[Thread] = []  # the threads that have one
        self.numbers = itertools.count()
        self.errors: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}

    def settle(self) -> None:
        """Work out whether anything listens; after every change of what does."""
        self.heard = self.on and (self.nvtx is not None or self.log is not None)
        self.flag = self.torch.flag if self.on and self.torch is not None else emit_torch.NEVER

    def fail(self, emitter: str, error: BaseException) -> None:
        """An emitter raised: it is switched off, counted, and named once."""
        self.errors[emitter] += 1
        if emitter in ("nvtx", "torch", "log"):
            setattr(self, emitter, None)
        elif emitter == "events":
            self.events = False
            if (sampler := self.local.thread.sampler) is not None:
                sampler.give_up()
        self.settle()
        if self.errors[emitter] == 1:
            self.reasons[emitter] = f"{type(error).__name__}: {error}"[:300]
            _logger.warning("specscope: %s is off: %s", emitter, self.reasons[emitter])
