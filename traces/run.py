"""A run: the tables of every rank of one capture, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class RankTables:
    """The tables of one rank (schemas in `traces.schema`), plus facts of its file.

    `facts` holds what the header says: `rank` (int or None), `world_size`, `groups`,
    `devices`, `clock_base_ns`, `resolution_ns`, `with_stack`, `window_end_ns` (None when the
    file ends early), `truncated` (bool), `label` (`TP00` for ranks split out of a merged
    file), `path`, `reader` (`native` or `pure`), `has_frames`.
    """

    rank: int
    ops: pa.Table
    calls: pa.Table
    ranges: pa.Table
    collectives: pa.Table
    tracks: pa.Table
    losses: pa.Table
    sources: pa.Table
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """Something the user has to know about the input: a code, a sentence, its mend."""

    code: str
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Run:
    """All ranks of one capture, in rank order; `context` is what run.json or meta.json said."""

    ranks: tuple[RankTables, ...]
    notes: tuple[Note, ...] = ()
    context: dict[str, Any] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
