"""The Arrow tables of specscope: one set per rank, every column with type and meaning.

Times are integer nanoseconds of the file's own clock; the base of that clock is in
`sources.clock_base_ns` and is added only when files are compared. Names are UTF-8 with
replacement characters where the trace was not; they are hostile text.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 2

NAME = pa.dictionary(pa.int32(), pa.string())
WORD = pa.dictionary(pa.int8(), pa.string())


def _schema(*fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Fields as (name, type, meaning); a name ending in `?` may be null."""
    return pa.schema(
        [
            pa.field(name.rstrip("?"), kind, nullable=name.endswith("?"), metadata={"doc": meaning})
            for name, kind, meaning in fields
        ],
        metadata={"specscope_schema_version": str(SCHEMA_VERSION)},
    )


OPS = _schema(
    ("op_id", pa.int64(), "row number, in file order"),
    ("kind", WORD, "kernel, copy, set, graph"),
    ("name", NAME, "demangled name as the trace has it"),
    ("device", pa.int32(), "device index within the process"),
    ("stream", pa.int64(), "stream number"),
    ("start_ns", pa.int64(), "start on the GPU"),
    ("end_ns", pa.int64(), "end on the GPU"),
    ("correlation?", pa.int64(), "id shared with the launch call of the same process"),
    ("call_id?", pa.int64(), "launch call, filled by analyzers.links"),
    ("graph_node?", pa.int64(), "CUDA graph node id where recorded"),
    ("bytes?", pa.int64(), "bytes moved or set"),
)

CALLS = _schema(
    ("call_id", pa.int64(), "row number, in file order"),
    ("kind", WORD, "launch, graph_launch, sync, copy, set, alloc, other"),
    ("name", NAME, "API name"),
    ("pid", pa.int64(), "process; negative: see tracks"),
    ("tid", pa.int64(), "thread; negative: see tracks"),
    ("start_ns", pa.int64(), "start on the host"),
    ("end_ns", pa.int64(), "end on the host"),
    ("correlation?", pa.int64(), "id shared with the ops it launched"),
)

RANGES = _schema(
    ("range_id", pa.int64(), "row number, in file order"),
    ("kind", WORD, "annotation, nvtx, operator, frame, module"),
    ("name", NAME, "text of the range"),
    ("domain?", NAME, "NVTX domain; null: the default one, or no NVTX"),
    ("pid", pa.int64(), "process; negative: see tracks"),
    ("tid", pa.int64(), "thread; negative: see tracks"),
    ("start_ns", pa.int64(), "start on the host"),
    ("end_ns", pa.int64(), "end on the host"),
)

RANGE_ARGS = _schema(
    ("range_id", pa.int64(), "the range, see ranges"),
    ("form", WORD, "push_pop, start_end, open (no end on record: it ends with the recording)"),
    ("end_pid?", pa.int64(), "process that ended it, where it is another"),
    ("end_tid?", pa.int64(), "thread that ended it, where it is another"),
    ("category?", pa.int64(), "NVTX category"),
    ("payload_int?", pa.int64(), "payload, where it is an integer"),
    ("payload_float?", pa.float64(), "payload, where it is a floating-point number"),
    ("payload_text?", pa.string(), "payload, where it is JSON"),
)

MARKS = _schema(
    ("mark_id", pa.int64(), "row number, in file order"),
    ("name", NAME, "text of the mark"),
    ("domain?", NAME, "NVTX domain; null: the default one"),
    ("pid", pa.int64(), "process"),
    ("tid", pa.int64(), "thread"),
    ("time_ns", pa.int64(), "time on the host"),
)

COLLECTIVES = _schema(
    ("op_id?", pa.int64(), "the op, when the metadata stood on a GPU op"),
    ("range_id?", pa.int64(), "the operator range, when it stood on the host"),
    ("name", pa.string(), "collective, as recorded"),
    ("group?", pa.string(), "process group name"),
    ("ranks?", pa.string(), "ranks of the group, as recorded"),
    ("sequence?", pa.int64(), "sequence number in the group"),
    ("elements_in?", pa.int64(), "elements in"),
    ("elements_out?", pa.int64(), "elements out"),
    ("dtype?", pa.string(), "element type"),
    ("bytes?", pa.int64(), "bytes in, where the element size is known"),
)

TRACKS = _schema(
    ("pid", pa.int64(), "process; below 0: stands for a text in the file"),
    ("tid?", pa.int64(), "thread; null: the row names the process"),
    ("label", pa.string(), "name or text of the track"),
    ("field", WORD, "process_name, thread_name, process_labels, pid_text, tid_text"),
)

LOSSES = _schema(
    ("source", pa.string(), "file name"),
    ("offset?", pa.int64(), "byte offset in the unpacked text, or null"),
    ("length?", pa.int64(), "bytes, or null"),
    ("count", pa.int64(), "events or records concerned"),
    ("reason", pa.string(), "short code, documented in docs/losses.md"),
    ("action", pa.string(), "what was done, in words"),
)

SOURCES = _schema(
    ("path", pa.string(), "as given"),
    ("format", pa.string(), "kineto-json, kineto-json.gz, ..."),
    ("producer?", pa.string(), "what wrote it, as far as the file shows"),
    ("bytes", pa.int64(), "size on disk"),
    ("text_bytes", pa.int64(), "size unpacked"),
    ("fingerprint", pa.string(), "sha256 of size, head, tail and sampled blocks"),
    ("rank?", pa.int32(), "rank recorded in the file, or null"),
    ("world_size?", pa.int32(), "world size recorded in the file, or null"),
    ("groups?", pa.string(), "process groups, JSON"),
    ("devices?", pa.string(), "device names, JSON"),
    ("clock_base_ns?", pa.int64(), "base of the file's clock since 1970, or null"),
    ("resolution_ns", pa.int64(), "1 or 1000"),
    ("events", pa.int64(), "event objects in the file"),
    ("dropped", pa.string(), "events left out by design, JSON {category: count}"),
)

TABLES = {
    "ops": OPS,
    "calls": CALLS,
    "ranges": RANGES,
    "range_args": RANGE_ARGS,
    "marks": MARKS,
    "collectives": COLLECTIVES,
    "tracks": TRACKS,
    "losses": LOSSES,
    "sources": SOURCES,
}


# Tables that the analysis makes, over all ranks of a run.

STAGES = _schema(
    ("rank", pa.int32(), "rank"),
    ("cycle?", pa.int64(), "cycle that the span lies in, null outside whole cycles"),
    ("stage", WORD, "draft, verify, accept, draft_extend, schedule, decode, prefill"),
    ("draft_step?", pa.int64(), "index of the draft step, where the range says it"),
    ("host_start_ns", pa.int64(), "start of the span on the launching thread"),
    ("host_end_ns", pa.int64(), "end of the span on the launching thread"),
    ("gpu_start_ns?", pa.int64(), "start of its first op"),
    ("gpu_end_ns?", pa.int64(), "end of its last op"),
    ("evidence", pa.string(), "specscope, engine, frames, structure"),
    ("confidence", pa.string(), "sure, or uncertain: only the order of launches says so"),
)

CYCLES = _schema(
    ("rank", pa.int32(), "rank"),
    ("cycle", pa.int64(), "number of the cycle on its rank, from 0"),
    ("number?", pa.int64(), "number that specscope's ranges give it"),
    ("kind", WORD, "speculation, decode, prefill, mixed, empty"),
    ("start_ns", pa.int64(), "start of the first op of the opening stage"),
    ("end_ns", pa.int64(), "start of the next cycle"),
    ("host_start_ns", pa.int64(), "where the host opens it"),
    ("host_end_ns", pa.int64(), "where the host opens the next"),
    ("batch?", pa.int64(), "sequences"),
    ("tokens?", pa.int64(), "tokens that the target reads"),
    ("k?", pa.int64(), "draft tokens per sequence"),
    ("accept_length?", pa.float64(), "tokens out per sequence, the bonus token included"),
    ("whole", pa.bool_(), "true: only whole cycles are rows"),
    ("mark", WORD, "warmup, outlier, or empty"),
)

SEGMENTS = _schema(
    ("rank", pa.int32(), "rank"),
    ("cycle", pa.int64(), "cycle"),
    ("start_ns", pa.int64(), "start"),
    ("end_ns", pa.int64(), "end"),
    ("stage", WORD, "owner"),
    ("state", WORD, "work, idle"),
    ("what", WORD, "activity of work, cause of idle"),
    ("op_id?", pa.int64(), "op that runs, or that ends the idle"),
    ("carried", pa.bool_(), "the op began in an earlier cycle"),
)

PARTS = _schema(
    ("rank", pa.int32(), "rank"),
    ("cycle", pa.int64(), "cycle"),
    ("stage", WORD, "owner"),
    ("state", WORD, "work, idle"),
    ("what", WORD, "activity of work, cause of idle"),
    ("ns", pa.int64(), "sum of the segments; over a cycle these sum to its length"),
)

# The cycle log of the hooks, in place of ops, calls and ranges (docs/cycle_log.md).

CYCLE_LOG = _schema(
    ("rank", pa.int32(), "rank"),
    ("row", WORD, "stage, cycle, accept (its lengths, late), lost (what is not here)"),
    ("stage?", WORD, "draft, verify, accept, draft_extend, schedule, decode, prefill"),
    ("cycle?", pa.int64(), "number of the cycle"),
    ("draft_step?", pa.int64(), "index of the draft step"),
    ("start_ns", pa.int64(), "start on the host"),
    ("end_ns", pa.int64(), "end on the host"),
    ("gpu_start_ns?", pa.int64(), "by CUDA events, since the first event of the cycle"),
    ("gpu_end_ns?", pa.int64(), "of a cycle: the first event of the next one"),
    ("batch?", pa.int64(), "sequences"),
    ("tokens?", pa.int64(), "tokens that the target reads"),
    ("k?", pa.int64(), "draft tokens per sequence"),
    ("thread", pa.int64(), "native id of the host thread"),
    ("accept_lengths?", pa.list_(pa.int32()), "one a sequence, the bonus token included"),
    ("accept_length?", pa.float64(), "their mean"),
    ("lost_rows?", pa.int64(), "in a lost row: rows lost so far for that reason"),
    ("reason?", WORD, "queue_full, rotated_away, write_failed"),
)

# The inside of graphs, where graph-capture traces were given (docs/graphs.md).

CAPTURED_GRAPHS = _schema(
    ("graph", pa.int64(), "number of the captured graph, from 0"),
    ("source", pa.string(), "capture trace it was read from"),
    ("rank?", pa.int32(), "rank recorded in that file, or null"),
    ("shape?", pa.string(), "mark around the capture, such as capture_32_FULL"),
    ("nodes", pa.int64(), "calls that become work on the GPU"),
    ("named_nodes", pa.int64(), "of them with the kernel's name on record"),
    ("layers", pa.int64(), "distinct layers"),
    ("layers_by", WORD, "module, attention, or empty: nothing tells them"),
    ("launches", pa.int64(), "replays that were mapped to it, over all ranks"),
)

GRAPH_NODES = _schema(
    ("rank", pa.int32(), "rank"),
    ("op_id", pa.int64(), "op, see ops"),
    ("call_id", pa.int64(), "graph launch, see calls"),
    ("graph", pa.int64(), "captured graph, see captured_graphs"),
    ("position", pa.int64(), "place of the node in the graph, from 0"),
    ("forward", pa.int64(), "how often its layer, or outermost module, ran before in the graph"),
    ("layer?", pa.int64(), "layer of the model, from 0; null outside layers"),
    ("part", NAME, "module class inside the layer; an operator where modules do not say"),
    ("module", NAME, "modules around the call, outermost first; empty: none"),
    ("operator", NAME, "what the innermost module called; empty: none on record"),
    ("inner_operator", NAME, "operator that made the launch call; empty: none on record"),
)

# All ranks on one clock, where the collectives of several matched (docs/ranks.md). Their times are
# on the first rank's clock.

RANK_CLOCKS = _schema(
    ("rank", pa.int32(), "rank"),
    ("group?", NAME, "process group, where there are several; else null"),
    ("offset_ns", pa.float64(), "its clock less the first rank's, base times taken in"),
    ("drift_ppm", pa.float64(), "change of that; 0 where none is beyond doubt"),
    ("residual_ns", pa.float64(), "median of what offset and drift leave"),
    ("spread_ns", pa.float64(), "95 % of the residuals are smaller"),
)

MATCHED_COLLECTIVES = _schema(
    ("rank", pa.int32(), "rank"),
    ("collective", pa.int64(), "number of the collective, the same on all ranks, from 0"),
    ("op_id", pa.int64(), "op, see ops"),
    ("cycle?", pa.int64(), "cycle of the rank, null outside whole cycles"),
    ("stage", WORD, "stage it belongs to"),
    ("kind", NAME, "family of the kernel, such as nccl.allreduce"),
    ("fused", pa.bool_(), "fused with norm: transfer_ns holds the norm too"),
    ("name?", NAME, "what torch.distributed calls it, such as send; null: not recorded"),
    ("group?", NAME, "process group, where there are several or it is recorded"),
    ("sequence?", pa.int64(), "sequence number in the group, where recorded"),
    ("bytes?", pa.int64(), "bytes in on one rank; null: unknown"),
    ("bytes_source", WORD, "recorded, model_config (tokens x hidden size), unknown"),
    ("algbw?", pa.float64(), "GB/s (10^9 bytes a second): size by nccl-tests over transfer_ns"),
    ("busbw?", pa.float64(), "GB/s: algbw times the factor of the kind and the number of ranks"),
    ("arrival_ns", pa.int64(), "not before its start, nor before the end of the op before it"),
    ("end_ns", pa.int64(), "end of the kernel"),
    ("wait_ns", pa.int64(), "arrival of the last rank less its own"),
    ("transfer_ns", pa.int64(), "its end less the arrival of the last rank"),
    ("late_rank?", pa.int32(), "rank that arrived last, null: all together, as far as clocks say"),
    ("late_ns?", pa.int64(), "its arrival less the median of the others"),
    ("cause?", WORD, "previous, compute, copy, host, device, unknown: what made it late"),
    ("cause_ns?", pa.int64(), "how much longer that took than on the others"),
    ("call_id?", pa.int64(), "its launch call, see calls"),
    ("before_op_id?", pa.int64(), "op that started before it on its stream, see ops"),
)

RANK_STAGES = _schema(
    ("rank?", pa.int32(), "rank; null: the median over the ranks"),
    ("group?", NAME, "process group, where there are several; else null"),
    ("stage", WORD, "stage; verify holds accept"),
    ("calls", pa.float64(), "collectives a cycle"),
    ("wait_ns", pa.float64(), "wait a cycle, median over the counted cycles"),
    ("transfer_ns", pa.float64(), "transfer a cycle"),
    ("wait_share", pa.float64(), "of the cycle"),
    ("transfer_share", pa.float64(), "of the cycle"),
    ("late_share?", pa.float64(), "of the collectives, those in which it arrived last"),
    ("late_ns?", pa.float64(), "lateness a cycle: its arrivals less the others' median, summed"),
    ("lateness_share?", pa.float64(), "of the lateness of all ranks"),
    ("cause?", WORD, "of most of its lateness"),
    ("cause_share?", pa.float64(), "of its lateness that this explains"),
    ("end_skew_ns?", pa.float64(), "median of its end less the mean of all ranks' ends"),
    ("wait_low_ns", pa.float64(), "95 % interval of wait_ns over the counted cycles"),
    ("wait_high_ns", pa.float64(), "its other end"),
    ("transfer_low_ns", pa.float64(), "95 % interval of transfer_ns"),
    ("transfer_high_ns", pa.float64(), "its other end"),
    ("wait_share_low", pa.float64(), "95 % interval of wait_share"),
    ("wait_share_high", pa.float64(), "its other end"),
    ("transfer_share_low", pa.float64(), "95 % interval of transfer_share"),
    ("transfer_share_high", pa.float64(), "its other end"),
)

CRITICAL_PATH = _schema(
    ("cycle", pa.int64(), "cycle, by the first rank's numbers"),
    ("rank", pa.int32(), "rank that the path runs on"),
    ("start_ns", pa.int64(), "start"),
    ("end_ns", pa.int64(), "end: pieces of a cycle lie side by side"),
    ("stage", WORD, "owner"),
    ("state", WORD, "work, idle"),
    ("what", WORD, "activity of work, transfer, cause of idle"),
)

DERIVED = {"stages": STAGES, "cycles": CYCLES, "segments": SEGMENTS, "parts": PARTS}

# There only when capture traces were given.
GRAPHS = {"captured_graphs": CAPTURED_GRAPHS, "graph_nodes": GRAPH_NODES}

# There only when the collectives of several ranks matched.
GROUP = {
    "rank_clocks": RANK_CLOCKS,
    "rank_stages": RANK_STAGES,
    "matched_collectives": MATCHED_COLLECTIVES,
    "critical_path": CRITICAL_PATH,
}


# What a report adds to the tables that are read: rank to all of them, the others to `ops`.
RANK = _schema(("rank", pa.int32(), "rank"))
PLACED = _schema(
    ("stage?", WORD, "stage it belongs to"),
    ("activity?", WORD, "what it does: attention, gemm, collective, ..."),
)


def documented() -> dict[str, pa.Schema]:
    """Every table that a report may have, with the columns it has there."""
    found = {}
    for name, table in {**TABLES, **DERIVED, "cycle_log": CYCLE_LOG, **GRAPHS, **GROUP}.items():
        fields = list(table)
        if name in TABLES and "rank" not in table.names:
            fields = [*RANK, *fields]
        if name == "ops":
            fields = [*fields, *PLACED]
        found[name] = pa.schema(fields, metadata=table.metadata)
    return found


def empty(name: str) -> pa.Table:
    """An empty table of that schema."""
    return (TABLES.get(name) or DERIVED[name]).empty_table()
