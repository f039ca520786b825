"""What a viewer of timelines shows of a run: one list of tracks, each with its slices.

First what the analysis says (cycles, stages, activities, idle by cause, wait and transfer of
collectives), then what was recorded (GPU streams, host threads, marks), rank by rank; the critical
path of all ranks last. Times are on the clock of the first rank's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.columns import Int, codes, ints
from specscope.analyzers.report import Report
from specscope.dashboards.perfetto_recorded import recorded
from specscope.dashboards.perfetto_slices import Clock, Slices, Track, columns, of_rank

CYCLES: Final = "cycles"
_WHOLE: Final = ("cycle", "op_id")


def clock_of(report: Report) -> tuple[Callable[[int, Int], Int], frozenset[int]]:
    """From a rank's own times to those of the first rank, and the ranks whose clocks are aligned.

    Ranks that are not aligned keep their own clock; only the base times of the files are taken in.
    """
    bases = {one.rank: int(one.facts.get("clock_base_ns") or 0) for one in report.run.ranks}
    measured = report.group.measured if report.group else None
    rows = {number: row for row, number in enumerate(measured.matched.ranks)} if measured else {}
    origin = measured.base_ns if measured else next(iter(bases.values()), 0)

    def common(rank: int, times: Int) -> Int:
        absolute = times + bases[rank]
        if measured is not None and rank in rows:
            absolute = measured.clocks.common(rows[rank], absolute)
        return absolute - origin

    return common, frozenset(rows)


def tracks(report: Report) -> Iterator[Track]:
    """Every track, in the order in which they are shown."""
    clock, _ = clock_of(report)
    for one in report.run.ranks:
        rank = one.rank
        own = partial(clock, rank)
        yield from _analysed(report, rank, own)
        yield from _waits(report, rank)
        yield from recorded(report, rank, own)
    if "critical_path" in report.tables:
        yield _path(report.tables["critical_path"])


def _analysed(report: Report, rank: int, clock: Clock) -> Iterator[Track]:
    cycles = of_rank(report, "cycles", rank)
    yield Track(rank, CYCLES, _cycles(cycles, clock), "one round: draft, verify, accept")
    segments = of_rank(report, "segments", rank)
    for title, by, state, note in (
        ("stages", ("cycle", "stage"), None, "each instant of a cycle has one owner"),
        ("work by activity", ("cycle", "stage", "state", "what"), "work", "collectives: exposed"),
        ("idle by cause", ("cycle", "stage", "state", "what", "op_id"), "idle", "op_id ends it"),
    ):
        yield Track(rank, title, _runs(segments, by, state, clock), note)
    stages = of_rank(report, "stages", rank)
    name, words = codes(stages, "stage")
    found = Slices(
        clock(ints(stages, "host_start_ns")),
        clock(ints(stages, "host_end_ns")),
        name.astype(np.int64),
        words,
        columns(stages, ("cycle", "draft_step", "evidence", "confidence")),
    )
    yield Track(rank, "stages on the host", found, "where the host launches them")


def _cycles(table: pa.Table, clock: Clock) -> Slices:
    words = [
        f"cycle {cycle} {kind}" + (f" ({mark})" if mark else "")
        for cycle, kind, mark in zip(
            *(table[name].to_pylist() for name in ("cycle", "kind", "mark")), strict=True
        )
    ]
    shown = ("cycle", "batch", "tokens", "k", "mark")
    return Slices(
        clock(ints(table, "start_ns")),
        clock(ints(table, "end_ns")),
        np.arange(len(words)),
        words,
        columns(table, shown),
    )


def _runs(table: pa.Table, by: Sequence[str], state: str | None, clock: Clock) -> Slices:
    """Segments side by side with equal columns as one slice, named by the last word of them."""
    if state is not None:
        table = table.filter(pc.equal(table["state"], state))
    start, end = ints(table, "start_ns"), ints(table, "end_ns")
    named = "stage" if state is None else "what"
    keys = [ints(table, name) for name in by if name in ("cycle", "op_id")]
    keys += [codes(table, name)[0].astype(np.int64) for name in by if name not in _WHOLE]
    new = np.ones(len(start), dtype=bool)
    if len(start):
        new[1:] = start[1:] != end[:-1]
        for key in keys:
            new[1:] |= key[1:] != key[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(start)) - 1
    name, words = codes(table, named)
    kept = table.take(pa.array(first))
    shown = tuple(column for column in by if column not in (named, "state"))
    return Slices(
        clock(start[first]),
        clock(end[last]) if len(first) else first,
        name[first].astype(np.int64),
        words,
        columns(kept, shown),
    )


def _waits(report: Report, rank: int) -> Iterator[Track]:
    """Wait and transfer of every collective that all ranks have; their times are common already."""
    if "matched_collectives" not in report.tables:
        return
    table = of_rank(report, "matched_collectives", rank)
    if not table.num_rows:
        return
    arrival, wait, end = (ints(table, name) for name in ("arrival_ns", "wait_ns", "end_ns"))
    late = ints(table, "late_rank", -1)
    kind, kinds = codes(table, "kind")
    waiting = np.flatnonzero(wait > 0)
    rows = np.concatenate((waiting, np.arange(len(wait))))
    ranks = np.unique(late)
    words = [f"wait for rank {one}" if one >= 0 else "wait" for one in ranks.tolist()]
    name = np.concatenate((np.searchsorted(ranks, late[waiting]), len(words) + kind))
    kept = table.take(pa.array(rows))
    found = Slices(
        np.concatenate((arrival[waiting], arrival + np.maximum(wait, 0))),
        np.concatenate((arrival[waiting] + wait[waiting], end)),
        name.astype(np.int64),
        [*words, *(f"transfer {one}" for one in kinds)],
        columns(kept, ("collective", "op_id", "cycle", "stage", "bytes", "late_ns", "cause")),
    )
    yield Track(rank, "collectives: wait, transfer", found, "wait: until the last rank arrives")


def _path(table: pa.Table) -> Track:
    rank, stage, what = (table[name].to_pylist() for name in ("rank", "stage", "what"))
    texts = pa.array([f"rank {r} {s} {w}" for r, s, w in zip(rank, stage, what, strict=True)])
    encoded = texts.dictionary_encode()
    found = Slices(
        ints(table, "start_ns"),
        ints(table, "end_ns"),
        np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64),
        encoded.dictionary.to_pylist(),
        columns(table, ("cycle", "rank", "state")),
    )
    return Track(None, "critical path", found, "the rank that everything waits for")
