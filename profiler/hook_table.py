"""The tables of hook targets (`targets/*.toml`), read."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).with_name("targets")

_NUMBER = re.compile(r"(len )?(arg|self)((?:\.[A-Za-z_]\w*)*)( - 1)?")


@dataclass(frozen=True)
class Target:
    """One function of an engine, and what a hook on it does. `targets/sglang.toml` has more."""

    engine: str
    module: str
    name: str
    role: str
    stage: str = ""
    argument: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    k: tuple[str, ...] = ()
    lengths: str = ""
    seen: str = ""

    @property
    def path(self) -> str:
        """The dotted path."""
        return f"{self.module}.{self.name}"


def targets(folder: Path = FOLDER) -> list[Target]:
    """All targets of all tables."""
    out: list[Target] = []
    for path in sorted(folder.glob("*.toml")):
        with path.open("rb") as file:
            table = tomllib.load(file)
        out.extend(_target(row, table["engine"], table["package"]) for row in table["target"])
    return out


def _target(row: dict[str, Any], engine: str, package: str) -> Target:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    values["module"] = f"{package}.{row['module']}"
    return Target(engine=engine, **values)


def reader(paths: tuple[str, ...]) -> Callable[[Any, Any], int | None]:
    """A function of (argument, self) that gives the first of `paths` that is an integer."""
    steps = [_step(path) for path in paths]

    def read(argument: Any, owner: Any) -> int | None:
        for take_len, of_self, follow, less in steps:
            value = owner if of_self else argument
            try:
                if follow is not None:
                    value = follow(value)
                number = len(value) if take_len else value
            except Exception:
                continue
            if type(number) is int:
                return number - less
        return None

    return read


def _step(path: str) -> tuple[bool, bool, Callable[[Any], Any] | None, int]:
    match = _NUMBER.fullmatch(path)
    if match is None:
        raise ValueError(f"no place of a number: {path!r}")
    follow = attrgetter(match[3][1:]) if match[3] else None
    return bool(match[1]), match[2] == "self", follow, 1 if match[4] else 0


def was_seen(seen: str, version: str) -> bool:
    """Whether `version` lies in the range `seen`; True where one of them is not known."""
    first, dash, last = seen.partition(" - ")
    key = _version_key(version)
    if not dash or not key:
        return True
    low, high = _version_key(first), _version_key(last)
    return low <= key and key[: len(high)] <= high


def _version_key(version: str) -> tuple[int, ...]:
    """`0.5.12.post1+cpu` as (0, 5, 12, 1); enough to compare releases of one engine."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))
