"""What a hook does around the function it is on.

    cycle           a speculation cycle in one call (SGLang): numbers it, opens
                    `specscope:cycle`; a prefill batch becomes one `prefill` range, an idle
                    batch nothing
    step            the call that begins an engine's step (vLLM): numbers the cycle, opens
                    `verify`, `decode` or `prefill` by what is scheduled
    opening         a stage that begins a cycle (transformers: the draft)
    stage           a range of that stage
    target_forward  the target's forward: `verify` in a cycle outside any stage, `decode` or
                    `prefill` outside any cycle
    draft_forward   the draft model's forward: a draft step inside `draft`, else `draft`
    generation      transformers: while it runs, the model's own forward is `verify`
    lengths         reads the accept lengths after the call, on the host
    lengths_before  the same before the call, where the call cuts them at stop tokens
    quiet           warm-up, dummy runs, capture: hooks inside do nothing
    server_args     remembers the argument, which holds the engine's server arguments
    collective      the enclosing stage again, with the bytes of the message, in a stage only

Rules for all of them: nothing happens while a CUDA graph is captured; a range inside a range
of its own stage is not opened again; in a prefill step every stage reads `prefill`; no tensor
is read, copied or waited for.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from specscope.profiler import ranges, server_args, step_kinds
from specscope.profiler.emit_torch import CUDA

if TYPE_CHECKING:
    from specscope.profiler.cycle_log_rows import Seen
    from specscope.profiler.hook_table import Target
    from specscope.profiler.hooks import Hook

PREFILL = "prefill"
_PREFILL_MODES = frozenset({"EXTEND", "MIXED", "SPLIT_PREFILL", "DLLM_EXTEND", "PREBUILT"})
_NO_WORK_MODES = frozenset({"IDLE", "DUMMY_FIRST"})


class Here:
    """Where a thread is: its cycle, the stages around it."""

    __slots__ = (
        "batch",
        "cycle",
        "depth",
        "draft_step",
        "k",
        "kind",
        "number",
        "put",
        "quiet",
        "rank",
        "stages",
        "thread",
        "values",
    )

    def __init__(self) -> None:
        self.cycle: int | None = None
        self.kind: str | None = None
        self.depth = 0  # of cycle calls
        self.quiet = 0
        self.draft_step = 0
        self.stages: list[str] = []
        # Of the cycle: every range in it carries them.
        self.batch: int | None = None
        self.k: int | None = None
        self.rank: int | None = None
        # Where only the log listens in this cycle: what takes the rows of its stages, and
        # their fields. `wrappers` has the short way of a hook that uses them.
        self.put: Callable[[Seen], None] | None = None
        self.values: ranges.Values = ()
        self.thread = ranges.this_thread()
        # Of the cycle that begins, where it has been taken already.
        self.number: int | None = None


class _Local(threading.local):
    """One `Here` for each thread; an access costs as much as four of another object."""

    def __init__(self) -> None:
        self.here = Here()


class Job:
    """What all hooks of this process share. `forget` gives a fresh one, after a fork."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.engine_steps = itertools.count()
        # Results that have left their cycle and wait for their accept lengths.
        self.results: deque[tuple[weakref.ref[Any], int | None]] = deque(maxlen=16)
        # Engines of which a hook numbers the cycles; their stages count only inside one.
        self.numbered: set[str] = set()
        self.rank: int | None = None

    @property
    def here(self) -> Here:
        """Where this thread is."""
        return LOCAL.here

    def world_rank(self) -> int | None:
        """The rank in torch.distributed, once it is known."""
        if self.rank is None:
            distributed: Any = sys.modules.get("torch.distributed")
            if (
                distributed is not None
                and distributed.is_available()
                and distributed.is_initialized()
            ):
                self.rank = distributed.get_rank()
                ranges.set_rank(self.rank, distributed.get_world_size())
        return self.rank


LOCAL = _Local()
JOB = Job()

# What `open_hook` gives back and `close_hook` takes: the range to leave, and what undoes the
# change of `Here`.
Opened = tuple[ranges.Range | None, Callable[[Here], None] | None]
# For a hook that only looks at the result.
_LOOK: Opened = (None, None)


def capturing() -> bool:
    """Whether the current stream is being captured into a graph; never starts CUDA."""
    return CUDA.is_capturing()


def open_hook(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened | None:
    """Enter the hook; None where there is nothing to leave."""
    here = LOCAL.here
    if here.quiet:
        return None
    if hook.only_ranges and hook.fired:
        # A range asks by itself whether a graph is captured.
        if here.depth and not ranges.is_heard():
            hook.count()
            return None
    elif capturing():
        return None
    hook.count()
    return hook.enter(hook, here, args, kwargs)


def close_hook(hook: Hook, opened: Opened, result: Any, args: Any, kwargs: Any) -> None:
    """Leave the hook; `result` is `RAISED` when the function raised."""
    here = LOCAL.here
    entered, undo = opened
    try:
        if entered is not None:
            entered.__exit__(None, None, None)
    finally:
        if undo is not None:
            undo(here)
    if hook.lengths is not None:
        if result is not RAISED:
            hook.lengths(hook, result, args, kwargs)
    elif hook.target.role == "cycle":
        _remember(here, result)


RAISED = object()


# ---------------------------------------------------------------- roles


def _cycle(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if here.depth:  # a subclass that calls the method of its base
        return None
    argument = hook.argument(args, kwargs)
    kind = _sglang_kind(argument)
    number, here.number = here.number, None
    if number is None:
        number = next(JOB.numbers)
    if kind is None:
        # An idle batch still runs the stages, on nothing.
        return _quiet(hook, here, args, kwargs)
    here.cycle = number
    here.kind, here.depth, here.draft_step = kind, 1, 0
    try:
        _look_at(hook, here, argument, args)
        if kind == PREFILL:
            return _opened(here, PREFILL)[0], _leave_prefill
        here.values = (number, None, here.batch, None, here.k, here.rank, None)
        return ranges.open_stage(ranges.CYCLE, here.values), _leave_cycle
    except Exception:
        _leave_cycle(here)
        here.cycle = None
        raise


def _leave_cycle(here: Here) -> None:
    # The number stays until `_remember` has taken it.
    here.depth, here.kind = 0, None


def open_alone(hook: Hook, here: Here, args: Any) -> bool:
    """A short way into a cycle of speculation that only the log hears; False: take the long one.

    Sets `here.put`. Called outside any cycle; the number that it takes is kept for the long way.
    """
    here.number = number = next(JOB.numbers)
    thread = here.thread
    put = ranges.log_alone(thread, number)
    if put is None or hook.index >= len(args):
        return False
    argument, owner = args[hook.index], args[0]
    cuda = CUDA.module
    if cuda is not None and cuda.is_current_stream_capturing():
        return False
    if _sglang_kind(argument) != "speculation":
        return False
    rank = here.rank = JOB.world_rank() if JOB.rank is None else JOB.rank
    batch = here.batch = hook.batch(argument, owner)
    k = here.k = hook.k(argument, owner)
    here.values = (number, None, batch, None, k, rank, None)
    here.number, here.draft_step = None, 0
    here.cycle = thread.cycle = number
    here.kind, here.depth, here.put = "speculation", 1, put
    return True


def close_alone(here: Here, result: Any, begin_ns: int, end_ns: int) -> None:
    """The way out of it."""
    put, number, thread = here.put, here.cycle, here.thread
    here.depth, here.kind, here.put, here.cycle, thread.cycle = 0, None, None, None, None
    if put is not None:
        put((ranges.CYCLE, here.values, begin_ns, end_ns, thread.number))
    try:
        JOB.results.append((weakref.ref(result), number))
    except TypeError:  # a tuple: v1 gave its lengths in the cycle
        return


def _leave_prefill(here: Here) -> None:
    _leave_cycle(here)
    here.cycle = None
    here.stages.pop()


def _step(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if kwargs.get("dummy_run") or kwargs.get("is_profile"):
        return _quiet(hook, here, args, kwargs)
    argument = hook.argument(args, kwargs)
    kind = step_kinds.BY_ENGINE.get(hook.target.engine, _vllm_kind)(argument, args[0])
    here.draft_step = 0
    if kind is None:
        here.cycle = here.kind = None
        return None
    here.cycle, here.kind = next(JOB.numbers), kind
    _look_at(hook, here, argument, args)
    return _opened(here, kind, tokens=hook.tokens(argument, args[0]))


def _opening(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if here.stages:
        return None
    here.cycle, here.kind, here.draft_step = next(JOB.numbers), None, 0
    return _opened(here, hook.target.stage)


def _stage(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if here.cycle is None and hook.target.engine in JOB.numbered:
        return _LOOK if hook.lengths else None
    stage = PREFILL if here.kind == PREFILL else hook.target.stage
    if stage == "verify" and here.kind == "decode":
        stage = "decode"
    if here.stages and here.stages[-1] in (stage, PREFILL):
        return _LOOK if hook.lengths else None
    return _opened(here, stage)


def _target_forward(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if here.stages:
        return None
    if here.cycle is not None:
        return _opened(here, "verify")
    if here.depth:
        return None  # somebody began to listen in the middle of a cycle
    if kwargs.get("is_verify"):
        return _lone_verify(here)
    argument = hook.argument(args, kwargs)
    kind = _sglang_kind(argument)
    if kind is None:
        return None
    _look_at(hook, here, argument, args)
    return _opened(here, PREFILL if kind == PREFILL else "decode")


def _lone_verify(here: Here) -> Opened:
    """The verify of a worker of a plugin, of which no method is known: a cycle of its own."""
    here.cycle, here.rank = next(JOB.numbers), JOB.world_rank()
    here.batch = here.k = None
    try:
        return _opened(here, "verify")[0], _leave_lone_verify
    except Exception:
        here.cycle = None
        raise


def _leave_lone_verify(here: Here) -> None:
    here.cycle = None
    here.stages.pop()


def _draft_forward(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    drafts = args and getattr(args[0], "is_draft_worker", False) is True
    if not drafts or here.cycle is None:
        return None
    if not here.stages:
        return _opened(here, "draft")
    if here.stages[-1] != "draft":
        return None
    step = here.draft_step
    here.draft_step += 1
    return _opened(here, "draft", step=step)


def _generation(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    model = args[0]
    _look_at(hook, here, hook.argument(args, kwargs), args)
    own = vars(model).get("forward")
    forward = model.forward
    if getattr(forward, "_specscope_forward", False):
        return None  # a generation of this model runs already, in another thread

    def verify(*inputs: Any, **named: Any) -> Any:
        opened = hook.guarded(_verify_forward)
        try:
            return forward(*inputs, **named)
        finally:
            if opened is not None:
                hook.guarded(_leave_verify, opened)

    verify.__wrapped__ = forward  # type: ignore[attr-defined] # keeps the signature readable
    verify._specscope_forward = True  # type: ignore[attr-defined]
    model.forward = verify

    def restore(here: Here) -> None:
        if own is None:
            del model.forward
        else:
            model.forward = own
        here.cycle = here.kind = None

    return None, restore


def _verify_forward() -> Opened | None:
    here = JOB.here
    if here.stages or here.quiet or here.cycle is None or capturing():
        return None
    return _opened(here, "verify")


def _leave_verify(opened: Opened) -> None:
    entered, _ = opened
    try:
        if entered is not None:
            entered.__exit__(None, None, None)
    finally:
        JOB.here.stages.pop()


def _lengths(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened:
    return _LOOK


def _lengths_before(hook: Hook, here: Here, args: Any, kwargs: Any) -> None:
    _LENGTHS[hook.target.lengths](hook, None, args, kwargs)


def _quiet(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened:
    here.quiet += 1
    return None, _end_of_quiet


def _end_of_quiet(here: Here) -> None:
    here.quiet -= 1


def _collective(hook: Hook, here: Here, args: Any, kwargs: Any) -> Opened | None:
    if not here.stages:
        return None
    tensor = hook.argument(args, kwargs)
    size = tensor.numel() * tensor.element_size()
    values = (here.cycle, None, None, None, None, JOB.world_rank(), int(size))
    return ranges.open_stage(here.stages[-1], values), None


def _server_args(hook: Hook, here: Here, args: Any, kwargs: Any) -> None:
    server_args.remember(hook.target.engine, hook.argument(args, kwargs))


Enter = Callable[["Hook", Here, Any, Any], Opened | None]
_ROLES: dict[str, Enter] = {
    "cycle": _cycle,
    "step": _step,
    "opening": _opening,
    "stage": _stage,
    "target_forward": _target_forward,
    "draft_forward": _draft_forward,
    "generation": _generation,
    "lengths": _lengths,
    "lengths_before": _lengths_before,
    "quiet": _quiet,
    "collective": _collective,
    "server_args": _server_args,
}
# Inside the call of a cycle these do nothing but open a range, of which nobody may hear.
ONLY_RANGES = frozenset({"stage", "target_forward", "draft_forward"})
# These give a cycle its number.
NUMBERING = frozenset({"cycle", "step", "opening"})
# A process in which one of these is hooked serves: it gets a log when one is asked for.
SERVING = frozenset({"cycle", "step", "lengths", "lengths_before"})
ROLES = frozenset(_ROLES)


def enter_of(role: str) -> Enter:
    """What a hook of that role does before the function."""
    return _ROLES[role]


def lengths_of(target: Target) -> LengthsReader | None:
    """What a hook reads after the function."""
    if not target.lengths or target.role == "lengths_before":
        return None
    return _LENGTHS[target.lengths]


# ---------------------------------------------------------------- reading


def _sglang_kind(batch: Any) -> str | None:
    mode = batch.forward_mode
    # The attribute behind an enum's property, which costs ten times as much.
    mode = mode._name_ if isinstance(mode, Enum) else mode.name
    if mode in _NO_WORK_MODES:
        return None
    if mode in _PREFILL_MODES or getattr(batch, "is_extend_in_batch", False) is True:
        return PREFILL
    return "speculation"


def _vllm_kind(scheduled: Any, runner: Any) -> str | None:
    total = scheduled.total_num_scheduled_tokens
    if not total:
        return None
    drafts = scheduled.scheduled_spec_decode_tokens
    drafted = sum(map(len, drafts.values()))
    # Every request has at least one token besides its drafts; more is prompt.
    if total > len(scheduled.num_scheduled_tokens) + drafted:
        return PREFILL
    speculates = drafted or getattr(runner, "speculative_config", None) is not None
    return "verify" if speculates else "decode"


def _remember(here: Here, result: Any) -> None:
    number, here.cycle = here.cycle, None
    if number is None:
        return
    try:
        JOB.results.append((weakref.ref(result), number))
    except TypeError:  # a tuple, before 0.5.3: v1 gives its lengths at once
        return


def _sglang_v1(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    drafts = getattr(result, "num_correct_drafts_per_req_cpu", None)
    if drafts is None:
        drafts = getattr(result, "accept_length_per_req_cpu", None)
    if isinstance(drafts, list):
        ranges.record_drafts(JOB.here.cycle, drafts, 1)


def _sglang_v2(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    index = hook.index
    outcome = args[index] if index < len(args) else hook.argument(args, kwargs)
    drafts = getattr(outcome, "num_correct_drafts_per_req_cpu", None)
    if drafts is None:
        drafts = getattr(outcome, "accept_length_per_req_cpu", None)
    if isinstance(drafts, list):
        results = JOB.results
        # They come in the order of their cycles.
        if results and results[0][0]() is outcome:
            cycle = results.popleft()[1]
        else:
            cycle = next((number for of, number in results if of() is outcome), None)
        other = getattr(outcome, "num_non_draft_tokens_per_req", 1)
        ranges.record_drafts(cycle, drafts, other if type(other) is int else 1)


def _vllm_lengths(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    scheduled = hook.argument(args, kwargs)
    if not scheduled.total_num_scheduled_tokens:
        return
    cycle = next(JOB.engine_steps)
    output = kwargs.get("model_runner_output", args[2] if len(args) > 2 else None)
    tokens, index = output.sampled_token_ids, output.req_id_to_index
    drafts = scheduled.scheduled_spec_decode_tokens
    if not drafts or not tokens:
        return
    lengths = [len(tokens[index[request]]) for request in drafts if request in index]
    ranges.record_accept(cycle, lengths)


def _lmdeploy_lengths(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    named = dict(zip(("running", "model_inputs"), args[2:], strict=False)) | kwargs
    tokens = hook.argument(args, kwargs).next_token_ids
    if named["model_inputs"] is not None or tokens.ndim != 2 or getattr(tokens, "is_cpu", 1) != 1:
        return  # a prefill, a step without drafts, or tokens that are still on the GPU
    counts = (tokens > -1).sum(1).tolist()
    running = [sequence.status.name == "RUNNING" for sequence in named["running"]]
    lengths = [count for count, runs in zip(counts, running, strict=True) if runs]
    ranges.record_accept(None, lengths)


def _transformers_lengths(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    matches = hook.argument(args, kwargs)
    if getattr(matches, "is_cpu", None) is False:
        return  # on the GPU: reading it would wait
    ranges.record_accept(JOB.here.cycle, [int(matches) + 1])


LengthsReader = Callable[["Hook", Any, Any, Any], None]
_LENGTHS: dict[str, LengthsReader] = {
    "sglang_v1": _sglang_v1,
    "sglang_v2": _sglang_v2,
    "vllm": _vllm_lengths,
    "lmdeploy": _lmdeploy_lengths,
    "transformers": _transformers_lengths,
}
LENGTHS = frozenset(_LENGTHS)


# ---------------------------------------------------------------- ranges


def _look_at(hook: Hook, here: Here, argument: Any, args: Any) -> None:
    """Batch, k and rank of the cycle that begins, where somebody hears of them."""
    if not ranges.is_heard():
        here.batch = here.k = here.rank = None
        return
    owner = args[0] if args else None
    here.batch = hook.batch(argument, owner)
    here.k = hook.k(argument, owner)
    here.rank = JOB.world_rank()


def _opened(here: Here, stage: str, step: int | None = None, tokens: int | None = None) -> Opened:
    values = (here.cycle, step, here.batch, tokens, here.k, here.rank, None)
    opened = ranges.open_stage(stage, values)
    here.stages.append(stage)
    return opened, _end_of_stage


def _end_of_stage(here: Here) -> None:
    here.stages.pop()


def forget() -> None:
    """A fresh start: after a fork, and when the hooks come off."""
    global JOB
    numbered, JOB = JOB.numbered, Job()
    JOB.numbered = numbered
    LOCAL.here = Here()
