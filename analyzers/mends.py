"""What mends a cause: advice, and the flags of the run's own engine and version (`mends.toml`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from specscope.analyzers.name_rules import bundled

ENGINES: Final = ("sglang", "vllm")


@dataclass(frozen=True)
class Flag:
    """One option of one engine: the versions that have it, and what it does here."""

    engine: str
    flag: str
    first: str  # earliest version seen with it; "" where none was read without it
    last: str  # last version seen with it; "" where the newest that was read has it
    does: str

    def fits(self, engine: str | None, version: str | None) -> bool:
        """Does this engine have it in this version?"""
        if engine is None or self.engine not in engine.lower():
            return False
        number = release(version)
        if number is None:
            return False
        after = not self.first or number >= (release(self.first) or ())
        return after and (not self.last or number <= (release(self.last) or ()))


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


@cache
def mends() -> Mapping[str, Mend]:
    """All mends by their key."""
    return {row["key"]: _mend(row) for row in bundled("mends.toml")["mend"]}


def _mend(row: dict[str, Any]) -> Mend:
    flags = tuple(
        Flag(one["engine"], one["flag"], one["first"], one["last"], one["does"])
        for one in row.get("flags", ())
    )
    return Mend(row["key"], row["advice"], flags)
