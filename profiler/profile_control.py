"""Starts and ends the torch profiler of a server over HTTP, as SGLang and vLLM have it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specscope.profiler import prometheus
from specscope.profiler.engine_probe import VLLM, Engine
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError

# Of the steps asked for, analysis counts whole cycles only: the first and the last are cut.
MORE_STEPS = 2
# A prefill of the load may lie among the steps.
_VLLM_MORE = 2
_START_SECONDS = 120.0
_PAUSE_SECONDS = 0.1
VLLM_START = (
    'vllm serve MODEL ... --profiler-config \'{"profiler": "torch", "torch_profiler_dir": '
    '"/tmp/traces", "torch_profiler_with_stack": false}\' (before 0.13: '
    "VLLM_TORCH_PROFILER_DIR=/tmp/traces)"
)


@dataclass
class SglangProfiler:
    """`/start_profile` with a number of steps: it ends by itself, on all ranks at once.

    Never by stage: with speculation such a window does not end (a verify counts as prefill).
    Stacks are on unless they are refused.
    """

    api: Api
    folder: str
    cycles: int
    stacks: bool
    running: bool = False

    @property
    def steps(self) -> int:
        """Steps to record."""
        return self.cycles + MORE_STEPS

    def start(self) -> None:
        """Begin at the next step."""
        body: dict[str, Any] = {
            "output_dir": self.folder,
            "num_steps": self.steps,
            "activities": ["CPU", "GPU"],
            "with_stack": self.stacks,
            "record_shapes": False,
            "profile_by_stage": False,
        }
        self.running = True  # from here on: who gives up while this is under way has to end it
        reply = self.api.post("/start_profile", body, seconds=_START_SECONDS)
        self.running = reply.ok
        if reply.status == 404:
            raise UnsuitableError(
                f"{self.api.title} has no /start_profile: is it the engine itself?"
            )
        if not reply.ok:
            raise ServerError(
                f"{self.api.title} does not start its profiler ({self.api.words(reply)}): most "
                "often one is running already, POST /stop_profile ends it; else the server's log "
                "says why"
            )

    def stop(self, seconds: float) -> None:
        """End it early, once; what was recorded is written."""
        if self.running:
            self.running = False
            self.api.post("/stop_profile", None, seconds=seconds)


@dataclass
class VllmProfiler:
    """`/start_profile`, so many steps by the server's own counter, `/stop_profile`.

    `max_iterations` bounds it also where the way to the server is slow; versions that do not
    know it ignore it.
    """

    api: Api
    cycles: int
    step_seconds: float
    running: bool = False

    def start(self) -> None:
        """Begin at the next step."""
        body = {"max_iterations": self.cycles + MORE_STEPS + _VLLM_MORE}
        self.running = True  # from here on: who gives up while this is under way has to end it
        reply = self.api.post("/start_profile", body, seconds=_START_SECONDS)
        self.running = reply.ok
        if reply.status == 404:
            raise no_profiler(self.api)
        if reply.status == 409:
            raise ServerError(
                f"{self.api.title} is being profiled already; POST /stop_profile ends that"
            )
        if not reply.ok:
            raise ServerError(
                f"{self.api.title} does not start its profiler ({self.api.words(reply)}); its log "
                "says why"
            )

    def await_steps(self, before: str, seconds: float, check: Callable[[], None]) -> None:
        """Wait until the server has run its steps since the page `before` of `/metrics`.

        Without a counter: ten times as long as they take without a profiler. `check` raises
        what ended the load.
        """
        steps = self.cycles + MORE_STEPS
        begun = time.monotonic()
        guess = max(1.0, 10 * steps * self.step_seconds)
        while time.monotonic() - begun < seconds:
            check()
            reply = self.api.get("/metrics")
            ran = _steps(before, reply.text if reply.ok else "")
            if ran is None and time.monotonic() - begun >= guess:
                return
            if ran is not None and ran >= steps:
                return
            time.sleep(_PAUSE_SECONDS)

    def stop(self, seconds: float) -> None:
        """End it, once; answers when every rank has written its file."""
        if not self.running:
            return
        self.running = False
        reply = self.api.call("POST", "/stop_profile", None, seconds=seconds)
        if not reply.ok:
            raise ServerError(
                f"{self.api.title} does not end its profiler in order ({self.api.words(reply)}); "
                "a long export may run into the server's own time limit: fewer --cycles, or a "
                "larger VLLM_RPC_TIMEOUT"
            )


def end_running(api: Api, seconds: float) -> bool:
    """End a profile that somebody left running on SGLang; False when the server knows of none.

    Nothing else tells whether one runs. Figures measured under it would be wrong, and a new
    start throws away what it recorded (0.5.23 restarts it with its own folder and length); ended,
    it writes its traces where it was told to. Without one the server answers 500 and logs that.
    """
    return api.call("POST", "/stop_profile", None, seconds=seconds).ok


def no_profiler(api: Api) -> UnsuitableError:
    """A vLLM server that was started without a profiler has no such page."""
    return UnsuitableError(
        f"{api.title} was started without a profiler; start it so: {VLLM_START}; or measure only, "
        "with --no-profile"
    )


def vllm_has_profiler(api: Api) -> bool:
    """Whether `/start_profile` is there: asked with the wrong method, so nothing starts."""
    return api.get("/start_profile").status != 404


def vllm_folder(engine: Engine) -> Path | None:
    """Where a vLLM server writes its traces, by its arguments or environment."""
    if engine.name != VLLM:
        return None
    config = engine.arguments.get("profiler_config")
    named = config.get("torch_profiler_dir") if isinstance(config, dict) else None
    named = named or engine.setting("VLLM_TORCH_PROFILER_DIR")
    if not isinstance(named, str) or "://" in named or not named.isprintable() or not named:
        return None
    base = engine.local.folder if engine.local else Path("/")
    try:
        return base / Path(named).expanduser()
    except RuntimeError:  # ~somebody, who is not known here
        return None


def _steps(before: str, now: str) -> int | None:
    name = "vllm:iteration_tokens_total_count"
    count = prometheus.total(now, name)
    return None if count is None else int(count - (prometheus.total(before, name) or 0))
