"""Sizes and bandwidth of real recordings: recorded by torch.distributed, and by a config."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import specscope
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.report import Report
from specscope.dashboards.size_sections import size_lines
from specscope.traces.load import load
from specscope.traces.model_config import ModelWidth
from tests.shared import shared_path

OWN = shared_path("traces", "own")
CASES = shared_path("cases")
DDP = shared_path("traces", "public", "2024-05-resnet-ddp-nccl-a100-rank0of2.json.gz")
WIDTH_70B = ModelWidth(8192, 2)


def own(name: str, models: Models) -> Report:
    return analyze(load([OWN / name], cache=False), Options(models=models))


def test_sizes_that_torch_distributed_recorded_are_taken(tmp_path: Path) -> None:
    """One rank of two is public: its twin is drawn as rank 1."""
    text = gzip.decompress(DDP.read_bytes())
    here = b'"backend": "nccl", "rank": 0,'
    assert text.count(here) == 1
    twin = tmp_path / "rank1.json"
    process = re.search(rb'"pid": (\d{4,})', text)
    assert process is not None
    text = text.replace(process[0], process[0] + b"1")
    twin.write_bytes(text.replace(here, here.replace(b"0", b"1")))
    report = specscope.analyze(specscope.load([DDP, twin], cache=False))
    group = report.group
    assert group is not None and group.bandwidth is not None
    rows = report.tables["matched_collectives"].to_pylist()
    recorded = report.tables["collectives"].to_pylist()
    by_op = {(r["rank"], r["op_id"]): r for r in recorded if r["op_id"] is not None}
    # 2,049,000 floats: the weights and the bias of the last layer, 2048 x 1000 + 1000.
    assert {row["bytes"] for row in rows} >= {8_196_000}
    for row in rows:
        said = by_op[row["rank"], row["op_id"]]
        assert row["bytes"] == said["elements_in"] * {"Float": 4, "Long": 8}[said["dtype"]]
        assert row["bytes_source"] == "recorded"
        assert row["algbw"] == pytest.approx(row["bytes"] / row["transfer_ns"])
        assert row["busbw"] == pytest.approx(row["algbw"])  # 2 x (2 - 1) / 2
    assert sum(row.count for row in group.bandwidth.rows) == len(rows) // 2 > 0
    assert {row.sources for row in group.bandwidth.rows} == {("recorded",)}


def test_sizes_of_the_shared_case_are_those_that_it_says() -> None:
    files = [CASES / f"r01_straggler_rank{rank}.json" for rank in (0, 1)]
    rows = specscope.analyze(specscope.load(files, cache=False)).tables["matched_collectives"]
    for row in rows.to_pylist():
        assert (row["bytes"], row["bytes_source"]) == (57_344, "recorded")  # 28,672 bfloat16
        assert row["algbw"] == pytest.approx(57_344 / row["transfer_ns"])


@pytest.mark.parametrize(
    ("name", "library", "n", "verify", "draft"),
    [
        # Batch 8, k 3: verify reads 8 x 4 tokens of 8,192 x 2 bytes, a draft step 8 x 1.
        ("tp2-70b-eagle3-k3-shm-bs8", "nccl", 2, 524_288, 131_072),
        ("tp4-70b-eagle3-k3-shm-bs8", "nccl", 4, 524_288, 131_072),
        ("tp2-70b-eagle3-k3-nvlink-bs1", "custom", 2, 65_536, 16_384),
    ],
)
def test_sizes_inside_graphs_are_by_the_config(
    name: str, library: str, n: int, verify: int, draft: int
) -> None:
    report = own(name, Models(WIDTH_70B))
    frame = report.tables["matched_collectives"].to_pandas()
    whole = frame[frame["cycle"].notna() & (frame["kind"] == f"{library}.allreduce")]
    assert set(whole["bytes_source"]) == {"model_config"}
    sizes = {stage: set(of["bytes"]) for stage, of in whole.groupby("stage", observed=True)}
    assert sizes == {"verify": {verify}, "draft": {draft}, "draft_extend": {verify}}
    factor = 2 * (n - 1) / n
    rated = whole[whole["algbw"].notna()]
    assert len(rated) > 0.99 * len(whole)
    assert rated["algbw"].to_numpy() == pytest.approx(
        (rated["bytes"] / rated["transfer_ns"]).to_numpy()
    )
    assert rated["busbw"].to_numpy() == pytest.approx(factor * rated["algbw"].to_numpy())
    gathers = frame[frame["kind"] == "nccl.allgather"]
    assert set(gathers["bytes_source"]) == {"unknown"}
    assert gathers[["bytes", "algbw", "busbw"]].isna().all(axis=None)
    group = report.group
    assert group is not None and group.bandwidth is not None
    rows = {row.low_bytes: row for row in group.bandwidth.rows}
    assert set(rows) == {verify, draft}
    calls = len(group.cycles)
    assert rows[draft].count == 6 * calls
    assert rows[verify].count == (161 + 3) * calls  # 2 x 80 layers + 1, and the draft's 3
    [floor] = group.bandwidth.floors
    assert floor.low_bytes == draft and 0 < floor.ns <= rows[draft].transfer_ns


def test_a_draft_extend_takes_as_long_as_a_verify_for_it_carries_as_much() -> None:
    """The assumption that both read k + 1 tokens a sequence, held against the wire."""
    report = own("tp2-70b-eagle3-k3-shm-bs8", Models(WIDTH_70B))
    frame = report.tables["matched_collectives"].to_pandas()
    frame = frame[frame["kind"] == "nccl.allreduce"]
    medians = frame.groupby("stage", observed=True)["transfer_ns"].median()
    assert medians["draft_extend"] == pytest.approx(medians["verify"], rel=0.02)
    assert medians["draft"] < 0.5 * medians["verify"]


def test_recorded_gathers_of_logits_hold_the_tokens_that_the_config_counts_with() -> None:
    """Launched eagerly the logits' all-gathers have sizes: tokens x vocabulary / 2 x 2 bytes.

    The target's vocabulary is 128,256, the draft's 32,000; batch 1, k 3.
    """
    report = own("tp2-8b-eagle3-k3-eager-bs1-hooked", Models(ModelWidth(4096, 2)))
    frame = report.tables["matched_collectives"].to_pandas()
    frame = frame[frame["cycle"].notna()]
    gathers = frame[frame["kind"] == "nccl.allgather"]
    assert set(gathers["bytes_source"]) == {"recorded"}
    tokens = {
        stage: set(of["bytes"] / {"verify": 128_256}.get(stage, 32_000))
        for stage, of in gathers.groupby("stage", observed=True)
    }
    assert tokens == {"verify": {4}, "draft": {1}, "draft_extend": {4}}
    reduces = frame[frame["kind"] == "custom.allreduce"]
    for stage in ("verify", "draft"):
        sizes = set(reduces[reduces["stage"] == stage]["bytes"])
        assert sizes == {count * 8192 for count in tokens[stage]}
    extends = reduces[reduces["stage"] == "draft_extend"]
    assert set(extends["bytes_source"]) == {"unknown"}


def test_two_ranks_of_four_have_sizes_and_no_bandwidth() -> None:
    """Nobody knows when the last of the four arrived."""
    folder = OWN / "tp4-70b-eagle3-k3-shm-bs8"
    files = [folder / f"rank{rank}.trace.json.gz" for rank in (0, 1)]
    report = analyze(load(files, cache=False), Options(models=Models(WIDTH_70B)))
    frame = report.tables["matched_collectives"].to_pandas()
    assert set(frame["bytes_source"]) == {"model_config", "unknown"}
    assert frame[["algbw", "busbw"]].isna().all(axis=None)
    assert report.group is not None and report.group.bandwidth is not None
    assert report.group.bandwidth.rows == ()
    assert "not all ranks of the group were read" in " ".join(size_lines(report.group))


def test_without_a_config_nothing_is_guessed() -> None:
    report = own("tp2-70b-eagle3-k3-nvlink-bs1", Models())
    frame = report.tables["matched_collectives"].to_pandas()
    assert set(frame["bytes_source"]) == {"unknown"}
    assert frame[["bytes", "algbw", "busbw"]].isna().all(axis=None)
    group = report.group
    assert group is not None and group.bandwidth is not None
    assert group.bandwidth.rows == ()
