"""Types of option values that more than one command has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_CYCLES: Final = re.compile(r"(\d{1,15})(?:\.\.(\d{1,15}))?", re.ASCII)


class Size(click.ParamType):  # type: ignore[type-arg]
    """A size in bytes: `8M`, `4G`, `500000`."""

    name = "size"

    def __init__(self, smallest: int = 1, largest: int = 2**62 - 1) -> None:
        self._smallest = smallest
        self._largest = largest

    _POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value))
        size = float(match[1]) * 1024 ** self._POWERS[match[2].lower()] if match else 0
        if not 1 <= size < 2**62:
            self.fail(f"{value!r} is not a size; examples: 8M, 4G", param, ctx)
        if size < self._smallest:
            self.fail(f"{value!r} is less than {self._smallest} bytes", param, ctx)
        if size > self._largest:
            self.fail(f"{value!r} is more than {self._largest} bytes", param, ctx)
        return int(size)


class Positive(click.ParamType):  # type: ignore[type-arg]
    """A number above 0."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not 0 < number < 1e15:
            self.fail(f"{value!r} is not a number above 0", param, ctx)
        return number


class Expanded(click.Path):
    """A path with its `~` opened: a shell leaves that of `--log=~/x` as it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        try:
            return Path(str(super().convert(value, param, ctx))).expanduser()
        except RuntimeError:
            self.fail(f"{value!r} is in the home of nobody known", param, ctx)


class Steps(click.ParamType):  # type: ignore[type-arg]
    """Numbers of draft steps: `5`, `1..8`."""

    name = "steps"
    most: Final = 8

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """All of them, in order."""
        if isinstance(value, tuple):
            return value
        match = _CYCLES.fullmatch(str(value))
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= self.most:
            self.fail(f"{value!r} is not in 1..{self.most}; examples: 5, 1..8", param, ctx)
        return tuple(range(first, last + 1))


class Cycles(click.ParamType):  # type: ignore[type-arg]
    """Numbers of cycles: `4`, `40..42`."""

    name = "cycles"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """The first and the last of them."""
        match = _CYCLES.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no cycle; examples: 4, 40..42", param, ctx)
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return first, last
