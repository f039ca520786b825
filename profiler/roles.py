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
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from specscope.profiler import ranges, server_args

if TYPE_CHECKING:
    from specscope.profiler.hooks import Hook

PREFILL = "prefill"
_PREFILL_MODES = frozenset({"EXTEND", "MIXED", "SPLIT_PREFILL", "DLLM_EXTEND", "PREBUILT"})
_NO_WORK_MODES = frozenset({"IDLE", "DUMMY_FIRST"})


class Here(threading.local):
    """Where this thread is: its cycle, the stages around it."""

    cycle: int | None = None
    kind: str | None = None
    depth = 0  # of cycle calls
    quiet = 0
    draft_step = 0

    def __init__(self) -> None:
        self.stages: list[str] = []
        # Batch, k and rank of the cycle: every range in it carries them.
        self.fields: dict[str, int | None] = {}


class Job:
    """What all hooks of this process share. `forget` gives a fresh one, after a fork."""

    def __init__(self) -> None:
        self.here = Here()
        self.numbers = itertools.count()
        self.engine_steps = itertools.count()
        # Results that have left their cycle and wait for their accept lengths.
        self.results: deque[tuple[weakref.ref[Any], int | None]] = deque(maxlen=16)
        # Engines of which a hook numbers the cycles; their stages count only inside one.
        self.numbered: set[str] = set()
        self.rank: int | None = None

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


JOB = Job()

# What `open` gives back and `close` takes: the range to leave, and how to restore `Here`.
Opened = tuple[AbstractContextManager[Any] | None, Callable[[], None] | None]
# For a hook that only looks at the result.
_LOOK: Opened = (None, None)


def capturing() -> bool:
    """Whether the current stream is being captured into a graph; never starts CUDA."""
    torch: Any = sys.modules.get("torch")
    cuda: Any = getattr(torch, "cuda", None)
    return (
        cuda is not None
        and bool(cuda.is_initialized())
        and bool(cuda.is_current_stream_capturing())
    )


def open_hook(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened | None:
    """Enter the hook; None where there is nothing to leave."""
    here = JOB.here
    if here.quiet:
        return None
    role = hook.target.role
    if role in _ONLY_RANGES and hook.fired:
        # A range asks by itself whether a graph is captured.
        if here.depth and not ranges.is_heard():
            hook.count()
            return None
    elif capturing():
        return None
    hook.count()
    return _ROLES[role](hook, args, kwargs)


def close_hook(hook: Hook, opened: Opened, result: Any, args: Any, kwargs: Any) -> None:
    """Leave the hook; `result` is `RAISED` when the function raised."""
    _leave(opened)
    if hook.target.role == "cycle":
        _remember(result)
    elif hook.target.lengths and result is not RAISED:
        _LENGTHS[hook.target.lengths](hook, result, args, kwargs)


RAISED = object()


# ---------------------------------------------------------------- roles


def _cycle(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if here.depth:  # a subclass that calls the method of its base
        return None
    argument = hook.argument(args, kwargs)
    kind = _sglang_kind(argument)
    if kind is None:
        return _quiet(hook, args, kwargs)  # an idle batch still runs the stages, on nothing
    number = next(JOB.numbers)
    here.cycle, here.kind, here.depth, here.draft_step = number, kind, 1, 0
    fields = here.fields = _fields(hook, argument, args)

    def restore() -> None:
        # The number stays until `_remember` has taken it.
        here.depth, here.kind = 0, None
        if kind == PREFILL:
            here.stages.pop()
            here.cycle = None

    try:
        if kind == PREFILL:
            here.stages.append(PREFILL)
            return _entered(ranges.stage(PREFILL, cycle=number, **fields)), restore
        return _entered(ranges.cycle_range(cycle=number, **fields)), restore
    except Exception:
        restore()
        here.cycle = None
        raise


def _step(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if kwargs.get("dummy_run") or kwargs.get("is_profile"):
        return _quiet(hook, args, kwargs)
    argument = hook.argument(args, kwargs)
    kind = _vllm_kind(argument, args[0] if args else None)
    here.draft_step = 0
    if kind is None:
        here.cycle = here.kind = None
        return None
    here.cycle, here.kind = next(JOB.numbers), kind
    here.fields = _fields(hook, argument, args)
    return _opened(kind, tokens=hook.tokens(argument, args[0]))


def _opening(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if here.stages:
        return None
    here.cycle, here.kind, here.draft_step = next(JOB.numbers), None, 0
    return _opened(hook.target.stage)


def _stage(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if here.cycle is None and hook.target.engine in JOB.numbered:
        return _LOOK if hook.target.lengths else None
    stage = PREFILL if here.kind == PREFILL else hook.target.stage
    if here.stages and here.stages[-1] in (stage, PREFILL):
        return _LOOK if hook.target.lengths else None
    return _opened(stage)


def _target_forward(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if here.stages:
        return None
    if here.cycle is not None:
        return _opened("verify")
    if kwargs.get("is_verify"):
        return _lone_verify()
    argument = hook.argument(args, kwargs)
    kind = _sglang_kind(argument)
    if kind is None:
        return None
    stage = PREFILL if kind == PREFILL else "decode"
    here.fields = _fields(hook, argument, args)
    return _opened(stage)


def _lone_verify() -> Opened:
    """The verify of a worker of a plugin, of which no method is known: a cycle of its own."""
    here = JOB.here
    here.cycle, here.fields = next(JOB.numbers), {"rank": JOB.world_rank()}
    try:
        manager, leave = _opened("verify")
    except Exception:
        here.cycle = None
        raise

    def restore() -> None:
        here.cycle = None
        if leave is not None:
            leave()

    return manager, restore


def _draft_forward(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    drafts = args and getattr(args[0], "is_draft_worker", False) is True
    if not drafts or here.cycle is None:
        return None
    if not here.stages:
        return _opened("draft")
    if here.stages[-1] != "draft":
        return None
    step = here.draft_step
    here.draft_step += 1
    return _opened("draft", step=step)


def _generation(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    model = args[0]
    JOB.here.fields = _fields(hook, hook.argument(args, kwargs), args)
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
                hook.guarded(_leave, opened)

    verify.__wrapped__ = forward  # type: ignore[attr-defined] # keeps the signature readable
    verify._specscope_forward = True  # type: ignore[attr-defined]
    model.forward = verify

    def restore() -> None:
        if own is None:
            del model.forward
        else:
            model.forward = own
        JOB.here.cycle = JOB.here.kind = None

    return None, restore


def _verify_forward() -> Opened | None:
    here = JOB.here
    if here.stages or here.quiet or here.cycle is None or capturing():
        return None
    return _opened("verify")


def _lengths(hook: Hook, args: Any, kwargs: Any) -> Opened:
    return _LOOK


def _lengths_before(hook: Hook, args: Any, kwargs: Any) -> None:
    _LENGTHS[hook.target.lengths](hook, None, args, kwargs)


def _quiet(hook: Hook, args: Any, kwargs: Any) -> Opened:
    here = JOB.here
    here.quiet += 1

    def restore() -> None:
        here.quiet -= 1

    return None, restore


def _collective(hook: Hook, args: Any, kwargs: Any) -> Opened | None:
    here = JOB.here
    if not here.stages:
        return None
    tensor = hook.argument(args, kwargs)
    size = tensor.numel() * tensor.element_size()
    stage = here.stages[-1]
    manager = ranges.stage(stage, cycle=here.cycle, rank=JOB.world_rank(), size=int(size))
    return _entered(manager), None


def _server_args(hook: Hook, args: Any, kwargs: Any) -> None:
    server_args.remember(hook.target.engine, hook.argument(args, kwargs))


_ROLES: dict[str, Callable[[Any, Any, Any], Opened | None]] = {
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
_ONLY_RANGES = frozenset({"stage", "target_forward", "draft_forward"})
# These give a cycle its number.
NUMBERING = frozenset({"cycle", "step", "opening"})
# A process in which one of these is hooked serves: it gets a log when one is asked for.
SERVING = frozenset({"cycle", "step", "lengths", "lengths_before"})
ROLES = frozenset(_ROLES)


# ---------------------------------------------------------------- reading


def _sglang_kind(batch: Any) -> str | None:
    mode = batch.forward_mode.name
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


def _remember(result: Any) -> None:
    here = JOB.here
    number, here.cycle = here.cycle, None
    if number is None:
        return
    try:
        JOB.results.append((weakref.ref(result), number))
    except TypeError:  # a tuple, before 0.5.3: v1 gives its lengths at once
        return


def _sglang_v1(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    for name in ("num_correct_drafts_per_req_cpu", "accept_length_per_req_cpu"):
        drafts = getattr(result, name, None)
        if isinstance(drafts, list):
            ranges.record_accept(JOB.here.cycle, [number + 1 for number in drafts])
            return


def _sglang_v2(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    batch_result = hook.argument(args, kwargs)
    cycle = next((n for ref, n in JOB.results if ref() is batch_result), None)
    other = getattr(batch_result, "num_non_draft_tokens_per_req", 1)
    bonus = other if type(other) is int else 1
    for name in ("num_correct_drafts_per_req_cpu", "accept_length_per_req_cpu"):
        drafts = getattr(batch_result, name, None)
        if isinstance(drafts, list):
            ranges.record_accept(cycle, [number + bonus for number in drafts])
            return


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


def _transformers_lengths(hook: Hook, result: Any, args: Any, kwargs: Any) -> None:
    matches = hook.argument(args, kwargs)
    if getattr(matches, "is_cpu", None) is False:
        return  # on the GPU: reading it would wait
    ranges.record_accept(JOB.here.cycle, [int(matches) + 1])


_LENGTHS: dict[str, Callable[[Any, Any, Any, Any], None]] = {
    "sglang_v1": _sglang_v1,
    "sglang_v2": _sglang_v2,
    "vllm": _vllm_lengths,
    "transformers": _transformers_lengths,
}
LENGTHS = frozenset(_LENGTHS)


# ---------------------------------------------------------------- ranges


def _fields(hook: Hook, argument: Any, args: Any) -> dict[str, int | None]:
    owner = args[0] if args else None
    return {
        "batch": hook.batch(argument, owner),
        "k": hook.k(argument, owner),
        "rank": JOB.world_rank(),
    }


def _opened(stage: str, **fields: int | None) -> Opened:
    here = JOB.here
    opened = _entered(ranges.stage(stage, cycle=here.cycle, **{**here.fields, **fields}))
    here.stages.append(stage)

    def restore() -> None:
        here.stages.pop()

    return opened, restore


def _entered(manager: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    manager.__enter__()
    return manager


def _leave(opened: Opened) -> None:
    manager, restore = opened
    try:
        if manager is not None:
            manager.__exit__(None, None, None)
    finally:
        if restore is not None:
            restore()


def forget() -> None:
    """A fresh start: after a fork, and when the hooks come off."""
    global JOB
    numbered, JOB = JOB.numbered, Job()
    JOB.numbered = numbered
