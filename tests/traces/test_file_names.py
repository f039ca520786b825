"""Names of trace files of every writer, taken apart from the right end."""

from __future__ import annotations

import pytest

from specscope.traces.file_names import read_name, why_not_read

NS = "1712345678901234567"

# name: (role, rank, stage, time in ns)
CASES = {
    # SGLang, every generation
    "1735632360.1234-TP-0.trace.json.gz": ("trace", 0, None, 1735632360123400000),
    "1735632360.1234-TP-11-DECODE.trace.json.gz": ("trace", 11, "DECODE", 1735632360123400000),
    "1735632360.5-TP-3-DP-1-EP-2-EXTEND.trace.json.gz": ("trace", 3, "EXTEND", 1735632360500000000),
    "my-run-1735632360.5-TP-1.trace.json.gz": ("trace", 1, None, 1735632360500000000),
    "my-TP-run-TP-2-prefill.trace.json.gz": ("trace", 2, "prefill", None),
    "1735632360.5-TP-1-PP-1.trace.json.gz": ("trace", None, None, 1735632360500000000),
    "merged-1735632360.1234.trace.json.gz": ("merged", None, None, None),
    "1735632360.1-TP-0-memory.pickle": ("memory", None, None, None),
    # vLLM, every generation
    f"host_8123.{NS}.pt.trace.json.gz": ("trace", None, None, int(NS)),
    f"a1b2-rank-2.{NS}.pt.trace.json.gz": ("trace", 2, None, int(NS)),
    f"rank0.{NS}.pt.trace.json.gz": ("trace", 0, None, int(NS)),
    f"dp0_pp0_tp1_dcp0_ep1_rank1.{NS}.pt.trace.json.gz": ("trace", 1, None, int(NS)),
    f"pre_fix_dp0_pp0_tp3_dcp0_ep3_rank3.{NS}.pt.trace.json": ("trace", 3, None, int(NS)),
    f"host.with.dots_77.async_llm.{NS}.pt.trace.json.gz": ("frontend", None, None, int(NS)),
    "profiler_out_3.txt": ("table", None, None, None),
    "rank1.profiler_out.txt": ("table", 1, None, None),
    f"graph_capture_rank_0.{NS}.pt.trace.json.gz": ("graph_capture", 0, None, int(NS)),
    "cuda_graph_capture-CudaGraphRunner-TP-1.json.gz": ("graph_capture", 1, None, None),
    "DecodeCudaGraphRunner_bs_32_rank1.json.gz": ("graph_capture", 1, None, None),
    "DecodeCudaGraphRunner_bs_32_lora_rank1.json.gz": ("graph_capture", 1, None, None),
    "2026-05-sglang-graph-capture-bs32.json.gz": ("graph_capture", None, None, None),
    "bs_32_rank0.json.gz": ("graph_capture", 0, None, None),
    # torch
    f"host.example.local_8123.{NS}.pt.trace.json": ("trace", None, None, int(NS)),
    "worker0.1623143089861.pt.trace.json.gz": ("trace", None, None, 1623143089861000000),
    "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": ("trace", 0, None, None),
    "libkineto_activities_4711.json": ("trace", None, None, None),
    "trace.json.tmp": ("unfinished", None, None, None),
    # others
    "rank1.trace.json.gz": ("trace", 1, None, None),
    "vllm_eagle3_tp2_rank1.json.gz": ("trace", 1, None, None),
    "2022-08-ddp-v100-rank1of2.json.gz": ("trace", 1, None, None),
    "crank7.json": ("trace", None, None, None),
    "run.json": ("context", None, None, None),
    "meta.json": ("context", None, None, None),
    "node.sqlite": ("nsys", None, None, None),
    "notes.md": ("report", None, None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_role_rank_stage_and_time_are_read_from_the_name(name: str) -> None:
    found = read_name(name)
    assert (found.role, found.rank, found.stage, found.stamp_ns) == CASES[name]


def test_the_worker_of_a_host_with_dots_is_whole() -> None:
    found = read_name(f"host.example.local_8123.{NS}.pt.trace.json")
    assert found.worker == "host.example.local_8123"


def test_the_ranks_of_one_server_share_a_group() -> None:
    names = [f"dp0_pp0_tp{r}_dcp0_ep0_rank{r}.17123456789012345{r}7.pt.trace.json" for r in (0, 1)]
    assert len({read_name(name).group for name in names}) == 1


def test_the_ranks_of_one_sglang_capture_share_its_id() -> None:
    names = [f"p-17.5-TP-{r}-DP-0-DECODE.trace.json.gz" for r in range(3)]
    assert {read_name(name).capture for name in names} == {"p-17.5"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] != "trace"])
def test_every_file_that_is_not_read_has_a_reason(name: str) -> None:
    assert why_not_read(name)
