"""The fast links and partition equal the slow reference on random interval sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.analyzers import activities, attribution, cycles, stages
from specscope.analyzers import rank as ranks
from specscope.analyzers.attribution import WHATS
from specscope.analyzers.evidence import Placement
from specscope.analyzers.spans import Span, innermost
from specscope.analyzers.words import STAGES, STATES
from specscope.traces import schema
from specscope.traces.run import RankTables
from tests import reference
from tests.reference import Call, Op, StageRange

# A name for each class of the reference, so that the activity table gives that class.
NAME = {
    "compute": ("kernel", "nvjet_tst_64x8"),
    "collective": ("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage)"),
    "copy": ("copy", "Memcpy DtoD (Device -> Device)"),
    "set": ("set", "Memset (Device)"),
}
WHAT_CLASS = {"gemm": "compute"}

times = st.integers(0, 60)
ops_of = st.builds(
    lambda start, length, stream, correlation, what: Op(
        start, start + length, stream, correlation, what
    ),
    times,
    st.integers(0, 12),
    st.sampled_from([7, 11, 20]),
    st.one_of(st.none(), st.integers(1, 12)),
    st.sampled_from(sorted(NAME)),
)
calls_of = st.builds(
    lambda start, length, thread, correlation, kind: Call(
        start, start + length, thread, correlation, kind, kind == "sync"
    ),
    times,
    st.integers(0, 8),
    st.sampled_from([1, 2]),
    st.integers(1, 12),
    st.sampled_from(["launch", "launch", "graph_launch", "copy", "sync", "other"]),
)
ranges_of = st.builds(
    lambda start, length, stage, thread: StageRange(start, start + length, stage, thread),
    times,
    st.integers(1, 25),
    st.sampled_from(["draft", "verify", "accept", "draft_extend"]),
    st.sampled_from([1, 2]),
)


def _table(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    fields = list(schema.TABLES[name])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    arrays = []
    for field, column in zip(fields, columns, strict=True):
        if pa.types.is_dictionary(field.type):
            array = pa.array(column, pa.string()).dictionary_encode().cast(field.type)
        else:
            array = pa.array(column, field.type)
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema.TABLES[name])


def tables(ops: list[Op], calls: list[Call]) -> RankTables:
    """The tables of one rank that hold these ops and calls."""
    return RankTables(
        rank=0,
        ops=_table(
            "ops",
            [
                (i, *NAME[op.what], 0, op.stream, op.start, op.end, op.correlation, *[None] * 3)
                for i, op in enumerate(ops)
            ],
        ),
        calls=_table(
            "calls",
            [
                (i, c.kind, c.kind, 1, c.thread, c.start, c.end, c.correlation)
                for i, c in enumerate(calls)
            ],
        ),
        ranges=schema.empty("ranges"),
        collectives=schema.empty("collectives"),
        tracks=schema.empty("tracks"),
        losses=schema.empty("losses"),
        sources=schema.empty("sources"),
    )


def unique_calls(calls: list[Call]) -> list[Call]:
    """Two calls with one correlation and one start cannot be told apart: keep the first."""
    return list({(c.correlation, c.start): c for c in reversed(calls)}.values())[::-1]


@settings(max_examples=250, deadline=None)
@given(st.lists(ops_of, max_size=14), st.lists(calls_of, max_size=14))
def test_links_equal_the_reference(ops: list[Op], calls: list[Call]) -> None:
    calls = unique_calls(calls)
    one = ranks.prepare(tables(ops, calls), activities.load_rules())
    expected = [-1 if link is None else link for link in reference.link(ops, calls)]
    assert one.ops.call.tolist() == expected


@settings(max_examples=250, deadline=None)
@given(
    st.lists(ops_of, min_size=1, max_size=14),
    st.lists(calls_of, max_size=14),
    st.lists(ranges_of, max_size=8, unique_by=lambda r: (r.start, r.thread)),
    st.lists(times, min_size=2, max_size=4, unique=True),
)
def test_segments_equal_the_reference(
    ops: list[Op], calls: list[Call], ranges: list[StageRange], borders: list[int]
) -> None:
    """Overlapping streams, dependent launch, cuts inside gaps, equal stamps, zero lengths."""
    calls = unique_calls(calls)
    last = max(op.start for op in ops)
    windows = [w for w in zip(sorted(borders), sorted(borders)[1:], strict=False) if w[1] <= last]
    links = reference.link(ops, calls)
    owners = reference.own(links, calls, ranges)
    stage_of = reference.stages(links, owners, ranges)
    expected = reference.parts(reference.partition(ops, links, stage_of, calls, windows))

    one = ranks.prepare(tables(ops, calls), activities.load_rules())
    thread_number = {tid: i for i, (_, tid) in enumerate(one.calls.threads)}
    spans = [
        Span(thread_number.get(r.thread, 99), r.start, r.end, STAGES.index(r.stage), "specscope")
        for r in ranges
    ]
    owner = innermost(spans, one.calls.thread, one.calls.start)
    stage = np.array([s.stage for s in spans] + [STAGES.index("schedule")], np.int8)[owner]
    linked = one.ops.call >= 0
    stage_of_op = np.where(
        linked,
        stage[np.maximum(one.ops.call, 0)] if len(stage) else 0,
        STAGES.index("unplaced"),
    ).astype(np.int8)
    placed = stages.Placed(
        Placement(spans, [], ("specscope",), True),
        owner,
        stage,
        np.ones(len(stage), dtype=bool),
        stage_of_op,
        np.empty(0, np.int64),
    )
    starts = np.array([low for low, _ in windows], np.int64)
    ends = np.array([high for _, high in windows], np.int64)
    n = len(windows)
    cut = cycles.Cycles(
        starts,
        ends,
        starts,
        ends,
        [None] * n,
        ["speculation"] * n,
        [1] * n,
        [None] * n,
        [None] * n,
        np.zeros(n, np.int8),
    )
    found: list[dict[str, int]] = [{} for _ in windows]
    total = attribution.sums(attribution.attribute(one, placed, cut))
    for c, s, state, w in zip(*np.nonzero(total), strict=True):
        what = WHAT_CLASS.get(WHATS[w], WHATS[w])
        found[c][f"{STATES[state]}/{STAGES[s]}/{what}"] = int(total[c, s, state, w])
    assert found == expected
    for c, (low, high) in enumerate(windows):
        assert int(total[c].sum()) == high - low
