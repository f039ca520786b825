"""Why a verdict is withheld, in words, the cause before its consequences (design 5.8)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers import marks
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.coverage import Coverage
from specscope.analyzers.cycles import leading
from specscope.analyzers.links import LAUNCHING
from specscope.analyzers.process_groups import ranges
from specscope.analyzers.rank import Rank
from specscope.analyzers.words import percent
from specscope.traces.kineto_names import CAPTURE_BEGIN, call_kind
from specscope.traces.nsys_names import NODE_SWITCH
from specscope.traces.run import Run

MIN_CYCLES = 3
MIN_PLACED = 0.9
ONE_REPLICA = "the ranks ran different batches; give the ranks of one replica"
# Notes of the assembly that say that the files given are not of one capture.
_NOT_ONE_CAPTURE = ("times_apart", "world_size_differs")


def reasons(
    run: Run,
    prepared: Sequence[Rank],
    attributed: Sequence[Attribution],
    coverage: Sequence[Coverage],
    kind: str | None,
    on_host: bool,
) -> list[str]:
    """Why the verdict is withheld; empty when it is not. `kind` is that of the leading cycles."""
    apart = [note.text for note in run.notes if note.code in _NOT_ONE_CAPTURE]
    why = apart + _why(run, prepared, attributed, coverage, kind, on_host)
    # A file that ends early may hold enough whole cycles all the same.
    if not why:
        return []
    return _ended_early(run) + why


def gpu_counts(prepared: Sequence[Rank]) -> list[tuple[int, int, int]]:
    """(rank, ops, launch calls) of each rank."""
    return [
        (one.tables.rank, len(one.ops.start), int(np.isin(one.calls.kind, LAUNCHING).sum()))
        for one in prepared
    ]


def _ended_early(run: Run) -> list[str]:
    cut = [str(one.rank) for one in run.ranks if one.facts.get("truncated")]
    return [f"the file of rank {', '.join(cut)} ends early"] if cut else []


def _why(
    run: Run,
    prepared: Sequence[Rank],
    attributed: Sequence[Attribution],
    coverage: Sequence[Coverage],
    kind: str | None,
    on_host: bool,
) -> list[str]:
    for rank, ops, launches in gpu_counts(prepared):
        who = f"rank {rank}: " if len(prepared) > 1 else ""
        if launches and not ops:
            return [f"{who}no GPU events in this trace although {launches} launch calls are there"]
    for one in prepared:
        who = f"rank {one.tables.rank}: " if len(prepared) > 1 else ""
        ops, linked = len(one.ops.start), int((one.ops.call >= 0).sum())
        if ops and not linked:
            calls = (
                "no launch call is on record"
                if not len(one.calls.start)
                else ("their correlation fits no launch call on record")
            )
            return [
                f"{who}none of {ops} GPU ops can be linked to its launch: {calls}; "
                "record CPU and CUDA activity together"
            ]
    if not attributed:
        return [_no_stages(run)]
    if len(attributed) < len(prepared):
        seen = {one.number for one in attributed}
        lost = ", ".join(str(one.tables.rank) for one in prepared if one.tables.rank not in seen)
        return [f"no stages found on rank {lost}: nothing in its trace names or shows them"]
    if kind != "speculation":
        return [_too_few(0)]
    return _by_coverage(run, attributed, coverage, kind, on_host)


def _no_stages(run: Run) -> str:
    """No evidence of any stage: say which range names there are."""
    names: dict[str, None] = {}
    for one in run.ranks:
        kinds = one.ranges["kind"].cast(pa.string())
        table = one.ranges.filter(pc.is_in(kinds, pa.array(["annotation", "nvtx"])))
        for name in table["name"].unique().to_pylist()[:20]:
            names[str(name)[:60]] = None
    if any(one.cycle_log is not None for one in run.ranks):
        return "no draft, verify or decode stage in the cycle log: the hooks named none"
    if not any(one.ops.num_rows or one.calls.num_rows or one.ranges.num_rows for one in run.ranks):
        return "no work recorded in this trace"
    captures = [name for name in names if (mark := marks.read(name)) and mark.role == "capture"]
    if captures or _only_captures(run):
        named = f" ({captures[0]})" if captures else ""
        return (
            f"a trace of graph capture{named}, not of serving: no cycle runs in it; give it with "
            "--capture-trace beside a trace of serving"
        )
    bare = [one.facts["nsys"] for one in run.ranks if "nsys" in one.facts]
    if bare and not any(known["has_ranges"] for known in bare):
        missing = "is empty" if bare[0]["has_nvtx_table"] else "missing"
        return (
            f"no ranges in this capture (NVTX_EVENTS {missing}): no stages, no cycles"
            f"{_kernel_totals(run)}"
        )
    seen = ", ".join(list(names)[:8]) or "none"
    return f"no stages found: nothing in the trace names or shows them (annotations: {seen})"


def _kernel_totals(run: Run) -> str:
    """What can be said of the kernels all the same."""
    kernels = [one.ops.filter(pc.equal(one.ops["kind"].cast(pa.string()), "kernel"))
               for one in run.ranks]  # fmt: skip
    count = sum(table.num_rows for table in kernels)
    if not count:
        return ""
    ns = sum(pc.sum(pc.subtract(t["end_ns"], t["start_ns"])).as_py() or 0 for t in kernels)
    return f"; {count:,} kernels, {ns:,} ns in all"


def _only_captures(run: Run) -> bool:
    """Are graphs captured and none launched?"""
    names = {str(name) for one in run.ranks for name in one.calls["name"].unique().to_pylist()}
    launched = any(call_kind(name) == "graph_launch" for name in names)
    return not launched and any(re.match(CAPTURE_BEGIN, name) for name in names)


def _node_switch(run: Run) -> str:
    """The switch of Nsight Systems that records them."""
    return f"; record with {NODE_SWITCH}" if any("nsys" in one.facts for one in run.ranks) else ""


def graph_switch(run: Run) -> str:
    """How a capture holds the kernels of graphs."""
    if any("nsys" in one.facts for one in run.ranks):
        return f"record with {NODE_SWITCH}"
    return f"specscope record records them node by node (nsys profile {NODE_SWITCH})"


def _too_few(cycles: int) -> str:
    """The reason that there are not enough cycles."""
    return f"{cycles} whole speculation cycle{'' if cycles == 1 else 's'}, {MIN_CYCLES} are needed"


def batches_apart(attributed: Sequence[Attribution], kind: str | None) -> str:
    """Which ranks ran at which batch, where one has no cycle at the leading batch; empty else."""
    lead = leading([one.cycles for one in attributed])
    if lead is None or all(one.cycles.of(*lead).any() for one in attributed):
        return ""
    by_batch: dict[str, list[int]] = {}
    for one in attributed:
        own = leading([one.cycles])
        if own is None or own[0] != kind:
            return ""
        by_batch.setdefault("no known batch" if own[1] is None else f"batch {own[1]}", []).append(
            one.number
        )
    if len(by_batch) < 2:
        return ""
    return ", ".join(
        f"rank{'s' if len(numbers) > 1 else ''} {ranges(numbers)} at {batch}"
        for batch, numbers in by_batch.items()
    )


def _by_coverage(
    run: Run,
    attributed: Sequence[Attribution],
    coverage: Sequence[Coverage],
    kind: str | None,
    on_host: bool,
) -> list[str]:
    """Too few cycles, rows that are missing, too little that rests on evidence."""
    found: list[str] = []
    cycles = min((c.cycles for c in coverage), default=0)
    if cycles < MIN_CYCLES:
        apart = batches_apart(attributed, kind)
        found.append(f"{apart}: {ONE_REPLICA}" if apart else _too_few(cycles))
    if on_host:
        return found
    for c in coverage:
        who = f"rank {c.rank}: " if len(coverage) > 1 else ""
        if c.ambiguous_ops:
            found.append(
                f"{who}ranks cannot be told apart: {c.ambiguous_ops} ops have a correlation that "
                "two processes of this file use"
            )
        if len(c.devices) > 1:
            named = ", ".join(map(str, c.devices))
            found.append(
                f"{who}ranks cannot be told apart: devices {named} ran kernels in one file "
                "without labels"
            )
        if c.kernels_missing:
            found.append(f"{who}{c.launches:,} launches and not one kernel on record")
        if c.graphs_without_op:
            found.append(
                f"{who}{c.graph_launches} graph launches and no op of theirs: "
                f"the inside of graphs was not recorded{_node_switch(run)}"
            )
        elif c.launches_without_op_counted:
            found.append(
                f"{who}{c.launches_without_op_counted} launches inside the counted cycles "
                "have no GPU row"
            )
        if c.short_replays is not None:
            short = c.short_replays
            found.append(
                f"{who}{short.launches} of {short.of} graph replays in the counted cycles hold "
                f"fewer ops than others of the same graph (down to {short.ops} of {short.whole}): "
                "GPU rows are missing"
            )
        if c.placed_share is not None and c.placed_share < MIN_PLACED:
            found.append(
                f"{who}the stage of {percent(c.placed_share)} of GPU busy time rests on evidence, "
                f"{percent(MIN_PLACED, 0)} are needed"
            )
        elif c.placed_cycle_share is not None and c.placed_cycle_share < MIN_PLACED:
            found.append(
                f"{who}the stage of {percent(c.placed_cycle_share)} of the cycle rests on evidence "
                f"(idle counted where it ends at a placed op), {percent(MIN_PLACED, 0)} are needed"
            )
    return found
