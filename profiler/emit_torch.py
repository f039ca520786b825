"""What the ranges ask torch, without ever importing it: is a profiler on, is a graph captured.

`record_function` costs 6 us whether or not anybody listens, so a range calls it only while the
torch profiler is on, and by its cheapest entry that still writes an annotation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from sys import modules
from typing import Any, Final


class _Never:
    """Stands for torch's profiler where there is none."""

    _is_profiler_enabled = False


NEVER: Final = _Never


class TorchRanges:
    """Annotations in the torch profiler's trace. `found` is called once torch is loaded."""

    def __init__(self, found: Callable[[], None] = lambda: None) -> None:
        self.profiler: Any = None  # the module `torch.autograd.profiler`, once it is loaded
        self._found = found
        self._enter: Callable[..., Any] | None = None
        self._exit: Callable[[Any], Any] | None = None

    @property
    def flag(self) -> Any:
        """Whose `_is_profiler_enabled` says whether a torch profiler is on, for every thread.

        The module of torch; until it is loaded this object, which has the same attribute. A
        profiler started from outside the process (Kineto's daemon) does not set it.
        """
        return self if self.profiler is None else self.profiler

    @property
    def _is_profiler_enabled(self) -> bool:
        module = modules.get("torch.autograd.profiler")
        if module is None or not hasattr(module, "_is_profiler_enabled"):
            return False
        if self.profiler is None:
            self.profiler = module
            self._found()
        return bool(module._is_profiler_enabled)

    def open(self, text: str) -> Any:
        """Open an annotation; what `close` needs."""
        if self._enter is None:
            self._find()
        assert self._enter is not None
        return self._enter(text)

    def close(self, handle: Any) -> None:
        """Close it."""
        assert self._exit is not None
        self._exit(handle)

    def _find(self) -> None:
        torch = sys.modules["torch"]
        enter = getattr(torch.autograd, "_record_function_with_args_enter", None)
        leave = getattr(torch.autograd, "_record_function_with_args_exit", None)
        if enter is not None and leave is not None:
            self._enter, self._exit = enter, leave
            return
        record_function = torch.autograd.profiler.record_function

        def slow(text: str) -> Any:
            return record_function(text).__enter__()

        def end(handle: Any) -> None:
            handle.__exit__(None, None, None)

        self._enter, self._exit = slow, end


class _Cuda:
    """`torch.cuda`, once it is loaded and initialised in this process."""

    def __init__(self) -> None:
        self.module: Any = None

    def found(self) -> Any:
        """The module, or None while CUDA is not in use."""
        module: Any = sys.modules.get("torch.cuda")
        if module is None or not getattr(module, "_initialized", False):
            return None
        if not module.is_initialized():  # a child forked from a process that uses CUDA
            return None
        self.module = module
        return module

    def is_capturing(self) -> bool:
        """Is the current stream capturing a graph?"""
        module = self.module or self.found()
        return module is not None and bool(module.is_current_stream_capturing())


CUDA: Final = _Cuda()
