"""Ranges around functions of every kind.

What is suspended does no work: a generator, coroutine or asynchronous generator has a range
around each stretch that it runs, so ranges nest rightly however tasks take turns.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

Make = Callable[[], AbstractContextManager[None]]
F = TypeVar("F", bound=Callable[..., Any])


def around(function: F, make: Make) -> F:
    """`function` with a range of `make` around each run of its body."""
    wrapper: Any
    if inspect.isasyncgenfunction(function):
        wrapper = _async_generator(function, make)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, make)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(function, make)
    else:
        wrapper = _plain(function, make)
    functools.update_wrapper(wrapper, function)
    done: F = wrapper
    return done


def _plain(function: Callable[..., Any], make: Make) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return wrapper


def _generator(function: Callable[..., Any], make: Make) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _stretches(function(*args, **kwargs), make))

    return wrapper


def _coroutine(function: Callable[..., Any], make: Make) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await _Await(function(*args, **kwargs), make)

    return wrapper


def _async_generator(function: Callable[..., Any], make: Make) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        step = inner.__anext__()
        try:
            while True:
                try:
                    value = await _Await(step, make)
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)
        finally:
            await inner.aclose()

    return wrapper


class _Await:
    """An awaitable that runs another one, each stretch in a range."""

    def __init__(self, inner: Any, make: Make) -> None:
        self._inner = inner
        self._make = make

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from _stretches(self._inner, self._make))


def _stretches(inner: Any, make: Make) -> Generator[Any, Any, Any]:
    """Drive a generator or coroutine, with a range around each of its stretches."""
    resume, sent = inner.send, None
    try:
        while True:
            try:
                with make():
                    value = resume(sent)
            except StopIteration as end:
                return end.value
            try:
                resume, sent = inner.send, (yield value)
            except GeneratorExit:
                raise
            except BaseException as error:
                resume, sent = inner.throw, error
    finally:
        if hasattr(inner, "close"):
            inner.close()
