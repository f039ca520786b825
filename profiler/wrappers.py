"""The functions that go in place of an engine's own.

`whole` does what any role asks for. The others are short ways of it for what a server does in
every cycle. Between two hooks the engine touches so much memory that nothing of a hook is left
in the caches, and then it costs by what it touches: on a GPU server 1 us for each function
called, ten times as much as in a loop. So a short way is one function: it looks whether
anybody listens, and where only the log does, it writes the row itself.

All pass arguments and results through untouched, and no error of a hook leaves its wrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from specscope.profiler import hooks, ranges, roles

if TYPE_CHECKING:
    from specscope.profiler.hooks import Hook

Function = Callable[..., Any]

# Of so many calls one is timed: a prime, for cycles have other rhythms (sampled events).
TIMED_EVERY: Final = 17

_STATE: Final = ranges.STATE
_LOCAL: Final = roles.LOCAL


def wrapper_of(hook: Hook, original: Function) -> Function:
    """The function that goes in place of `original`."""
    return _SHORT.get(hook.target.role, whole)(hook, original)


def whole(hook: Hook, original: Function) -> Function:
    """Any role. This and `_forward` may be reached while torch compiles, and then do nothing."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hooks.is_compiling() or not hook.live:
            return original(*args, **kwargs)
        return _whole(hook, original, args, kwargs)

    return wrapper


def _whole(hook: Hook, original: Function, args: Any, kwargs: Any) -> Any:
    start = 0 if (hook.fired + 1) % TIMED_EVERY else perf_counter_ns()
    try:
        opened = roles.open_hook(hook, args, kwargs)
    except Exception as error:
        hook.failed(error)
        opened = None
    if opened is None:
        return original(*args, **kwargs)
    if start:
        hook.timed(perf_counter_ns() - start)
    result = roles.RAISED
    try:
        result = original(*args, **kwargs)
    finally:
        if start:
            start = perf_counter_ns()
        try:
            roles.close_hook(hook, opened, result, args, kwargs)
        except Exception as error:
            hook.failed(error)
        if start:
            hook.timed_ns += perf_counter_ns() - start
    return result


def _cycle(hook: Hook, original: Function) -> Function:
    """Unheard, a cycle is only counted, that all ranks give the next one the same number."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        here = _LOCAL.here
        if not hook.live or here.depth or here.quiet:
            return original(*args, **kwargs)
        fired = hook.fired + 1
        start = 0 if fired % TIMED_EVERY else perf_counter_ns()
        alone = False
        if _STATE.heard or _STATE.flag._is_profiler_enabled:
            try:
                alone = roles.open_alone(hook, here, args)
            except Exception as error:
                hook.failed(error)
            if not alone:
                return _whole(hook, original, args, kwargs)
        else:
            next(roles.JOB.numbers)
            here.depth = 1
        hook.fired = fired
        if fired & (fired - 1) == 0:
            hook.changed()
        if start:
            hook.timed(perf_counter_ns() - start)
        if not alone:
            try:
                return original(*args, **kwargs)
            finally:
                here.depth = 0
        result = roles.RAISED
        begin = perf_counter_ns()
        try:
            result = original(*args, **kwargs)
        finally:
            end = perf_counter_ns()
            try:
                roles.close_alone(here, result, begin, end)
            except Exception as error:
                hook.failed(error)
            if start:
                hook.timed_ns += perf_counter_ns() - end
        return result

    return wrapper


def _stage(hook: Hook, original: Function) -> Function:
    """Unheard, a call is counted; where only the log listens, its row is written here."""
    stage = hook.target.stage
    reads = hook.lengths is not None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not hook.live:
            return original(*args, **kwargs)
        fired = hook.fired + 1
        start = 0 if fired % TIMED_EVERY else perf_counter_ns()
        put = None
        if _STATE.heard or _STATE.flag._is_profiler_enabled:
            here = _LOCAL.here
            put = here.put
            stages = here.stages
            if put is None or reads or (stages and stages[-1] == stage):
                return _whole(hook, original, args, kwargs)
            stages.append(stage)
        hook.fired = fired
        if fired & (fired - 1) == 0:
            hook.changed()
        if start:
            hook.timed(perf_counter_ns() - start)
        if put is None:
            return original(*args, **kwargs)
        begin = perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            end = perf_counter_ns()
            try:
                stages.pop()
                put((stage, here.values, begin, end, here.thread.number))
            except Exception as error:
                hook.failed(error)
            if start:
                hook.timed_ns += perf_counter_ns() - end

    return wrapper


def _forward(hook: Hook, original: Function) -> Function:
    """A forward that means nothing here: nobody listens, or it belongs to the stage around it."""
    of_target = hook.target.role == "target_forward"

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hooks.is_compiling() or not hook.live:
            return original(*args, **kwargs)
        fired = hook.fired + 1
        start = 0 if fired % TIMED_EVERY else perf_counter_ns()
        if _STATE.heard or _STATE.flag._is_profiler_enabled:
            drafts = not of_target and args and getattr(args[0], "is_draft_worker", None) is True
            if drafts or (of_target and not _LOCAL.here.stages):
                return _whole(hook, original, args, kwargs)
        hook.fired = fired
        if fired & (fired - 1) == 0:
            hook.changed()
        if start:
            hook.timed(perf_counter_ns() - start)
        return original(*args, **kwargs)

    return wrapper


def _lengths(hook: Hook, original: Function) -> Function:
    """Accept lengths go into the log alone; without one there is nothing to read."""
    if hook.target.engine == "vllm" or hook.lengths is None:
        return whole(hook, original)  # counts the engine's steps
    read = hook.lengths

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not hook.live:
            return result
        fired = hook.fired = hook.fired + 1
        start = 0 if fired % TIMED_EVERY else perf_counter_ns()
        if fired & (fired - 1) == 0:
            hook.changed()
        if _STATE.heard:
            try:
                read(hook, result, args, kwargs)
            except Exception as error:
                hook.failed(error)
        if start:
            hook.timed(perf_counter_ns() - start)
        return result

    return wrapper


_SHORT: Final[dict[str, Callable[[Hook, Function], Function]]] = {
    "cycle": _cycle,
    "stage": _stage,
    "target_forward": _forward,
    "draft_forward": _forward,
    "lengths": _lengths,
}
