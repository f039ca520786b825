"""What weakens the figures of a report, each with its mend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specscope.analyzers import shares as shares_of
from specscope.analyzers.activities import CODE_OF_ACTIVITY
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.columns import Bool
from specscope.analyzers.coverage import Coverage
from specscope.analyzers.cycles import OUTLIER, WARMUP, leading
from specscope.analyzers.evidence_engine import marked_ranges
from specscope.analyzers.evidence_log import MOST_CYCLES, left_out
from specscope.analyzers.links import GRAPH, GRAPH_LAUNCH, KERNEL
from specscope.analyzers.rank import Rank
from specscope.analyzers.report import CycleRow, IdleRow
from specscope.analyzers.rows import share_rows
from specscope.analyzers.shares import StageShare
from specscope.analyzers.words import VERIFY, WORK, percent
from specscope.traces.nsys_names import NODE_SWITCH
from specscope.traces.run import Note, Run

HOST_BOUND = 0.20
OTHER = 0.05
RANKS_APART = 0.02
DISAGREE = 0.02
MANY_FRAMES = 0.9


def host_bound(idle: Sequence[IdleRow], *, ask: bool) -> list[Note]:
    """A host-bound trace is stretched by the profiler, unevenly; `ask` for the true cycle."""
    share = sum(
        row.cycle_share for row in idle if row.rank is None and row.cause in ("host", "launch_call")
    )
    if share <= HOST_BOUND:
        return []
    mend = "give --cycle-ms, or --tokens-per-second with --accept-length and --batch, "
    mend = mend + "measured without a profiler" if ask else ""
    return [
        Note(
            "host_bound",
            f"The GPU waits for the host and its launch calls {percent(share, 0)} of the cycle: "
            "the profiler stretches such a cycle, and idle more than work",
            mend,
        )
    ]


def other_activity(
    attributed: Sequence[Attribution], rows: Sequence[Bool]
) -> tuple[float, list[Note]]:
    """Share of busy time with no known activity, and a warning with its top names."""
    other = CODE_OF_ACTIVITY["other"]
    busy = unknown = 0
    names: dict[str, int] = {}
    for one, counted in zip(attributed, rows, strict=True):
        if one.on_host or not len(one.segments.cycle):
            continue
        work = (one.segments.state == WORK) & counted[one.segments.cycle]
        busy += int(one.segments.ns[work].sum())
        mine = np.flatnonzero(work & (one.what == other))
        unknown += int(one.segments.ns[mine].sum())
        code = one.rank.ops.name[one.segments.op[mine]]
        sums = np.bincount(code, weights=one.segments.ns[mine]) if len(code) else np.empty(0)
        for index in np.argsort(-sums)[:5].tolist():
            if sums[index] > 0:
                name = one.rank.ops.names[index]
                names[name] = names.get(name, 0) + int(sums[index])
    share = unknown / busy if busy else 0.0
    if share <= OTHER:
        return share, []
    top = ", ".join(n[:60] for n in sorted(names, key=lambda n: -names[n])[:3])
    return share, [
        Note(
            "other_activity",
            f"{percent(share)} of GPU busy time has no known activity; most of it: {top}",
            "name them in a file for --activity-rules",
        )
    ]


def cycles(rows: Sequence[CycleRow], attributed: Sequence[Attribution]) -> list[Note]:
    """Warm-up, outliers, and cycles of another kind or batch."""
    notes = []
    first = attributed[0]
    for mark, code, text in (
        (WARMUP, "warmup", "Warm-up (ranks begin to profile at different times)"),
        (OUTLIER, "outliers", "Outliers"),
    ):
        numbers = np.flatnonzero(first.cycles.mark == mark).tolist()
        if numbers:
            named = ", ".join(f"{n} ({first.cycles.ns[n] / 1e6:.2f} ms)" for n in numbers[:5]) + (
                ", ..." if len(numbers) > 5 else ""
            )
            notes.append(
                Note(
                    code,
                    f"{text}: cycle {named}; in medians, not in sums and intervals",
                )
            )
    others = [r for r in rows if not r.leads and r.rank == first.number]
    if others:
        named = ", ".join(
            f"{r.count} {r.kind}" + (f" at batch {r.batch}" if r.batch is not None else "")
            for r in others
        )
        notes.append(Note("other_cycles", f"Cycles kept out of the headline: {named}"))
    return notes


def unlinked(prepared: Sequence[Rank], coverage: Sequence[Coverage]) -> list[Note]:
    """Ops without a launch call, and launches without an op."""
    notes = []
    lost = [one.ops.call < 0 for one in prepared]
    ops = sum(int(rows.sum()) for rows in lost)
    if ops:
        whole = sum(len(rows) for rows in lost)
        kernels = [one.ops.kind == KERNEL for one in prepared]
        all_kernels = sum(int(of.sum()) for of in kernels)
        of_kernels = sum(int((rows & of).sum()) for rows, of in zip(lost, kernels, strict=True))
        notes.append(
            Note(
                "unlinked_ops",
                f"{ops:,} of {whole:,} ops ({of_kernels:,} of {all_kernels:,} kernels) have no "
                "launch call on record and no stage",
                "launched before the capture began, or the call was lost: capture more cycles",
            )
        )
    bare = sum(c.launches_without_op for c in coverage)
    launches = sum(c.launches for c in coverage)
    if bare and any(c.ops for c in coverage):
        mend = "the file ends early or the profiler lost them: capture again, fewer cycles"
        if any(c.graphs_without_op for c in coverage):
            mend = "graphs are among them: see why the verdict is withheld"
        text = f"{bare:,} of {launches:,} launch calls have no GPU op in the trace"
        notes.append(Note("launches_without_op", text, mend))
    return notes


def graph_spans(attributed: Sequence[Attribution], rows: Sequence[Bool]) -> list[Note]:
    """Work that is recorded as whole graph replays: busy time is known, its inside is not."""
    busy = inside = launches = 0
    for one, counted in zip(attributed, rows, strict=True):
        if one.on_host:
            continue
        work = (one.segments.state == WORK) & counted[one.segments.cycle]
        mine = work & (one.what == CODE_OF_ACTIVITY["graph"])
        busy += int(one.segments.ns[work].sum())
        inside += int(one.segments.ns[mine].sum())
        launches += int((one.rank.ops.kind == GRAPH).sum())
    if not launches:
        return []
    share = f", {percent(inside / busy)} of GPU busy time" if busy else ""
    return [
        Note(
            "graph_spans",
            f"{launches:,} graph replays are recorded as one span each{share}: kernels not "
            "visible, so compute, all-reduce and gaps inside them cannot be told apart",
            f"trace with node granularity: nsys profile {NODE_SWITCH}",
        )
    ]


def cut_replays(attributed: Sequence[Attribution]) -> list[Note]:
    """Graph launches behind the last whole cycle that lost ops: they are not counted."""
    notes = []
    for one in attributed:
        calls = one.rank.calls
        graphs = np.flatnonzero(calls.kind == GRAPH_LAUNCH)
        if not len(one.cycles) or not len(one.rank.ops.start):
            continue
        linked = one.rank.ops.call[one.rank.ops.call >= 0]
        sizes = np.bincount(linked, minlength=len(calls.start))[graphs]
        behind = calls.start[graphs] >= one.cycles.host_end[-1]
        counted = sizes[~behind]
        if not len(counted) or not counted.max():
            continue
        tail = sizes[behind][np.argsort(calls.start[graphs[behind]])]
        if len(tail) and int(tail.min()) < int(counted[counted > 0].min()):
            named = ", ".join(map(str, tail[:5])) + (", ..." if len(tail) > 5 else "")
            notes.append(
                Note(
                    "cut_replays",
                    f"Rank {one.number}: the graph launches behind its last whole cycle hold "
                    f"{named} ops: rows are missing there, and nothing of it is counted",
                )
            )
    return notes


def ranks_apart(shares: Sequence[StageShare]) -> list[Note]:
    """Stage totals that differ between ranks by more than they do on a healthy run."""
    notes = []
    for stage in ("draft", "verify", "draft_extend"):
        values = {
            s.rank: s.cycle_share.value
            for s in shares
            if s.rank is not None and s.stage == stage and s.part_of is None
        }
        if len(values) > 1 and max(values.values()) - min(values.values()) > RANKS_APART:
            named = ", ".join(f"rank {r} {percent(v)}" for r, v in values.items())
            notes.append(
                Note("ranks_disagree", f"The share of {stage} differs between ranks: {named}")
            )
    return notes


def disagreement(attributed: Sequence[Attribution]) -> float:
    """Share of the work inside the engine's verify marks that was placed elsewhere."""
    inside = elsewhere = 0
    for one in attributed:
        if one.placed.placement.sources[0] == "engine" or not len(one.rank.ops.start):
            continue
        marks = [
            m
            for m in marked_ranges(one.rank)
            if m.mark.role == "forward" and m.mark.stage == VERIFY
        ]
        if not marks:
            continue
        starts = np.array([m.start for m in marks])
        ends = np.array([m.end for m in marks])
        linked = np.flatnonzero(one.rank.ops.call >= 0)
        at = one.rank.calls.start[one.rank.ops.call[linked]]
        mark = np.searchsorted(starts, at, "right") - 1
        here = linked[(mark >= 0) & (at < ends[np.maximum(mark, 0)])]
        ns = (one.rank.ops.end - one.rank.ops.start)[here]
        inside += int(ns.sum())
        elsewhere += int(ns[one.placed.stage_of_op[here] != VERIFY].sum())
    return elsewhere / inside if inside else 0.0


def disagreement_note(share: float) -> list[Note]:
    """A disagreement above the stated size, in words."""
    if share <= DISAGREE:
        return []
    return [
        Note(
            "evidence_disagrees",
            f"{percent(share)} of the work that the engine marks as the verify forward was placed "
            "in another stage by better evidence",
            "check that the hooks fit this engine version",
        )
    ]


def one_rank(run: Run, attributed: Sequence[Attribution]) -> list[Note]:
    """One rank of several: its collectives hold waiting that nobody can tell apart."""
    world = max((int(r.facts.get("world_size") or 1) for r in run.ranks), default=1)
    if len(run.ranks) == 1 and world > 1 and any(len(a.rank.ops.start) for a in attributed):
        return [
            Note(
                "one_rank",
                f"One rank of {world}: its collectives include waiting for the others",
                "analyze the files of all ranks together",
            )
        ]
    return []


def no_gpu(counts: Sequence[tuple[int, int, int]]) -> list[Note]:
    """Launch calls and not one op: (rank, ops, launches) per rank."""
    notes = []
    for rank, ops, launches in counts:
        if launches and not ops:
            notes.append(
                Note(
                    "no_gpu_events",
                    f"rank {rank}: no GPU events in this trace although {launches} launch calls "
                    "are there",
                    "likely: CUDA activity was not switched on, another profiler was attached, "
                    "CUPTI is missing, or the container may not profile",
                )
            )
    return notes


def log_shortened(run: Run) -> list[Note]:
    """A log of more cycles than are analysed."""
    most = max((left_out(rank) for rank in run.ranks), default=0)
    if not most:
        return []
    return [
        Note(
            "log_shortened",
            f"The cycle log holds {most + MOST_CYCLES:,} cycles; "
            f"the newest {MOST_CYCLES:,} are analysed",
            "the table cycle_log has every row (--parquet)",
        )
    ]


def log_host_times(by_host: Sequence[Attribution]) -> list[Note]:
    """Beside shares by CUDA events: what the host's times of all cycles say."""
    lead = leading([one.cycles for one in by_host])
    if lead is None:
        return []
    found = share_rows(
        list(by_host), [shares_of.counted(one, *lead) for one in by_host], None, True
    )
    rows = [row for row in found if row.rank is None and row.part_of is None]
    if not rows:
        return []
    named = ", ".join(f"{row.stage} {percent(row.cycle_share.value)}" for row in rows)
    return [
        Note(
            "log_host_times",
            f"By the host's times of {rows[0].cycle_share.n:,} cycles: {named}. They say where the "
            "host was; the figures above are the GPU's, by CUDA events of every N-th cycle",
        )
    ]
