"""The tables of the ranks together: clocks, collectives, stages, the critical path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.bandwidth import Float
from specscope.analyzers.collective_times import LATE_CAUSES, before_on_stream
from specscope.analyzers.columns import ABSENT, Int, worded
from specscope.analyzers.critical_path import PATH_WHATS, Paths
from specscope.analyzers.group_rows import Group, Measured
from specscope.analyzers.message_sizes import BYTES_SOURCES
from specscope.analyzers.words import STAGES, STATES
from specscope.traces import schema


def of(group: Group | None, attributed: Sequence[Attribution]) -> dict[str, Callable[[], pa.Table]]:
    """The tables by name, each made when it is asked for; none where nothing matched."""
    if group is None or not group.measured_parts:
        return {}
    parts = group.measured_parts
    tables = {
        "rank_clocks": lambda: clocks_table(parts),
        "rank_stages": lambda: stages_table(group),
        "matched_collectives": lambda: matched_table(parts, attributed),
    }
    paths = group.paths or (parts[0].measured.paths if parts[0].measured else None)
    if paths is not None and (group.paths is not None or not group.several):
        base = parts[0].measured.base_ns if parts[0].measured else 0
        base = group.base_ns if group.several else base
        tables["critical_path"] = lambda: path_table(paths, group.ranks, base)
    return tables


def clocks_table(parts: Sequence[Group]) -> pa.Table:
    """The `rank_clocks` table: against the first rank of each process group."""
    rows = [
        vars(clock) | {"group": part.title or None}
        for part in parts
        if part.measured is not None
        for clock in part.measured.clocks.clocks
    ]
    return pa.Table.from_pylist(rows, schema=schema.RANK_CLOCKS)


def stages_table(group: Group) -> pa.Table:
    """The `rank_stages` table."""
    rows = [vars(row) for row in group.rows]
    return pa.Table.from_pylist(rows, schema=schema.RANK_STAGES)


def matched_table(parts: Sequence[Group], attributed: Sequence[Attribution]) -> pa.Table:
    """The `matched_collectives` table: a row for each rank and collective."""
    tables = []
    first = 0
    for part in parts:
        if part.measured is None:
            continue
        tables.append(_matched(part.measured, attributed, part.title, first))
        first += len(part.measured.matched)
    return pa.concat_tables(tables).unify_dictionaries()


def _matched(
    measured: Measured, attributed: Sequence[Attribution], title: str, first: int
) -> pa.Table:
    """One process group's part of it; its collectives are numbered from `first`."""
    matched, times = measured.matched, measured.times
    whole = {one.number: len(one.cycles) for one in attributed}
    ranks, size = matched.op.shape
    cycle = matched.cycle.copy()
    for row, number in enumerate(matched.ranks):
        cycle[row][cycle[row] >= whole.get(number, 0)] = -1
    call, before = _launch_and_before(measured, attributed)
    late = np.tile(times.late, ranks)
    rank_of_row = np.array(matched.ranks, np.int32)
    sequence = np.tile(matched.sequence, ranks)
    size_in = np.tile(measured.sizes.bytes, ranks)
    group = (title,) * size if title else matched.group
    columns = {
        "rank": pa.array(np.repeat(rank_of_row, size)),
        "collective": pa.array(np.tile(np.arange(first, first + size), ranks)),
        "op_id": pa.array(matched.op.ravel()),
        "cycle": pa.array(cycle.ravel(), mask=cycle.ravel() < 0),
        "stage": worded(np.tile(matched.stage, ranks), STAGES),
        "kind": _names(matched.kind, ranks),
        "fused": pa.array(np.tile(matched.fused, ranks)),
        "name": _names([name for of in matched.names for name in of], 1),
        "group": _names(group, ranks),
        "sequence": pa.array(sequence, mask=sequence == ABSENT),
        "bytes": pa.array(size_in, mask=size_in == ABSENT),
        "bytes_source": worded(np.tile(measured.sizes.source, ranks), BYTES_SOURCES),
        "algbw": _rates(measured.rates.algbw),
        "busbw": _rates(measured.rates.busbw),
        "arrival_ns": pa.array(times.arrival.ravel() - measured.base_ns),
        "end_ns": pa.array(times.end.ravel() - measured.base_ns),
        "wait_ns": pa.array(times.wait.ravel()),
        "transfer_ns": pa.array(times.transfer.ravel()),
        "late_rank": pa.array(rank_of_row[np.maximum(late, 0)], mask=late < 0),
        "late_ns": pa.array(np.tile(times.late_ns, ranks), mask=late < 0),
        "cause": worded(np.where(late < 0, -1, np.tile(times.cause, ranks)), LATE_CAUSES),
        "cause_ns": pa.array(np.tile(times.cause_ns, ranks), mask=late < 0),
        "call_id": pa.array(call, mask=call < 0),
        "before_op_id": pa.array(before, mask=before < 0),
    }
    names = schema.MATCHED_COLLECTIVES.names
    return pa.table([columns[name] for name in names], schema=schema.MATCHED_COLLECTIVES)


def _launch_and_before(measured: Measured, attributed: Sequence[Attribution]) -> tuple[Int, Int]:
    """The launch call of each collective and the op before it on its stream; -1: none known."""
    ops_of = {one.number: one.rank.ops for one in attributed}
    calls, before = [], []
    for number, rows in zip(measured.matched.ranks, measured.matched.op, strict=True):
        ops = ops_of.get(number)
        nothing = np.full(len(rows), -1, np.int64)
        calls.append(nothing if ops is None else ops.call[rows])
        before.append(nothing if ops is None else before_on_stream(ops, rows)[0])
    return np.concatenate(calls), np.concatenate(before)


def path_table(paths: Paths, ranks: Sequence[int], base_ns: int) -> pa.Table:
    """The `critical_path` table: the pieces in order of time."""
    columns = {
        "cycle": pa.array(paths.cycles[paths.cycle]),
        "rank": pa.array(np.array(ranks, np.int32)[paths.rank]),
        "start_ns": pa.array(paths.start - base_ns),
        "end_ns": pa.array(paths.end - base_ns),
        "stage": worded(paths.stage, STAGES),
        "state": worded(paths.state, STATES),
        "what": worded(paths.what, PATH_WHATS),
    }
    names = schema.CRITICAL_PATH.names
    return pa.table([columns[name] for name in names], schema=schema.CRITICAL_PATH)


def _rates(values: Float) -> pa.Array:
    flat = values.ravel()
    return pa.array(flat, mask=np.isnan(flat))


def _names(words: Sequence[str | None], times: int) -> pa.DictionaryArray:
    once = pa.array(words, pa.string()).dictionary_encode()
    return pa.concat_arrays([once] * times)
