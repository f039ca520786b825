"""A run: the tables of every rank of one capture, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from . import schema


@dataclass(frozen=True)
class RankTables:
    """The tables of one rank (schemas in `traces.schema`), plus facts of its file.

    `facts` holds plain JSON values. Of the header: `rank` (as recorded, or None), `world_size`,
    `backend`, `groups`, `devices`, `versions`, `switches`, `with_stack`, `is_rocm`. Of the clock:
    `clock_base_ns` (0 when times are since 1970), `clock_base_ignored`, `absolute_times`,
    `resolution_ns`, `precision_lost_events`, `window_end_ns` (None when the file ends early).
    Of the events: `events`, `categories` (kept ones by category), `scan_dropped`, `has_frames`,
    `frames_share`, `producer` (engine, as far as names show). Of the reading: `label` (`TP00` for
    ranks split out of a merged file), `path`, `reader` (`native` or `pure`), `truncated`,
    `has_header`, `offset`, `event_bytes`, `structure_bytes`, `skipped_bytes`, `replaced_names`,
    `repaired_events`, `nulled_events`, `odd_id_events`.
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
    range_args: pa.Table = field(default_factory=schema.RANGE_ARGS.empty_table)  # NVTX only
    marks: pa.Table = field(default_factory=schema.MARKS.empty_table)  # NVTX only
    cycle_log: pa.Table | None = None  # in place of ops, calls and ranges


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
