"""Puts a wrapper in the place of a function, and takes it off again without a trace.

A patch is put where the function is *defined* (subclasses that only inherit are covered),
on every subclass that overrides it, and on every name under which a module has already
imported a module-level function. It is refused, with the reason, where it could change what
the engine does: properties, classes, coroutines, generators.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

# On every wrapper: the hook behind it.
MARK = "__specscope_hook__"


class UnhookableError(Exception):
    """Says why a target cannot be hooked."""


@dataclass
class Place:
    """Where a function is: an attribute in the dictionary of a class or a module."""

    owner: Any
    name: str
    raw: Any  # as in the dictionary: may be a classmethod or staticmethod
    function: Callable[..., Any]

    @property
    def where(self) -> str:
        """The dotted path of the place."""
        if isinstance(self.owner, type):
            return f"{self.owner.__module__}.{self.owner.__qualname__}.{self.name}"
        return f"{self.owner.__name__}.{self.name}"


@dataclass
class Patch:
    """A wrapper that is in place."""

    place: Place
    wrapper: Callable[..., Any]
    installed: Any
    rebound: list[str] = field(default_factory=list)


def find(module: ModuleType, path: str) -> Place:
    """The function at `path` in `module`, where it is defined."""
    *outer, name = path.split(".")
    owner: Any = module
    for part in outer:
        owner = vars(owner).get(part)
        if owner is None:
            raise UnhookableError(f"no {part} in {module.__name__}")
    if isinstance(owner, type):
        definer = next((cls for cls in owner.__mro__ if name in vars(cls)), None)
        if definer is None or definer is object:
            raise UnhookableError(f"no {name} in {owner.__qualname__}")
        top = module.__name__.partition(".")[0]
        if definer is not owner and definer.__module__.partition(".")[0] != top:
            raise UnhookableError(f"{name} is inherited from {definer.__module__}")
        if definer is not owner and hasattr(vars(definer)[name], MARK):
            raise UnhookableError(f"inherited from {definer.__qualname__}, which has its own hook")
        owner = definer
    elif name not in vars(owner):
        raise UnhookableError(f"no {name} in {module.__name__}")
    return place_of(owner, name)


def place_of(owner: Any, name: str) -> Place:
    """The place of `owner`'s own attribute `name`, when it can be hooked."""
    raw = vars(owner)[name]
    function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    if isinstance(function, type):
        raise UnhookableError(f"{name} is a class")
    if not callable(function):
        kind = "a property" if isinstance(function, property) else type(function).__name__
        raise UnhookableError(f"{name} is {kind}, not a function")
    if getattr(function, MARK, None) is not None:
        raise UnhookableError("already hooked")
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise UnhookableError(f"{name} is a coroutine function")
    if inspect.isgeneratorfunction(inner):
        raise UnhookableError(f"{name} is a generator function")
    return Place(owner, name, raw, function)


def overrides(owner: Any, name: str) -> Iterator[type]:
    """The subclasses of `owner`, known by now, that define `name` themselves."""
    if not isinstance(owner, type):
        return
    todo: list[type] = list(type.__subclasses__(owner))
    seen: set[type] = set()
    while todo:
        cls = todo.pop()
        if cls in seen:
            continue
        seen.add(cls)
        todo.extend(type.__subclasses__(cls))
        if name in vars(cls):
            yield cls


def put(place: Place, wrapper: Callable[..., Any]) -> Patch:
    """Put `wrapper` in place of the function."""
    kind = type(place.raw)
    installed = kind(wrapper) if kind in (classmethod, staticmethod) else wrapper
    try:
        setattr(place.owner, place.name, installed)
    except (AttributeError, TypeError) as error:
        raise UnhookableError(f"{place.name} cannot be set ({error})") from None
    patch = Patch(place, wrapper, installed)
    if not isinstance(place.owner, type):
        patch.rebound = _rebind(place.function, wrapper)
    return patch


def take_off(patch: Patch) -> bool:
    """Undo a patch; False where another patch lies over it, which is then left alone."""
    place = patch.place
    if vars(place.owner).get(place.name) is not patch.installed:
        return False
    setattr(place.owner, place.name, place.raw)
    if not isinstance(place.owner, type):
        # Modules that imported the name after the patch hold the wrapper, too.
        _rebind(patch.wrapper, place.function)
    return True


def _rebind(old: Any, new: Any) -> list[str]:
    """Every module-level name bound to `old` is bound to `new`; the names."""
    bound = []
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        with contextlib.suppress(Exception):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)
                    bound.append(f"{module.__name__}.{name}")
    return bound
