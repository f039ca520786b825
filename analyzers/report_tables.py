"""The tables of a report, over all ranks, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from specscope.analyzers import attribution
from specscope.analyzers.activities import ACTIVITIES
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import worded
from specscope.analyzers.rank import Rank
from specscope.analyzers.words import STAGES
from specscope.traces import schema
from specscope.traces.run import Run


class Tables(Mapping[str, pa.Table]):
    """The tables of design section 4 over all ranks, each made when it is asked for.

    `more` are tables that only some analyses have, by name.
    """

    _OWN: Mapping[str, Callable[[Attribution], pa.Table]] = {
        "stages": attribution.stages_table,
        "cycles": attribution.cycles_table,
        "segments": attribution.segments_table,
        "parts": lambda one: attribution.parts_table(one, attribution.sums(one)),
    }

    def __init__(
        self,
        run: Run,
        prepared: Sequence[Rank],
        attributed: Sequence[Attribution],
        more: Mapping[str, Callable[[], pa.Table]] | None = None,
    ) -> None:
        self._run = run
        logs = any(rank.cycle_log is not None for rank in run.ranks)
        self._read = (*schema.TABLES, "cycle_log") if logs else tuple(schema.TABLES)
        self._prepared = {one.tables.rank: one for one in prepared}
        self._attributed = attributed
        self._more = dict(more or {})
        self._made: dict[str, pa.Table] = {}

    @property
    def attributed(self) -> Sequence[Attribution]:
        """The ranks behind the tables."""
        return self._attributed

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._OWN, *self._read, *self._more))

    def __len__(self) -> int:
        return len(self._OWN) + len(self._read) + len(self._more)

    def _make(self, name: str) -> pa.Table:
        if name in self._OWN:
            pieces = [self._OWN[name](one) for one in self._attributed]
            return pa.concat_tables(pieces) if pieces else schema.empty(name)
        if name in self._more:
            return self._more[name]()
        if name not in self._read:
            raise KeyError(name)
        placed = {one.number: one for one in self._attributed}
        pieces = []
        for one in self._run.ranks:
            table = getattr(one, name)
            if table is None:
                continue
            if name == "ops":
                table = _placed_ops(table, self._prepared[one.rank], placed.get(one.rank))
            pieces.append(_with_rank(table, one.rank))
        return pa.concat_tables(pieces) if pieces else schema.empty(name)


def _placed_ops(table: pa.Table, rank: Rank, one: Attribution | None) -> pa.Table:
    """The `ops` table with what is known of each op: its call, its activity, its stage."""
    call = rank.ops.call
    column = table.schema.get_field_index("call_id")
    field = table.schema.field(column)
    table = table.set_column(column, field, pa.array(call, mask=call < 0))
    unknown = np.full(table.num_rows, -1, np.int8)
    stage = unknown if one is None else one.placed.stage_of_op
    placed = (worded(stage, STAGES), worded(rank.activity, ACTIVITIES))
    for field, column in zip(schema.PLACED, placed, strict=True):
        table = table.append_column(field, column)
    return table


def _with_rank(table: pa.Table, rank: int) -> pa.Table:
    names = table.column_names
    if "rank" in names:
        return table
    field = schema.RANK.field("rank")
    return table.add_column(0, field, pa.array(np.full(table.num_rows, rank, np.int32)))
