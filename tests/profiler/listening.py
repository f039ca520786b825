"""Emitters that tests listen to, in place of a profiler's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Heard:
    """Stands for NVTX: notes what is pushed and popped; raises where told to."""

    name = "test"

    def __init__(self, fail: Callable[[str], bool] = lambda call: False) -> None:
        self.calls: list[Any] = []
        self._fail = fail

    def push(self, stage: str, values: tuple[int | None, ...]) -> None:
        if self._fail("push"):
            raise RuntimeError("a push that fails on purpose")
        self.calls.append((stage, values))

    def pop(self) -> None:
        if self._fail("pop"):
            raise RuntimeError("a pop that fails on purpose")
        self.calls.append("pop")

    @property
    def stages(self) -> list[str]:
        """What was opened, in order."""
        return [call[0] for call in self.calls if call != "pop"]

    @property
    def is_balanced(self) -> bool:
        """Is every range closed?"""
        return 2 * self.calls.count("pop") == len(self.calls)
