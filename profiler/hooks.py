"""One hook: the wrapper around a function of an engine, and what became of it.

Whatever goes wrong in a hook stays in the hook: it is counted, and after a few faults the hook
switches itself off.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from specscope.profiler import roles
from specscope.profiler.hook_table import Target, reader
from specscope.profiler.patching import MARK, Patch, Place, UnhookableError

MOST_FAULTS = 3
NOT_BY_POSITION = 1000
LOG = logging.getLogger("specscope")


def _never() -> bool:
    return False


# torch.compiler.is_compiling, once torch is there; Dynamo folds the call to a constant and
# traces only the original function.
is_compiling: Callable[[], bool] = _never


class Hook:
    """A target in one process."""

    def __init__(self, target: Target, changed: Callable[[Hook], None]) -> None:
        self.target = target
        self.live = True
        self.fired = 0
        self.faults = 0
        self.fault = ""
        self.timed_calls = 0
        self.timed_ns = 0
        self.patches: list[Patch] = []
        self.batch = reader(target.batch)
        self.tokens = reader(target.tokens)
        self.k = reader(target.k)
        self.enter = roles.enter_of(target.role)
        self.lengths = roles.lengths_of(target)
        self.only_ranges = target.role in roles.ONLY_RANGES
        self._changed = changed
        self._argument: tuple[int, str] | None = None
        self.index = NOT_BY_POSITION  # of that argument

    def count(self) -> None:
        """One more call; the first, and whenever their number has doubled, it is worth a report."""
        self.fired += 1
        if self.fired & (self.fired - 1) == 0:
            self.changed()

    def changed(self) -> None:
        """Say that there is something to report."""
        self._changed(self)

    @property
    def own_ns(self) -> int:
        """What the hook itself has taken so far: host time before and after the function.

        An estimate from the calls that were timed; waits for the interpreter lock count too.
        """
        return self.timed_ns * self.fired // self.timed_calls if self.timed_calls else 0

    def timed(self, ns: int) -> None:
        """One more call is timed: what it took before the function."""
        self.timed_calls += 1
        self.timed_ns += ns

    def argument(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The argument that the target's readings are taken from."""
        if self._argument is None:
            return None
        index, name = self._argument
        return args[index] if index < len(args) else kwargs.get(name)

    def guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        """`work`'s result; None when it raised, which is counted."""
        try:
            return work(*args)
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: Exception) -> None:
        """Count a fault of the hook itself; the last of a few switches it off."""
        self.faults += 1
        self.fault = f"{type(error).__name__}: {error}"[:200]
        if self.faults == MOST_FAULTS:
            self.live = False
            LOG.warning("specscope: hook on %s switched off after %s", self.target.path, self.fault)
        if self.faults <= MOST_FAULTS:
            self._changed(self)

    def probe(self, place: Place) -> None:
        """Find the argument that is read; refuse a function that does not have it."""
        names = self.target.argument
        if not names:
            return
        try:
            parameters = list(inspect.signature(place.function).parameters.values())
        except (TypeError, ValueError):
            raise UnhookableError("its signature cannot be read") from None
        for index, parameter in enumerate(parameters):
            if parameter.name in names and parameter.kind is not parameter.VAR_KEYWORD:
                keyword_only = parameter.kind is parameter.KEYWORD_ONLY
                found = (NOT_BY_POSITION if keyword_only else index, parameter.name)
                if self._argument not in (None, found):
                    raise UnhookableError("its arguments come in another order than in the base")
                self._argument = found
                self.index = found[0]
                return
        given = ", ".join(parameter.name for parameter in parameters)
        raise UnhookableError(f"other signature: ({given}) has no {' or '.join(names)}")

    def wrapper(self, place: Place) -> Callable[..., Any]:
        """The function that goes in place of the original one."""
        from specscope.profiler import wrappers

        original = place.function
        wrapper = functools.wraps(original)(wrappers.wrapper_of(self, original))
        setattr(wrapper, MARK, self)
        return wrapper
