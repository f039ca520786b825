"""Stage ranges: one call, seen by Nsight, by the torch profiler, and in the cycle log.

    from specscope.profiler import ranges

    ranges.configure(ranges.Config(log=Path("/tmp/log"), rank=0))
    ranges.enable()
    with ranges.cycle_range(batch=8, k=3):
        with ranges.stage("draft"):
            ...
        with ranges.stage("verify", tokens=32):
            ...

Nothing here raises into the caller, synchronises, or emits while the current CUDA stream is
capturing. An emitter that raises is switched off, counted, and named in one warning. While
disabled, or while nothing listens, a range is a shared object that does nothing.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from sys import modules
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final, TypeVar

from . import emit_nvtx, emit_torch, grammar, metrics
from .cuda_events import Sampler
from .cycle_log import MOST_LENGTHS, CycleLog, LogConfig
from .cycle_log_rows import Row, Seen
from .decorate import around
from .range_state import Config, Local, State, Thread

CYCLE: Final = grammar.CYCLE
_CUDA: Final = emit_torch.CUDA

# Room that the log must have for the rows of a cycle, which are not counted one by one.
ROWS_OF_A_CYCLE: Final = 64

F = TypeVar("F", bound=Callable[..., Any])
Values = tuple[int | None, ...]

_logger = logging.getLogger("specscope")


STATE: Final = State()
_LOCK = threading.Lock()


class Range:
    """One range, to be entered once; see `stage`. `values` are integers or None."""

    __slots__ = (
        "_annotation",
        "_before",
        "_entered",
        "_nvtx",
        "_sample",
        "_start",
        "_thread",
        "stage",
        "values",
    )

    def __init__(self, stage: str, values: Values) -> None:
        self.stage = stage
        self.values = values
        self._entered = False

    # Both written out in one piece: a call is a tenth of what a range costs.

    def __enter__(self) -> None:
        state = STATE
        try:
            cuda = _CUDA.module
            if cuda is not None or ("torch" in modules and (cuda := _CUDA.found()) is not None):
                try:
                    if cuda.is_current_stream_capturing():
                        return
                except Exception as error:
                    _cannot_ask(state, error)
                    return
            thread = self._thread = state.local.thread
            values = self.values
            self._before = around = thread.cycle
            if self.stage == CYCLE:
                if values[0] is None:
                    values = self.values = (next(state.numbers), *values[1:])
                thread.cycle = values[0]
            elif around is not None and values[0] is None:
                values = self.values = (around, *values[1:])
            self._nvtx = self._annotation = self._sample = None
            self._entered = True
            nvtx = state.nvtx
            if nvtx is not None:
                try:
                    nvtx.push(self.stage, values)
                    self._nvtx = nvtx
                except Exception as error:
                    state.fail("nvtx", error)
            torch = state.torch
            if torch is not None and state.flag._is_profiler_enabled:
                try:
                    text = grammar.PREFIX + grammar.bare(self.stage, values)
                    self._annotation = (torch, torch.open(text))
                except Exception as error:
                    state.fail("torch", error)
            if state.log is not None:
                self._start = perf_counter_ns()
                if state.events:
                    try:
                        sampler = thread.sampler or _new_sampler(state, thread)
                        if sampler is not None:
                            self._sample = sampler.enter(values[0], self._start)
                    except Exception as error:
                        state.fail("events", error)
            else:
                self._start = 0
        except Exception as error:
            state.fail("ranges", error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._entered:
            return
        self._entered = False
        state = STATE
        try:
            thread = self._thread
            log = state.log
            if self._start and log is not None:
                end = perf_counter_ns()
                seen = (self.stage, self.values, self._start, end, thread.number)
                if self._sample is None or not self._timed(state, seen, end):
                    log.put_range(seen)
            if self._annotation is not None:
                torch, handle = self._annotation
                try:
                    torch.close(handle)
                except Exception as raised:
                    state.fail("torch", raised)
            if self._nvtx is not None:
                try:
                    self._nvtx.pop()
                except Exception as raised:
                    state.fail("nvtx", raised)
            if self.stage == CYCLE:
                thread.cycle = self._before
        except Exception as raised:
            state.fail("ranges", raised)

    def __call__(self, function: F) -> F:
        """Decorate: a range around every run of the function; see `stage`."""
        return _decorated(function, self.stage)

    def _timed(self, state: State, seen: Seen, end_ns: int) -> bool:
        """Has the sampler taken the range, to be written with its GPU times?"""
        sampler = self._thread.sampler
        sample = self._sample
        if sampler is None or sample is None or not state.events or _is_capturing(state):
            return False
        try:
            sampler.leave(sample, Row.of(*seen), end_ns)
        except Exception as error:
            state.fail("events", error)
            return False
        return True


class _Off:
    """A range that does nothing; one for each stage, shared."""

    __slots__ = ("_stage",)

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, function: F) -> F:
        """Decorate: what is off now may be on when the function runs."""
        return _decorated(function, self._stage)


_OFF: Final = {name: _Off(name) for name in (*grammar.STAGES, grammar.CYCLE)}


def stage(
    name: str,
    *,
    cycle: int | None = None,
    step: int | None = None,
    batch: int | None = None,
    tokens: int | None = None,
    k: int | None = None,
    rank: int | None = None,
    size: int | None = None,
) -> Range | _Off:
    """A range of a stage (a word of `grammar.STAGES`), as context manager or decorator.

    Without `cycle` it belongs to the cycle range around it. Values that are no integers are
    left out: reading a tensor would wait for the GPU. As a decorator only the name counts,
    for the other values change from call to call. A word that is no stage does nothing.
    """
    state = STATE
    try:
        off = _OFF[name]
    except (KeyError, TypeError):
        return _unknown(name)
    if not state.heard and not state.flag._is_profiler_enabled:
        return off
    values = (cycle, step, batch, tokens, k, rank, size)
    for value in values:
        if value is not None and type(value) is not int:
            return Range(name, _integers(values))
    return Range(name, values)


def open_stage(name: str, values: Values) -> Range | None:
    """For hooks: the range of that stage or cycle, entered; None when nothing listens.

    `values` are integers or None in the order of `grammar.FIELDS`; nothing is checked.
    """
    if not STATE.heard and not STATE.flag._is_profiler_enabled:
        return None
    opened = Range(name, values)
    opened.__enter__()
    return opened


def cycle_range(
    *,
    cycle: int | None = None,
    batch: int | None = None,
    tokens: int | None = None,
    k: int | None = None,
    rank: int | None = None,
    size: int | None = None,
) -> Range | _Off:
    """The range of a whole cycle; numbers itself where no number is given."""
    return stage(grammar.CYCLE, cycle=cycle, batch=batch, tokens=tokens, k=k, rank=rank, size=size)


def record_accept(cycle: int | None, lengths: Iterable[int]) -> None:
    """Accept lengths of a cycle for the log, one a sequence, the bonus token included.

    To be called when the host has them anyway, however late; `cycle` is the number of its
    range. What is no list of integers (a tensor) is not looked at.
    """
    state = STATE
    log = state.log
    if not state.on or log is None:
        return
    try:
        if not isinstance(lengths, list | tuple):
            raise TypeError(f"accept lengths are a {type(lengths).__name__}, not a list")
        whole = [value for value in lengths if type(value) is int and -(2**31) <= value < 2**31]
        if len(whole) != len(lengths):
            raise TypeError("accept lengths are not all integers")
        log.record_accept(_integer(cycle), whole)
    except Exception as error:
        state.errors["accept"] += 1
        if state.errors["accept"] == 1:
            state.reasons["accept"] = f"{type(error).__name__}: {error}"[:300]
            _logger.warning("specscope: accept lengths left out: %s", state.reasons["accept"])


def record_drafts(cycle: int | None, drafts: list[int], bonus: int) -> None:
    """For hooks: the same from the drafts accepted, with the bonus tokens to be added."""
    log = STATE.log
    if log is None or not STATE.on:
        return
    put = log.room_for(1)
    if put is None:
        log.record_accept(cycle, [draft + bonus for draft in drafts])
    else:  # a copy: the list is the engine's
        thread = STATE.local.thread.number
        put((cycle, drafts[:MOST_LENGTHS], bonus, perf_counter_ns(), thread))


def current_cycle() -> int | None:
    """Number of the cycle range around this point of the thread."""
    return STATE.local.thread.cycle


def set_rank(rank: int | None, size: int | None = None) -> None:
    """Say which rank this process is, as soon as it is known."""
    if STATE.log is not None:
        STATE.log.set_rank(_integer(rank), _integer(size))


def configure(config: Config | None = None) -> None:
    """Choose what listens; imports what it needs, so call it at start. Ranges stay off."""
    config = config or Config()
    with _LOCK:
        shutdown()
        state = STATE
        state.config = config
        state.numbers = itertools.count()
        state.errors.clear()
        state.reasons.clear()
        state.nvtx, state.nvtx_reason = emit_nvtx.find(config.nvtx)
        state.torch = emit_torch.TorchRanges(state.settle) if config.torch else None
        state.metrics, state.metrics_reason = _exporter(config.metrics)
        if config.log is not None or state.metrics is not None:
            _open_log(state, config, config.log)
        state.events = state.log is not None and config.events_every > 0
        state.settle()


def _exporter(port: int | None) -> tuple[metrics.Exporter | None, str]:
    """The page of this process, or why there is none."""
    if port is None:
        return None, "no port given"
    if not metrics.is_installed():
        reason = "prometheus-client is missing: pip install 'specscope[server]'"
        _logger.warning("specscope: no metrics: %s", reason)
        return None, reason
    return metrics.Exporter(port), ""


def _open_log(state: State, config: Config, folder: Path | None) -> None:
    def end() -> None:
        state.log = None
        state.events = False
        state.settle()

    try:
        folder = Path(folder) if folder is not None else None
        settings = replace(
            config.log_settings or LogConfig(folder),
            folder=folder,
            rank=config.rank,
            world_size=config.size,
            engine=config.engine,
            engine_version=config.engine_version,
        )
        log = CycleLog(settings, metrics=state.metrics, at_end=end)
        state.log = log
        if not log.start():
            state.errors["log"] += 1
            state.reasons["log"] = state.metrics_reason = str(log.report()["error"])
            state.log = state.metrics = None
    except Exception as error:
        state.fail("log", error)


def enable() -> None:
    """Switch the ranges on; without `configure` before, with the defaults."""
    if STATE.config is None:
        configure()
    if not STATE.on:
        for sampler in STATE.samplers:
            sampler.interrupted = True
    STATE.on = True
    STATE.settle()


def disable() -> None:
    """Switch the ranges off; what is open closes, the log stays open for `enable`."""
    STATE.on = False
    STATE.settle()


def is_enabled() -> bool:
    """Are the ranges on?"""
    return STATE.on


def is_heard() -> bool:
    """Does anything listen to a range that opens now?"""
    return STATE.heard or bool(STATE.flag._is_profiler_enabled)


def log_alone(thread: Thread, cycle: int) -> Callable[[Seen], None] | None:
    """For hooks, where a cycle begins: what takes its rows, if only the log listens to it.

    None where a range has more to do (a profiler listens, the cycle has CUDA events or those
    of another can be read), or the log has no room for another cycle.
    """
    state = STATE
    log = state.log
    if log is None or state.nvtx is not None or state.flag._is_profiler_enabled:
        return None
    sampler = thread.sampler
    if state.events and (sampler.wants(cycle) if sampler is not None else _CUDA.module is not None):
        return None
    return log.room_for(ROWS_OF_A_CYCLE)


def this_thread() -> Thread:
    """What the ranges know of this thread; it stays the same object until a fork."""
    return STATE.local.thread


def shutdown() -> None:
    """Off, and the log written to its end."""
    state = STATE
    state.on = False
    log, state.log = state.log, None
    if log is not None:
        for sampler in state.samplers:
            sampler.give_up()
        log.close()
    for thread in state.sampled:
        thread.sampler = None
    state.samplers.clear()
    state.sampled.clear()
    state.nvtx = state.torch = None
    state.metrics, state.metrics_reason = None, ""
    state.events = False
    state.config = None
    state.settle()


def emitters_report() -> dict[str, Any]:
    """What listens, what does not and why, and what was lost; plain values."""
    state = STATE
    config = state.config
    has_log = state.log is not None and config is not None and config.log is not None
    log = state.log.report() if state.log is not None and has_log else None
    return {
        "enabled": state.on,
        "nvtx": {
            "active": state.nvtx is not None,
            "by": state.nvtx.name if state.nvtx else None,
            "reason": state.reasons.get("nvtx", state.nvtx_reason),
        },
        "torch_profiler": {
            "active": state.torch is not None,
            "profiling": state.torch is not None and state.torch._is_profiler_enabled,
            "reason": state.reasons.get("torch", ""),
        },
        "cycle_log": log
        or {
            "active": False,
            "reason": state.reasons.get(
                "log", "no folder given" if config is None or config.log is None else "closed"
            ),
        },
        "metrics": state.metrics.report()
        if state.metrics is not None
        else {"active": False, "port": None, "reason": state.metrics_reason or "not configured"},
        "cuda_events": {
            "active": state.events,
            "every": config.events_every if config else 0,
            "unresolved_cycles": sum(sampler.unresolved for sampler in state.samplers),
            "reason": state.reasons.get("events", ""),
        },
        "errors": dict(state.errors),
    }


def _decorated(function: F, name: str) -> F:
    return around(function, lambda: stage(name)) if name in _OFF else function


def _unknown(name: str) -> _Off:
    """A name that is no stage: it does nothing, and is counted."""
    STATE.errors["unknown_stage"] += 1
    if STATE.errors["unknown_stage"] == 1:
        _logger.warning("specscope: %.80r is no stage; its ranges do nothing", name)
    return _OFF_UNKNOWN


_OFF_UNKNOWN: Final = _Off("")


def _is_capturing(state: State) -> bool:
    """Is the current stream capturing? What cannot be asked counts as capturing."""
    try:
        return _CUDA.is_capturing()
    except Exception as error:
        _cannot_ask(state, error)
        return True


def _cannot_ask(state: State, error: Exception) -> None:
    state.errors["capture"] += 1
    if state.errors["capture"] == 1:
        _logger.warning("specscope: cannot ask whether a graph is captured: %s", error)


def _new_sampler(state: State, thread: Thread) -> Sampler | None:
    """The sampler of this thread, once CUDA is in use."""
    cuda = _CUDA.module
    log = state.log
    if cuda is None or log is None or state.config is None:
        return None
    new_event = cuda.Event
    sampler = Sampler(
        state.config.events_every, lambda: new_event(enable_timing=True), log.put, thread.number
    )
    thread.sampler = sampler
    state.sampled.append(thread)
    state.samplers.append(sampler)
    return sampler


def _integers(values: tuple[Any, ...]) -> Values:
    """The values with what is no integer left out."""
    try:
        return tuple(_integer(value) for value in values)
    except Exception as error:
        STATE.fail("ranges", error)
        return (None,) * len(values)


def _integer(value: Any) -> int | None:
    """The value when it is an integer of Python or numpy; nothing else is asked for one."""
    if type(value) is int:
        return value
    if isinstance(value, int):
        return int(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return int(value) if "int" in type(value).__name__ else None
    return None


def _after_fork() -> None:
    """In a forked child: a log of its own, and no CUDA event of the parent is touched."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()
    state = STATE
    _KEPT_ALIVE.extend(state.samplers)  # freeing events would call CUDA, which cannot fork
    _KEPT_ALIVE.append(state.local)
    state.samplers, state.sampled = [], []
    state.local = Local()
    _CUDA.module = None
    if state.log is not None:
        state.log.after_fork()


_KEPT_ALIVE: list[Any] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(shutdown)
