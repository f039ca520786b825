"""What an engine's bookkeeping kernels say about the place in a speculation cycle.

The table is data (`rules/bookkeeping.toml`). It answers which ops open, end or prove a stage;
placing the ops between them is the stage evidence's work. Names that several engines share
tell the stage, never the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specscope.analyzers.name_rules import Matcher, as_array, bundled

ROLES = (
    "opens_draft",
    "draft",
    "draft_step",
    "ends_draft",
    "verify",
    "accept",
    "ends_verify",
    "opens_draft_extend",
    "draft_extend",
    "target_first",
    "simulated",
)
"""The roles; the position of a word is its bit."""

BIT_OF_ROLE = {role: 1 << position for position, role in enumerate(ROLES)}

Bits = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kernel:
    """One row of the table; `stage` is the op's own, None where it may be any."""

    id: str
    pattern: str
    roles: frozenset[str]
    stage: str | None
    engines: tuple[str, ...]
    versions: str
    examples: tuple[str, ...]
    note: str = ""


@cache
def kernels() -> tuple[Kernel, ...]:
    """The table, in the order in which it is asked."""
    return tuple(
        Kernel(
            row["id"],
            row["pattern"],
            frozenset(row["roles"]),
            row.get("stage"),
            tuple(row["engines"]),
            row["versions"],
            tuple(row["examples"]),
            row.get("note", ""),
        )
        for row in bundled("bookkeeping.toml")["kernel"]
    )


def match(names: pa.Array | Sequence[str]) -> npt.NDArray[np.int32]:
    """Row of `kernels()` of each name, -1 where it keeps no books: int32[len(names)]."""
    return _matcher().first(as_array(names))


def roles(names: pa.Array | Sequence[str]) -> list[frozenset[str]]:
    """Roles of each name, empty where it proves nothing.

    >>> sorted(roles(["fill_bonus_tokens"])[0])
    ['accept', 'ends_verify']
    """
    table = kernels()
    return [table[row].roles if row >= 0 else frozenset() for row in match(names)]


def own_stages(names: pa.Array | Sequence[str]) -> list[str | None]:
    """Stage of the op of each name itself, None where it is not always the same."""
    table = kernels()
    return [table[row].stage if row >= 0 else None for row in match(names)]


def role_bits(names: pa.Array | Sequence[str]) -> Bits:
    """Roles of each name as bits (`BIT_OF_ROLE`), 0 where it proves nothing: int64[len(names)]."""
    bits = np.array([_bits(kernel.roles) for kernel in kernels()] + [0], np.int64)
    return bits[match(names)]


def _bits(words: frozenset[str]) -> int:
    return sum(BIT_OF_ROLE[word] for word in words)


@cache
def _matcher() -> Matcher:
    return Matcher([kernel.pattern for kernel in kernels()])
