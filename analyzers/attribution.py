"""Every nanosecond of every cycle of one rank, with its owner: segments and their sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from specscope.analyzers import activities, host_partition
from specscope.analyzers.activities import ACTIVITIES, CODE_OF_ACTIVITY
from specscope.analyzers.columns import Bool, Int, spread, worded
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.evidence_log import accepted
from specscope.analyzers.idle import blocking_stretches
from specscope.analyzers.links import COPY, SYNC, graphs_without_op, kernels_missing
from specscope.analyzers.partition import Segments, partition
from specscope.analyzers.rank import Rank
from specscope.analyzers.stages import Placed
from specscope.analyzers.words import (
    CAUSES,
    MARKS,
    STAGES,
    STATES,
    UNKNOWN,
    UNPLACED,
    WORK,
)
from specscope.traces.schema import DERIVED, WORD

# `what` of a segment in words: activities for work, causes for idle, and host time of a run
# on the CPU. One list, so that one dictionary serves the tables.
WHATS = (*ACTIVITIES, *CAUSES)
COLLECTIVES = (CODE_OF_ACTIVITY["collective"], CODE_OF_ACTIVITY["fused_collective"])


@dataclass(frozen=True)
class Attribution:
    """One rank, attributed. `stage` and `what` (index into WHATS) are per segment."""

    rank: Rank
    placed: Placed
    cycles: Cycles
    segments: Segments
    stage: Int
    what: Int
    placed_segment: Bool  # rests on evidence: linked, and not only on the order of launches
    on_host: bool  # a run on the CPU: host ranges, no busy share

    @property
    def number(self) -> int:
        """The rank's number."""
        return self.rank.tables.rank


def attribute(rank: Rank, placed: Placed, cycles: Cycles) -> Attribution:
    """Partition all whole cycles of one rank."""
    if not len(rank.ops.start):
        segments, stage, what = host_partition.partition(rank, placed, cycles)
        return Attribution(
            rank, placed, cycles, segments, stage, what, np.ones(len(stage), dtype=bool), True
        )
    ops, calls = rank.ops, rank.calls
    blocking = blocking_stretches(ops, calls, calls.kind == SYNC, calls.kind == COPY)
    op_class = activities.CLASS_OF_CODE[rank.activity].astype(np.int32)
    segments = partition(ops, calls, op_class, rank.activity, cycles.borders, blocking)
    if graphs_without_op(ops, calls) or kernels_missing(ops, calls):
        # What ran there is not on record: nobody knows what is idle, let alone why.
        idle = segments.state != WORK
        segments = replace(segments, what=np.where(idle, np.int16(UNKNOWN), segments.what))
    known = segments.op >= 0
    safe = np.maximum(segments.op, 0)
    stage = np.where(known, placed.stage_of_op[safe], UNPLACED).astype(np.int64)
    what = segments.what.astype(np.int64) + np.where(segments.state == WORK, 0, len(ACTIVITIES))
    call = np.where(known, ops.call[safe], -1)
    sure = (call >= 0) & (placed.sure[np.maximum(call, 0)] if len(placed.sure) else False)
    return Attribution(rank, placed, cycles, segments, stage, what, sure, False)


def sums(one: Attribution) -> Int:
    """Nanoseconds by [cycle, stage, state, what]."""
    shape = (len(one.cycles), len(STAGES), len(STATES), len(WHATS))
    cell = np.ravel_multi_index(
        (one.segments.cycle, one.stage, one.segments.state.astype(np.int64), one.what), shape
    )
    # A sum of nanoseconds stays exact in a double up to 2^53, over a hundred days.
    total = np.bincount(cell, weights=one.segments.ns, minlength=int(np.prod(shape)))
    return total.astype(np.int64).reshape(shape)


def collective_durations(one: Attribution) -> Int:
    """Nanoseconds that collectives ran, exposed or not, by [cycle, stage].

    The sum of their durations inside each cycle; what the partition has less is hidden behind
    compute.
    """
    total = np.zeros((len(one.cycles), len(STAGES)), np.int64)
    ops = one.rank.ops
    rows = np.flatnonzero(np.isin(one.rank.activity, COLLECTIVES))
    if one.on_host or not len(rows) or not len(one.cycles):
        return total
    borders = one.cycles.borders
    first = np.maximum(np.searchsorted(borders, ops.start[rows], "right") - 1, 0)
    last = np.minimum(np.searchsorted(borders, ops.end[rows], "left"), len(one.cycles))
    count = np.maximum(last - first, 0)
    cycle, op = spread(first, count), np.repeat(rows, count)
    inside = np.minimum(ops.end[op], one.cycles.end[cycle])
    inside -= np.maximum(ops.start[op], one.cycles.start[cycle])
    np.add.at(total, (cycle, one.placed.stage_of_op[op]), np.maximum(inside, 0))
    return total


def segments_table(one: Attribution) -> pa.Table:
    """The `segments` table of one rank, in order of time."""
    order = np.argsort(one.segments.start, kind="stable")
    s = Segments(**{name: column[order] for name, column in vars(one.segments).items()})
    op = pa.array(s.op, mask=s.op < 0)
    carried = np.zeros(len(s.start), dtype=bool)
    if len(one.rank.ops.start):
        safe = np.maximum(s.op, 0)
        border = one.cycles.start[s.cycle]
        carried = (s.op >= 0) & (s.state == WORK) & (one.rank.ops.start[safe] < border)
    return _table(
        "segments",
        {
            "rank": pa.array(np.full(len(s.start), one.number, np.int32)),
            "cycle": pa.array(s.cycle),
            "start_ns": pa.array(s.start),
            "end_ns": pa.array(s.end),
            "stage": worded(one.stage[order], STAGES),
            "state": worded(s.state, STATES),
            "what": worded(one.what[order], WHATS),
            "op_id": op,
            "carried": pa.array(carried),
        },
    )


def parts_table(one: Attribution, total: Int) -> pa.Table:
    """The `parts` table of one rank from `sums`; sums over a cycle give its length."""
    cycle, stage, state, what = np.nonzero(total)
    return _table(
        "parts",
        {
            "rank": pa.array(np.full(len(cycle), one.number, np.int32)),
            "cycle": pa.array(cycle.astype(np.int64)),
            "stage": worded(stage, STAGES),
            "state": worded(state, STATES),
            "what": worded(what, WHATS),
            "ns": pa.array(total[cycle, stage, state, what]),
        },
    )


def cycles_table(one: Attribution) -> pa.Table:
    """The `cycles` table of one rank."""
    c = one.cycles
    accept = accepted(one.rank.tables).by_cycle
    return _table(
        "cycles",
        {
            "rank": pa.array(np.full(len(c), one.number, np.int32)),
            "cycle": pa.array(np.arange(len(c), dtype=np.int64)),
            "number": pa.array(c.number, pa.int64()),
            "kind": _words(c.kind),
            "start_ns": pa.array(c.start),
            "end_ns": pa.array(c.end),
            "host_start_ns": pa.array(c.host_start),
            "host_end_ns": pa.array(c.host_end),
            "batch": pa.array(c.batch, pa.int64()),
            "tokens": pa.array(c.tokens, pa.int64()),
            "k": pa.array(c.k, pa.int64()),
            "accept_length": pa.array(
                [None if n is None else accept.get(n) for n in c.number], pa.float64()
            ),
            "whole": pa.array(np.ones(len(c), dtype=bool)),
            "mark": worded(c.mark, MARKS),
        },
    )


def stages_table(one: Attribution) -> pa.Table:
    """The `stages` table of one rank: every stage span, with the GPU time of its ops."""
    spans = one.placed.placement.spans
    n = len(spans)
    none = np.iinfo(np.int64)
    first, last = np.full(n, none.max), np.full(n, none.min)
    ops = one.rank.ops
    linked = np.flatnonzero(ops.call >= 0)
    if len(linked) and n:
        span = one.placed.span_of_call[ops.call[linked]]
        inside = span >= 0
        np.minimum.at(first, span[inside], ops.start[linked[inside]])
        np.maximum.at(last, span[inside], ops.end[linked[inside]])
    empty = first == none.max
    host = np.array([s.start for s in spans], np.int64)
    cycle = np.searchsorted(one.cycles.host_start, host, "right") - 1
    outside = (cycle < 0) | (host >= one.cycles.host_end[cycle] if len(one.cycles) else True)
    return _table(
        "stages",
        {
            "rank": pa.array(np.full(n, one.number, np.int32)),
            "cycle": pa.array(cycle, mask=np.broadcast_to(outside, (n,))),
            "stage": worded(np.array([s.stage for s in spans], np.int64), STAGES),
            "draft_step": pa.array([s.step for s in spans], pa.int64()),
            "host_start_ns": pa.array(host),
            "host_end_ns": pa.array(np.array([s.end for s in spans], np.int64)),
            "gpu_start_ns": pa.array(first, mask=empty),
            "gpu_end_ns": pa.array(last, mask=empty),
            "evidence": pa.array([s.evidence for s in spans], pa.string()),
            "confidence": pa.array(["sure" if s.sure else "uncertain" for s in spans], pa.string()),
        },
    )


def _table(name: str, columns: dict[str, Any]) -> pa.Table:
    """The columns as a table of the schema of that name, in its order."""
    schema = DERIVED[name]
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def _words(words: list[str]) -> pa.DictionaryArray:
    """Words of a small vocabulary as a dictionary column."""
    return pa.array(words, pa.string()).dictionary_encode().cast(WORD)
