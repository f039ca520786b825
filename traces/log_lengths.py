"""Joins the accept lengths of a process that has no rank to the logs of the ranks.

vLLM's lengths are known in EngineCore, which runs no stage: its log holds `accept` rows only,
with the number of the cycle as the workers count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from . import schema
from .run import RankTables

Named = tuple[str, RankTables]


def joined(logs: Sequence[Named]) -> list[Named]:
    """The logs of the ranks, each with the lengths of the one log that has no rank.

    Where there is not exactly one such log, or no rank, the logs stay as they are. Files and
    losses of the log that went are told with the first rank.
    """
    without = [log for log in logs if _has_lengths_only(log[1])]
    ranks = [log for log in logs if log[1].facts["rank"] is not None]
    if len(without) != 1 or not ranks or len(ranks) + 1 != len(logs):
        return list(logs)
    [(_, lengths)] = without
    found = [(path, _with(tables, lengths)) for path, tables in ranks]
    path, first = found[0]
    told = replace(
        first,
        sources=pa.concat_tables([first.sources, lengths.sources]),
        losses=pa.concat_tables([first.losses, lengths.losses]),
    )
    return [(path, told), *found[1:]]


def _has_lengths_only(tables: RankTables) -> bool:
    log = tables.cycle_log
    if log is None or tables.facts["rank"] is not None:
        return False
    rows = set(pc.unique(log["row"].cast(pa.string())).to_pylist())
    return "accept" in rows and rows <= {"accept", "lost"}


def _with(tables: RankTables, lengths: RankTables) -> RankTables:
    """The log of a rank with the lengths in it, by the clock of the rank."""
    log, more = tables.cycle_log, lengths.cycle_log
    assert log is not None
    assert more is not None
    more = more.filter(pc.equal(more["row"].cast(pa.string()), "accept"))
    bases = (lengths.facts["clock_base_ns"], tables.facts["clock_base_ns"])
    shift = bases[0] - bases[1] if None not in bases else 0
    columns = {
        "rank": pa.array([tables.rank] * more.num_rows, pa.int32()),
        **{name: pc.add(more[name], shift) for name in ("start_ns", "end_ns")},
    }
    for name, column in columns.items():
        at = schema.CYCLE_LOG.get_field_index(name)
        more = more.set_column(at, schema.CYCLE_LOG.field(name), column)
    table = pa.concat_tables([log, more]).unify_dictionaries()
    table = table.take(pc.sort_indices(table, sort_keys=[("start_ns", "ascending")]))
    table = table.combine_chunks()
    return replace(tables, cycle_log=table, facts={**tables.facts, "events": table.num_rows})
