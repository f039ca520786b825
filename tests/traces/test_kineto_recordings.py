"""Real recordings into tables: counts per category, links, graphs, clocks, collectives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.shared import shared_path
from tests.traces.kineto_documents import ALL_FRAMES, read

PUBLIC: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "public_traces.json").read_text()
)
OPS = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
HOST = ("user_annotation", "cpu_op", "Operator", "python_function")


def by_category(content: dict[str, int]) -> dict[str, int]:
    """Counts without the phase: flows have lost theirs, and so have the dropped frames."""
    found: Counter[str] = Counter()
    for key, count in content.items():
        phase, _, name = key.rpartition(":")
        found[f"{phase}:-" if name == "-" else name] += count
    return dict(found)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_event_of_a_public_trace_is_counted_in_its_category(name: str) -> None:
    (tables,) = read(shared_path("traces", "public", name))
    facts = tables.facts
    assert facts["events"] == PUBLIC[name]["events"]
    assert by_category(facts["categories"] | {}) | {} == facts_without_dropped(name, facts)
    assert tables.losses.num_rows == 0
    total = facts["event_bytes"] + facts["structure_bytes"] + facts["skipped_bytes"]
    assert total == PUBLIC[name]["text_bytes"]


def facts_without_dropped(name: str, facts: dict[str, Any]) -> dict[str, int]:
    """The README's counts less what the scanner left out by design."""
    expected = Counter(by_category(PUBLIC[name]["content"]))
    expected.subtract(facts["scan_dropped"])
    assert all(count >= 0 for count in expected.values()), facts["scan_dropped"]
    return {key: count for key, count in expected.items() if count}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_op_call_and_range_of_a_public_trace_has_its_row(name: str) -> None:
    (tables,) = read(shared_path("traces", "public", name), ALL_FRAMES)
    content = PUBLIC[name]["content"]
    rows = {
        "ops": sum(content.get(cat, 0) for cat in OPS),
        "calls": sum(content.get(cat, 0) for cat in CALLS),
        "ranges": sum(content.get(cat, 0) for cat in HOST),
    }
    assert {table: getattr(tables, table).num_rows for table in rows} == rows
    dropped = json.loads(tables.sources["dropped"][0].as_py())
    tabled = sum(rows.values()) + content.get("M:-", 0)
    assert sum(dropped.values()) + tabled == PUBLIC[name]["events"]


# name: (kernels, of them without a launch call on record, most kernels of one launch)
LINKS = {
    "2021-01-resnet50-v100.json.gz": (9564, 708, 1),
    "2022-08-ddp-v100-rank1of2.json.gz": (9876, 546, 429),
    "2023-05-cudagraph-a100-rank0of16.json.gz": (6080, 705, 8),
    "2024-10-triton-culaunchkernel-a100.json.gz": (1, 0, 1),
    "2025-07-hf-qwen1.5-0.5b-h100-memory-stack.json.gz": (1465, 436, 1),
    "2025-12-mi210-gpu-only.json.gz": (562, 0, 1),
    "2026-03-vllm-mi300-decode-full-hipgraph.json.gz": (425, 0, 421),
    "2026-05-sglang-qwen3-8b-mi300x-decode-hipgraph.json.gz": (555, 0, 544),
}


@pytest.mark.parametrize("name", LINKS)
def test_kernels_with_and_without_launch_calls_are_those_of_the_readme(name: str) -> None:
    (tables,) = read(shared_path("traces", "public", name))
    kernels = tables.ops.filter(pc.equal(tables.ops["kind"], "kernel"))["correlation"].to_pylist()
    known = set(tables.calls["correlation"].to_pylist())
    unlinked = sum(correlation not in known for correlation in kernels)
    assert (len(kernels), unlinked, max(Counter(kernels).values())) == LINKS[name]


def test_graph_launches_of_cuda_and_rocm_are_told_apart_from_kernel_launches() -> None:
    for name, count in (
        ("2023-05-cudagraph-a100-rank0of16.json.gz", 70),
        ("2026-03-vllm-mi300-decode-full-hipgraph.json.gz", 1),
    ):
        (tables,) = read(shared_path("traces", "public", name))
        assert Counter(tables.calls["kind"].to_pylist())["graph_launch"] == count


def test_zero_lengths_of_the_microsecond_clock_are_kept() -> None:
    name = "2023-05-cudagraph-a100-rank0of16.json.gz"
    (tables,) = read(shared_path("traces", "public", name))
    zero = sum(
        pc.sum(pc.equal(table["start_ns"], table["end_ns"])).as_py()
        for table in (tables.ops, tables.calls, tables.ranges)
    )
    assert zero == 30_423
    assert tables.facts["resolution_ns"] == 1000


# file: (events, {name of a range: how often})
CPU = {
    "vllm_eagle3_tp2_rank0.json.gz": (24_634, {"_C::shm_allreduce": 252, "_C::shm_all_gather": 56}),
    "vllm_eagle3_tp2_rank1.json.gz": (24_634, {"_C::shm_allreduce": 252}),
    "vllm_draft_tp1_rank0.json.gz": (22_313, {}),
    "sglang_eagle3_tp1_rank0.json.gz": (35_093, {}),
    "sglang_eagle3_tp2_rank0.json.gz": (
        36_971,
        {
            "c10d::allreduce_": 210,
            "gloo:all_reduce": 210,
            "c10d::_allgather_base_": 46,
            "gloo:all_gather": 46,
            "draft": 11,
            "step[VERIFY bs=1]": 11,
            "draft_extend": 12,
            "step[DRAFT bs=1]": 33,
        },
    ),
    "sglang_eagle3_tp2_rank1.json.gz": (37_029, {}),
    "hf_assisted.json.gz": (20_235, {"specscope.draft": 7, "specscope.verify": 7}),
    "gloo_rank0.json.gz": (251, {"gloo:all_reduce": 20, "gloo:all_gather": 4, "draft": 12}),
    "gloo_rank1.json.gz": (251, {"gloo:broadcast": 4, "verify": 4}),
}


@pytest.mark.parametrize("name", CPU)
def test_the_figures_of_the_cpu_recordings(name: str) -> None:
    (tables,) = read(shared_path("traces", "cpu", name))
    events, counts = CPU[name]
    assert tables.facts["events"] == events
    found = Counter(tables.ranges["name"].to_pylist())
    assert {text: found[text] for text in counts} == counts
    assert (tables.ops.num_rows, tables.losses.num_rows) == (0, 0)


def own_recordings() -> list[Path]:
    return sorted(shared_path("traces", "own").glob("tp*/rank*.trace.json.gz"))


@pytest.mark.parametrize(
    "path", own_recordings(), ids=lambda path: f"{path.parent.name}/{path.name[:5]}"
)
def test_a_sound_recording_has_no_loss_and_every_op_has_its_launch_call(path: Path) -> None:
    (tables,) = read(path)
    assert tables.losses.num_rows == 0, "dependent launches overlap by up to 79 ms, legally"
    known = pa.array(set(tables.calls["correlation"].to_pylist()) - {None})
    linked = pc.sum(pc.is_in(tables.ops["correlation"], known)).as_py()
    assert linked >= tables.ops.num_rows - 30, "but for what ran when the window opened"
    assert tables.facts["producer"] == "sglang"
    assert tables.rank == int(path.name[4])
    assert tables.facts["window_end_ns"] is not None


def test_collectives_of_a_real_training_run_are_read() -> None:
    name = "2024-05-resnet-ddp-nccl-a100-rank0of2.json.gz"
    (tables,) = read(shared_path("traces", "public", name))
    assert tables.collectives.num_rows == 48
    assert pc.sum(pc.is_valid(tables.collectives["op_id"])).as_py() > 0
    assert set(tables.collectives["dtype"].to_pylist()) <= {"Float", "Long", "Int", "Byte"}
