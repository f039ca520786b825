"""What mends a cause: advice, and the flags of the run's own engine and version (`mends.toml`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from specscope.analyzers.name_rules import bundled

ENGINES: Final = ("sglang", "vllm")
ACTS: Final = ("leave_out", "set", "choose")
# Where a flag stands, and how it is written.
FORMS: Final = {
    "option": "{}",
    "environment": "{}",
    "library": "{}",
    "speculative": """--speculative-config '{{"{}": ...}}'""",
    "pass": """--compilation-config '{{"pass_config": {{"{}": ...}}}}'""",
}


@dataclass(frozen=True)
class Flag:
    """One option of one engine: the versions that have it, and what it does here."""

    engine: str
    name: str
    where: str  # a key of FORMS
    first: str  # earliest version that was read and has it
    last: str  # latest version that was read and has it; "" where the newest has it
    does: str
    narrowed: str = ""  # why versions that have it are left out; "": none is
    act: str = "choose"  # one of ACTS
    to: str = ""  # the value that `set` means; "": any
    default: str = ""  # version from which on it is so where nothing is said; "": none
    also: tuple[str, ...] = ()  # other names in the engine's arguments

    @property
    def flag(self) -> str:
        """As a command line or an environment has it."""
        return FORMS[self.where].format(self.name)

    def is_default(self, version: str | None) -> bool:
        """Is it so in this version where nothing is said?"""
        number = release(version)
        return bool(self.default) and number is not None and number >= _known(self.default)

    def fits(self, engine: str | None, version: str | None) -> bool:
        """Does this engine have it in this version?"""
        if engine is None or self.engine not in engine.lower():
            return False
        number = release(version)
        if number is None:
            return False
        if number < _known(self.first):
            return False
        return not self.last or number <= _known(self.last)


@dataclass(frozen=True)
class Mend:
    """What to do about a cause."""

    key: str
    advice: str
    flags: tuple[Flag, ...]

    def of(self, engine: str | None, version: str | None) -> tuple[Flag, ...]:
        """The flags that this engine has in this version."""
        return tuple(flag for flag in self.flags if flag.fits(engine, version))


def release(version: str | None) -> tuple[int, ...] | None:
    """The numbers of a version that order it; None where there are none.

    >>> release("0.5.12.post1"), release("v0.11.0+cpu"), release("main")
    ((0, 5, 12), (0, 11, 0), None)
    """
    found = re.match(r"v?(\d+(?:\.\d+)*)", version or "")
    return tuple(int(part) for part in found[1].split(".")) if found else None


def _known(version: str) -> tuple[int, ...]:
    number = release(version)
    if number is None:
        raise ValueError(f"{version!r} is no version")
    return number


@cache
def read_versions(engine: str) -> tuple[str, ...]:
    """The versions of that engine whose flags were read, oldest first."""
    return tuple(bundled("mends.toml")["read"][engine])


@cache
def mends() -> Mapping[str, Mend]:
    """All mends by their key."""
    return {row["key"]: _mend(row) for row in bundled("mends.toml")["mend"]}


def _mend(row: dict[str, Any]) -> Mend:
    flags = tuple(
        Flag(
            one["engine"],
            one["flag"],
            one["where"],
            one["first"],
            one["last"],
            one["does"],
            one.get("narrowed", ""),
            one["act"],
            one.get("to", ""),
            one.get("default", ""),
            tuple(one.get("also", ())),
        )
        for one in row.get("flags", ())
    )
    return Mend(row["key"], row["advice"], flags)
