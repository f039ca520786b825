"""One hook: the wrapper around a function of an engine, and what became of it.

The wrapper passes arguments and results through untouched. Whatever goes wrong in the hook
stays in the hook: it is counted, and after a few faults the hook switches itself off.
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
        self.patches: list[Patch] = []
        self.batch = reader(target.batch)
        self.tokens = reader(target.tokens)
        self.k = reader(target.k)
        self._changed = changed
        self._argument: tuple[int, str] | None = None

    def count(self) -> None:
        """One more call; the first, and whenever their number has doubled, it is worth a report."""
        self.fired += 1
        if self.fired & (self.fired - 1) == 0:
            self._changed(self)

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
            LOG.warning("hook on %s switched off after %s", self.target.path, self.fault)
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
                found = (len(parameters) + 99 if keyword_only else index, parameter.name)
                if self._argument not in (None, found):
                    raise UnhookableError("its arguments come in another order than in the base")
                self._argument = found
                return
        given = ", ".join(parameter.name for parameter in parameters)
        raise UnhookableError(f"other signature: ({given}) has no {' or '.join(names)}")

    def wrapper(self, place: Place) -> Callable[..., Any]:
        """The function that goes in place of the original one."""
        original = place.function
        hook = self

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not hook.live:
                return original(*args, **kwargs)
            try:
                opened = roles.open_hook(hook, args, kwargs)
            except Exception as error:
                hook.failed(error)
                opened = None
            if opened is None:
                return original(*args, **kwargs)
            result = roles.RAISED
            try:
                result = original(*args, **kwargs)
            finally:
                try:
                    roles.close_hook(hook, opened, result, args, kwargs)
                except Exception as error:
                    hook.failed(error)
            return result

        setattr(wrapper, MARK, hook)
        return wrapper
