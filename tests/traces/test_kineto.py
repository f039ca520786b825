"""Kineto documents into tables: every age and layout, faults, ranks, facts, secrets."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from specscope.traces import schema
from specscope.traces.kineto_names import CATEGORIES, FRAME_NEEDLES, call_kind
from specscope.traces.run import RankTables
from tests.build import GEMM, Timeline
from tests.shared import shared_path
from tests.traces.kineto_documents import (
    ALL_FRAMES,
    columns,
    document,
    event,
    gpu,
    launch,
    one,
    read,
    reasons,
)
from tests.traces.small import timeline

# --- categories and names -------------------------------------------------------------------


def test_every_spelling_of_a_category_gives_the_same_tables() -> None:
    new = {what: cat for cat, what in reversed(CATEGORIES.items())}
    for cat, what in CATEGORIES.items():
        (old_tables, new_tables) = (one(event(spelling)) for spelling in (cat, new[what]))
        for table in ("ops", "calls", "ranges"):
            assert getattr(old_tables, table).equals(getattr(new_tables, table)), cat


@pytest.mark.parametrize(
    "cat", ["gpu_user_annotation", "cuda_sync", "overhead", "Trace", "cuda_profiler_range", "new"]
)
def test_what_is_no_work_is_counted_and_in_no_table(cat: str) -> None:
    tables = one(event(cat))
    assert (tables.ops.num_rows, tables.calls.num_rows, tables.ranges.num_rows) == (0, 0, 0)
    assert json.loads(tables.sources["dropped"][0].as_py()) == {cat: 1}


@pytest.mark.parametrize("cat", ["cpu_instant_event", "user_annotation", "cpu_op"])
def test_memory_events_are_points_also_when_they_are_written_as_spans(cat: str) -> None:
    assert one(event(cat, "[memory]")).ranges.num_rows == 0


KINDS = {
    "launch": """cudaLaunchKernel cudaLaunchKernel_ptsz cudaLaunchKernelExC cuLaunchKernel
        cuLaunchKernelEx cuLaunchKernel_ptsz cudaLaunchCooperativeKernel cuLaunchCooperativeKernel
        cudaLaunchKernel_v7000 cudaLaunch cuLaunch cuLaunchGridAsync hipLaunchKernel
        hipExtLaunchKernel hipModuleLaunchKernel hipExtModuleLaunchKernel hipHccModuleLaunchKernel
        hipLaunchCooperativeKernel hipLaunchByPtr hipLaunchKernelExC hipDrvLaunchKernelEx
        hipModuleLaunchCooperativeKernel hipLaunchKernel_spt""",
    "graph_launch": """cudaGraphLaunch cudaGraphLaunch_ptsz cudaGraphLaunch_v10000 cuGraphLaunch
        cuGraphLaunch_ptsz hipGraphLaunch hipGraphLaunch_spt""",
    "sync": """cudaStreamSynchronize cudaStreamSynchronize_ptsz cudaStreamSynchronize_v3020
        cudaDeviceSynchronize cudaEventSynchronize cudaThreadSynchronize cuStreamSynchronize
        cuStreamSynchronize_ptsz cuCtxSynchronize cuCtxSynchronize_v2 cuEventSynchronize
        hipStreamSynchronize hipStreamSynchronize_spt hipDeviceSynchronize hipEventSynchronize
        hipCtxSynchronize""",
    "copy": """cudaMemcpy cudaMemcpyAsync cudaMemcpyAsync_ptsz cuMemcpyHtoDAsync_v2
        cudaMemcpy2DAsync cudaMemcpyPeerAsync hipMemcpyWithStream hipMemcpyAsync cuMemcpyDtoH_v2""",
    "set": "cudaMemset cudaMemsetAsync cuMemsetD32Async hipMemsetAsync cuMemsetD8_v2",
    "alloc": """cudaMalloc cudaMallocAsync cudaFree cudaFreeHost cudaHostAlloc cudaMallocHost
        cuMemAlloc_v2 cuMemFree_v2 cuMemCreate hipMalloc hipExtMallocWithFlags hipHostMalloc
        hipFree cudaHostRegister""",
    "other": """cudaGetDevice cudaEventRecord cudaStreamWaitEvent cudaGraphInstantiate
        cudaGraphAddMemcpyNode cudaGraphAddKernelNode cudaGraphKernelNodeSetParams
        cudaLaunchHostFunc cuLaunchHostFunc hipLaunchHostFunc cudaStreamIsCapturing
        cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaStreamSynchronizeX hipStreamWaitEvent
        cudaEventQuery cuKernelGetFunction hipGetDevicePropertiesR0600 cudaGraphUpload x""",
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in KINDS.items() for name in names.split()]
)
def test_kind_of_a_call_by_its_name(name: str, kind: str) -> None:
    assert call_kind(name) == kind


def test_modules_are_told_apart_from_frames() -> None:
    frames = [event("python_function", name) for name in ("nn.Module: Linear_0", "a.py(1): f")]
    assert columns(one(*frames, options=ALL_FRAMES), "ranges", "kind", "name") == [
        ("module", "nn.Module: Linear_0"),
        ("frame", "a.py(1): f"),
    ]


def test_frames_that_can_be_stages_are_kept_and_the_rest_is_counted() -> None:
    needed = "/opt/sglang/python/sglang/srt/speculative/eagle_worker.py(339): draft"
    tables = one(event("python_function", needed), event("python_function", "a.py(1): f"))
    assert tables.ranges["name"].to_pylist() == [needed]
    assert tables.facts["has_frames"]
    assert tables.facts["frames_share"] == 1.0
    assert tables.facts["scan_dropped"] == {"python_function": 1}


def test_every_frame_that_a_stage_rule_names_is_kept() -> None:
    page = Path(__file__).parents[2] / "analyzers" / "rules" / "frames.toml"
    examples = re.findall(r'^example = "(.*)"$', page.read_text(), re.MULTILINE)
    assert examples
    for example in examples:
        assert any(needle in example.encode() for needle in FRAME_NEEDLES), example


# --- tracks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tid", "args", "stream"),
    [
        (9, {"stream": 7}, 7),
        (9, {}, 9),
        ("stream 7", {}, 7),
        ("stream 7 ", {"stream": "0x5"}, 5),
        ("[TP00] 9", {}, 9),
        ("odd", {}, 0),
    ],
)
def test_stream_of_an_op_comes_from_its_arguments_else_from_its_track(
    tid: Any, args: dict[str, Any], stream: int
) -> None:
    assert one(event("kernel", tid=tid, args=args)).ops["stream"].to_pylist() == [stream]


def test_of_two_streams_in_one_event_the_track_decides() -> None:
    text = document(gpu(1.5, 1.0, 5)).replace(b'"stream": 7', b'"stream": 99, "stream": 98')
    (tables,) = read(text)
    assert tables.ops["stream"].to_pylist() == [7]


@pytest.mark.parametrize(
    ("pid", "args", "device"), [(3, {"device": 9}, 9), (3, {}, 3), ("GPU 3", {}, 0), (-1, {}, 0)]
)
def test_device_of_an_op_comes_from_its_arguments_else_from_its_track(
    pid: Any, args: dict[str, Any], device: int
) -> None:
    assert one(event("kernel", pid=pid, args=args)).ops["device"].to_pylist() == [device]


def test_numbers_written_as_texts_are_the_same_thread() -> None:
    tables = one(event("cpu_op", tid=4001), event("cpu_op", tid="4001", pid="1"))
    assert columns(tables, "ranges", "pid", "tid") == [(1, 4001), (1, 4001)]


def test_other_texts_are_tracks_with_their_label() -> None:
    tables = one(event("cpu_op", tid="main thread"), event("cpu_op", pid="worker"))
    (text_tid,) = [row for row in tables.tracks.to_pylist() if row["field"] == "tid_text"]
    (text_pid,) = [row for row in tables.tracks.to_pylist() if row["field"] == "pid_text"]
    assert (text_tid["pid"], text_tid["label"]) == (1, "main thread")
    assert text_pid["label"] == "worker"
    assert tables.ranges["tid"].to_pylist()[0] == text_tid["tid"] < 0
    assert tables.ranges["pid"].to_pylist()[1] == text_pid["pid"] < 0


def test_names_of_processes_and_threads_come_from_metadata_events() -> None:
    def meta(kind: str, tid: int, **args: str) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": 5, "tid": tid, "args": args}

    tables = one(
        meta("process_name", 0, name="sglang::scheduler_TP0"),
        meta("process_labels", 0, labels="CPU"),
        meta("thread_name", 7, name="thread 7 (main)"),
        meta("process_sort_index", 0, sort_index="5"),
        event("cpu_op"),
    )
    assert columns(tables, "tracks", "pid", "tid", "label", "field") == [
        (5, None, "sglang::scheduler_TP0", "process_name"),
        (5, None, "CPU", "process_labels"),
        (5, 7, "thread 7 (main)", "thread_name"),
    ]
    assert tables.facts["producer"] == "sglang"


# --- times ----------------------------------------------------------------------------------


def test_times_are_exact_in_epoch_microseconds() -> None:
    text = document(event("cpu_op")).replace(b"10.5", b"1712195495541300.987")
    (tables,) = read(text.replace(b'"dur": 1.0', b'"dur": 1.000'))
    assert tables.ranges["start_ns"].to_pylist() == [1712195495541300987]
    assert tables.facts["absolute_times"]
    assert tables.facts["clock_base_ns"] == 0, "times since 1970 need no base"
    assert tables.facts["resolution_ns"] == 1


def test_a_base_beside_absolute_times_is_not_added_again() -> None:
    text = document(event("cpu_op"), baseTimeNanoseconds=1743521598 * 10**9)
    (tables,) = read(text.replace(b"10.5", b"1712195495541300.987"))
    assert tables.facts["clock_base_ns"] == 0
    assert tables.facts["clock_base_ignored"]


@pytest.mark.parametrize("last", [False, True])
def test_the_base_is_kept_apart_wherever_it_stands(last: bool) -> None:
    body = document(event("cpu_op"))[1:-1]
    base = b'"baseTimeNanoseconds": 1743521598000000000'
    text = b"{" + (body + b", " + base if last else base + b", " + body) + b"}"
    (tables,) = read(text)
    assert tables.facts["clock_base_ns"] == 1743521598 * 10**9
    assert tables.ranges["start_ns"].to_pylist() == [10_500]


def test_whole_microseconds_without_a_base_are_the_old_clock() -> None:
    assert one(event("cpu_op", ts=10, dur=1)).facts["resolution_ns"] == 1000
    assert one(event("cpu_op", ts=10, dur=1.5)).facts["resolution_ns"] == 1
    assert one(event("cpu_op", ts=10, dur=1), baseTimeNanoseconds=5).facts["resolution_ns"] == 1


@pytest.mark.parametrize(
    ("ts", "lost"),
    [(b"1428625731622.25", 0), (b"1712195495541300.2", 1), (b"1712195495541300", 0)],
)
def test_times_printed_again_from_floats_are_lost_only_beyond_what_floats_hold(
    ts: bytes, lost: int
) -> None:
    (tables,) = read(document(event("cpu_op")).replace(b"10.5", ts))
    assert tables.facts["precision_lost_events"] == lost


def test_the_end_of_the_window_is_known_unless_the_file_ends_early() -> None:
    mark = {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 99.25, "s": "g"}
    text = document(event("cpu_op"), mark)
    assert read(text)[0].facts["window_end_ns"] == 99_250
    cut = read(text[:-2])[0].facts
    assert (cut["truncated"], cut["window_end_ns"]) == (True, None)


# --- faults ---------------------------------------------------------------------------------


def test_impossible_gpu_times_are_left_out_with_their_offsets() -> None:
    path = shared_path("cases", "b08_bad_gpu_times.json")
    (tables,) = read(path)
    assert reasons(tables) == {"gpu_time_invalid": 3}
    text = path.read_bytes()
    for row in tables.losses.to_pylist():
        assert text[row["offset"] :].startswith(b'{"ph": "X", "cat": "kernel"')
    assert tables.ops.num_rows == 5


def test_an_op_a_little_before_its_call_is_kept_and_far_before_is_not() -> None:
    ops = [gpu(2000.5, 1.0, 1), gpu(1000.5, 1.0, 2)]
    tables = one(*ops, launch(2500.5, 1), launch(2001.0, 2))
    assert tables.ops["correlation"].to_pylist() == [1]
    assert reasons(tables) == {"gpu_time_invalid": 1}


def test_a_correlation_used_twice_does_not_condemn_the_earlier_op() -> None:
    tables = one(gpu(10.5, 1.0, 1), launch(9.0, 1), gpu(9010.5, 1.0, 1), launch(9009.0, 1))
    assert tables.ops.num_rows == 2


def test_an_op_without_any_launch_call_is_kept() -> None:
    assert one(gpu(0.5, 0.0, 1)).ops.num_rows == 1


def test_odd_durations_are_mended_and_counted() -> None:
    (tables,) = read(shared_path("cases", "b09_odd_durations.json"))
    assert reasons(tables) == {
        "negative_duration": 1,
        "missing_duration": 1,
        "quoted_time": 1,
        "begin_end_pair": 1,
    }
    found = {
        name: end - start
        for name, start, end in columns(tables, "ranges", "name", "start_ns", "end_ns")
    }
    assert found["aten::begin_end"] == 750
    assert found["aten::string_times"] == 250
    assert found["aten::neg"] == found["aten::nodur"] == 0


def test_begin_and_end_pair_as_a_stack_per_thread() -> None:
    def mark(ph: str, ts: float, name: str = "", tid: int = 2) -> dict[str, Any]:
        return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts}

    tables = one(
        mark("B", 1, "outer"),
        mark("B", 2, "inner"),
        mark("B", 2.5, "other thread", tid=3),
        mark("E", 3),
        mark("E", 4.25, tid=3),
        mark("E", 5),
        mark("E", 6),  # nothing is open
        mark("B", 7, "open"),
    )
    spans = {
        name: (start, end)
        for name, start, end in columns(tables, "ranges", "name", "start_ns", "end_ns")
    }
    assert spans == {
        "outer": (1000, 5000),
        "inner": (2000, 3000),
        "other thread": (2500, 4250),
    }
    assert reasons(tables) == {"begin_end_pair": 3, "begin_or_end_alone": 2}


def test_a_late_end_is_clipped_to_the_next_start_of_its_stream() -> None:
    (tables,) = read(shared_path("cases", "b14_duration_overflow.json"))
    (row,) = tables.losses.to_pylist()
    assert row["reason"] == "duration_overflow"
    assert "3400000000 ns raw, 30900 ns repaired" in row["action"]
    assert "all ops of the rank 3400116500 ns raw, 147400 ns repaired" in row["action"]
    lengths = [end - start for start, end in columns(tables, "ops", "start_ns", "end_ns")]
    assert max(lengths) == 50_000


@pytest.mark.parametrize(
    ("second", "clipped"),
    [
        ({"correlation": 2}, True),
        ({"correlation": 2, "stream": 8}, False),  # another stream runs beside it
        ({"correlation": 1}, False),  # a branch of the same graph launch
    ],
)
def test_only_a_later_launch_on_the_same_stream_shows_a_late_end(
    second: dict[str, int], clipped: bool
) -> None:
    tables = one(gpu(10.5, 9000.0, 1), gpu(20.5, 1.0, **second))
    assert ("duration_overflow" in reasons(tables)) is clipped
    end = tables.ops["end_ns"].to_pylist()[0]
    assert end == (20_500 if clipped else 9_010_500)


def test_a_dependent_launch_may_overlap_and_end_a_little_earlier() -> None:
    tables = one(gpu(10.5, 900.0, 1), gpu(20.5, 100.0, 2))
    assert reasons(tables) == {}


def test_a_time_at_the_end_of_64_bits_does_not_turn_round() -> None:
    text = document(event("cpu_op"), gpu(1.5, 1.0, 1))
    text = text.replace(b"10.5", b"8999999999999999.999").replace(b"1.0", b"8999999999999999.0")
    (tables,) = read(text)
    for table in (tables.ops, tables.ranges):
        for start, end in zip(*(table[c].to_pylist() for c in ("start_ns", "end_ns")), strict=True):
            assert end >= start


def test_a_fault_in_thousands_of_events_has_a_bounded_number_of_rows() -> None:
    tables = one(*(gpu(0.0, 0.0, number) for number in range(5000)))
    assert reasons(tables) == {"gpu_time_invalid": 5000}
    assert tables.losses.num_rows == 101


# --- ranks ----------------------------------------------------------------------------------


def test_a_merged_file_is_split_by_label_and_never_mixes_correlations() -> None:
    first, second = read(shared_path("cases", "b11_merged_same_correlation.json"))
    assert [(t.rank, t.facts["label"]) for t in (first, second)] == [(0, "TP00"), (1, "TP01")]
    (good,) = read(shared_path("cases", "b00_good.json"))
    for table in ("ops", "calls", "ranges"):
        assert (
            getattr(first, table)
            .drop_columns("name")
            .equals(getattr(good, table).drop_columns("name"))
        )
        assert getattr(first, table)["name"].to_pylist() == getattr(good, table)["name"].to_pylist()
    assert second.calls["pid"].to_pylist()[0] == 3001
    assert second.ops["device"].to_pylist() == [0] * 5
    assert second.ops["start_ns"].to_pylist()[0] == 1_013_000


def test_labels_of_several_kinds_are_numbered_in_their_order() -> None:
    labels = ["TP00-PP01", "TP01-PP00", "TP00-PP00", "TP01-PP01"]
    found = read(document(*(event("cpu_op", label, pid=f"[{label}] 7") for label in labels)))
    assert [(t.rank, t.facts["label"]) for t in found] == list(enumerate(sorted(labels)))


def test_work_without_a_label_in_a_merged_file_is_a_loss() -> None:
    found = read(document(event("cpu_op", pid="[TP00] 7"), event("cpu_op", pid=7)))
    assert len(found) == 1
    assert reasons(found[0]) == {"rank_unknown": 1}


def test_two_documents_in_one_text_are_two_ranks() -> None:
    found = read(shared_path("cases", "b07_two_documents.json.gz"))
    assert [tables.rank for tables in found] == [0, 1]
    assert [tables.facts["world_size"] for tables in found] == [2, 2]


def test_rank_world_groups_and_devices_come_from_the_header() -> None:
    name = "2026-01-vllm-prefill-tp8-b200-rank0.json.gz"
    (tables,) = read(shared_path("traces", "public", name))
    assert (tables.facts["rank"], tables.facts["world_size"]) == (0, 8)
    assert [len(group["ranks"]) for group in tables.facts["groups"]][:2] == [8, 8]
    assert len(tables.facts["devices"]) == 8
    assert tables.facts["producer"] == "vllm"


@pytest.mark.parametrize("rank", ["x", -1, 1.5, True, None, 1 << 40, [0]])
def test_a_rank_that_is_no_number_counts_as_absent(rank: Any) -> None:
    tables = one(event("cpu_op"), distributedInfo={"rank": rank, "world_size": rank})
    assert (tables.facts["rank"], tables.facts["world_size"]) == (None, None)


def test_rocm_is_known_and_its_device_numbers_are_kept() -> None:
    name = "2026-05-sglang-qwen3-8b-mi300x-decode-hipgraph.json.gz"
    (tables,) = read(shared_path("traces", "public", name))
    assert tables.facts["is_rocm"]
    assert set(tables.ops["device"].to_pylist()) == {9}


# --- collectives ----------------------------------------------------------------------------

COLLECTIVE = {
    "Collective name": "allreduce",
    "dtype": "BFloat16",
    "In msg nelems": 4096,
    "Out msg nelems": 4096,
    "Group size": 2,
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
    "Seq": 17,
}


def test_collectives_stand_on_ops_and_on_operators() -> None:
    tables = one(
        event("cpu_op", "record_param_comms", args=COLLECTIVE),
        gpu(1.5, 1.0, 1),
        gpu(3.5, 1.0, 2, args={"stream": 7} | COLLECTIVE),
    )
    wanted = ("op_id", "range_id", "name", "group", "ranks", "sequence", "elements_in", "bytes")
    assert columns(tables, "collectives", *wanted) == [
        (None, 0, "allreduce", "0", "[0, 1]", 17, 4096, 8192),
        (1, None, "allreduce", "0", "[0, 1]", 17, 4096, 8192),
    ]


def test_an_unknown_element_type_gives_no_bytes() -> None:
    args = COLLECTIVE | {"dtype": "Float3", "Seq": "x", "In msg nelems": 2**70}
    tables = one(event("cpu_op", args=args))
    assert columns(tables, "collectives", "bytes", "sequence", "elements_in") == [(None,) * 3]


# --- the same content in another form -------------------------------------------------------

SORT = {
    "ops": ("start_ns", "stream", "correlation", "name"),
    "calls": ("start_ns", "tid", "correlation", "name"),
    "ranges": ("start_ns", "tid", "end_ns", "name"),
}


def content(tables: RankTables, table: str) -> list[tuple[Any, ...]]:
    """Rows without their numbers, in an order that does not depend on the file."""
    found = getattr(tables, table)
    names = [name for name in found.column_names if name not in ("op_id", "call_id", "range_id")]
    return sorted(columns(tables, table, *names), key=repr)


def same_content(first: RankTables, second: RankTables) -> bool:
    return all(content(first, table) == content(second, table) for table in SORT)


def test_every_layout_gives_equal_tables() -> None:
    drawing = timeline()
    (torch,) = read(drawing.to_json())
    for text in (
        drawing.to_json("lines"),
        drawing.to_json("compact"),
        drawing.to_json("array"),
        drawing.to_json(metadata_last=True),
        drawing.to_gzip(),
    ):
        (other,) = read(text)
        for table in SORT:
            assert getattr(torch, table).equals(getattr(other, table))


def test_a_shuffled_file_gives_equal_tables_up_to_row_order() -> None:
    path = shared_path("cases", "a16_host_runs_ahead.json")
    raw = json.loads(path.read_text(), parse_float=str, parse_int=int)
    (straight,) = read(path)
    for seed in range(5):
        random.Random(seed).shuffle(raw["traceEvents"])
        (shuffled,) = read(unquoted(json.dumps(raw)))
        assert same_content(straight, shuffled)


def unquoted(text: str) -> bytes:
    """Times that were kept as texts, as numbers again."""
    return re.sub(r'"(ts|dur)": "([-\d.]+)"', r'"\1": \2', text).encode()


def test_ranks_merged_into_one_file_and_split_again_are_the_same() -> None:
    raw = [json.loads(timeline(rank=rank, origin=1000 + rank).to_json()) for rank in range(2)]
    merged = raw[0] | {
        "traceEvents": [
            entry | {"pid": f"[TP{rank:02d}] {entry['pid']}"}
            for rank in range(2)
            for entry in raw[rank]["traceEvents"]
        ]
    }
    random.Random(1).shuffle(merged["traceEvents"])
    found = read(json.dumps(merged).encode())
    for rank, tables in enumerate(found):
        (alone,) = read(timeline(rank=rank, origin=1000 + rank).to_json())
        assert tables.rank == rank
        assert same_content(alone, tables)


# --- names and secrets ----------------------------------------------------------------------

PLANTED = "hf_PlantedSecretValue0123456789"


def test_nothing_of_unknown_metadata_reaches_tables_or_facts() -> None:
    tables = one(
        event("cpu_op"),
        environment={"HF_TOKEN": PLANTED},
        HF_TOKEN=PLANTED,
        host_name=PLANTED,
        traceName=f"/home/user/{PLANTED}.json",
        distributedInfo={
            "rank": 0,
            "token": PLANTED,
            "pg_config": [{"pg_name": "0", "k": PLANTED}],
        },
        deviceProperties=[{"name": "GPU", "secret": PLANTED}],
    )
    everything = repr(tables.facts) + "".join(
        repr(getattr(tables, table).to_pylist()) for table in schema.TABLES
    )
    assert "Planted" not in everything


def test_names_that_are_no_utf8_are_replaced_and_counted() -> None:
    (tables,) = read(shared_path("cases", "b03_control_and_utf8.json"), ALL_FRAMES)
    assert tables.facts["replaced_names"] == 1
    assert any("\ufffd" in name for name in tables.ranges["name"].to_pylist())


def test_schemas_are_exact_also_for_empty_tables() -> None:
    for tables in (one(event("Trace")), read(timeline().to_json())[0]):
        for name, wanted in schema.TABLES.items():
            assert getattr(tables, name).schema.equals(wanted, check_metadata=True), name


def test_dictionaries_hold_only_the_names_of_their_table() -> None:
    drawing = Timeline()
    drawing.launch(1, 2, GEMM, 3, 4)
    drawing.mark("m", 0, 5)
    (tables,) = read(drawing.to_json())
    assert tables.ops["name"].chunk(0).dictionary.to_pylist() == [GEMM]
    assert tables.ranges["name"].chunk(0).dictionary.to_pylist() == ["m"]
