"""A real SGLang server on GPUs, recorded with our hooks: ranges against marks and structure."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope import Options, analyze, load, load_capture_traces

DATA = Path(__file__).resolve().parents[1] / "data" / "own-hooks-8b-tp2"
KIMI = DATA.with_name("own-kimi-shape-tp2")
STAGES = ("draft", "verify", "accept", "draft_extend")


@pytest.mark.parametrize("worker", ["v2", "v1"])
def test_ranges_and_stock_evidence_agree(worker: str) -> None:
    run = load(str(DATA / worker))
    ours = analyze(run)
    stock = analyze(run, Options(evidence=("engine", "structure")))
    named = ours.tables["ops"].select(["rank", "stage"]).to_pylist()
    other = stock.tables["ops"].column("stage").to_pylist()
    for rank in (0, 1):
        assert set(STAGES) <= {row["stage"] for row in named if row["rank"] == rank}
    # Stock evidence does not tell accept from verify.
    pairs = [
        ("verify" if row["stage"] == "accept" else row["stage"], stage)
        for row, stage in zip(named, other, strict=True)
        if row["stage"] in STAGES
    ]
    assert sum(a == b for a, b in pairs) >= 0.99 * len(pairs)
    totals = {s.stage: s.cycle_share.value for s in ours.shares if s.rank is None}
    for share in stock.shares:
        if share.rank is None and share.stage in ("draft", "verify", "draft_extend"):
            assert abs(share.cycle_share.value - totals[share.stage]) < 0.03


def test_a_target_with_experts_and_latent_attention_is_read_to_the_last_kernel() -> None:
    """Six of Kimi-K2.5's 61 layers: so few that the draft of five steps takes more than verify.

    CUDA events without a profiler, in the cycle log of the same server: 44.6, 40.6, 14.0 %.
    """
    report = analyze(load(str(KIMI)))
    shares = {s.stage: s.cycle_share.value for s in report.shares if s.rank is None}
    assert shares["draft"] == pytest.approx(0.446, abs=0.02)
    assert shares["verify"] == pytest.approx(0.406, abs=0.02)
    assert shares["draft_extend"] == pytest.approx(0.140, abs=0.02)
    ops = report.tables["ops"].to_pylist()
    assert {op["stage"] for op in ops} >= set(STAGES)
    busy = sum(op["end_ns"] - op["start_ns"] for op in ops)
    other = sum(op["end_ns"] - op["start_ns"] for op in ops if op["activity"] == "other")
    assert other < 0.01 * busy


# What the operator of a node launches, by a part of the kernel's name.
KERNELS = {
    "sglang::outplace_all_reduce": "all_reduce_one_shot",
    "sglang::reg_all_gather_into_tensor": "ncclDevKernel_AllGather",
    "sgl_kernel::fused_add_rmsnorm": "FusedAddRMSNorm",
    "sgl_kernel::rmsnorm": "norm::RMSNorm",
    "sglang::apply_rope_inplace": "rope",
    "sglang::store_cache": "store_kvcache",
    "sglang::_run_activation_inplace": "act_and_mul",
    "aten::embedding": "indexSelect",
    "aten::cat": "CatArray",
}


@pytest.mark.parametrize("worker", ["v2", "v1"])
def test_every_kernel_of_verify_has_the_module_and_operator_of_the_capture(worker: str) -> None:
    """Captured by another start of the server, in which no launch call names its kernel."""
    captures = load_capture_traces([DATA / "graph_capture.json.gz"])
    report = analyze(load(str(DATA / worker)), Options(captures=captures))
    rows = report.tables["graph_nodes"].to_pylist()
    assert len(rows) == 18 * 525
    names = {(op["rank"], op["op_id"]): op["name"] for op in report.tables["ops"].to_pylist()}
    for row in rows:
        kernel = names[row["rank"], row["op_id"]]
        for operator, part in KERNELS.items():
            assert (row["operator"] == operator) == (part in kernel)
    assert {row["layer"] for row in rows} == {None, *range(32)}


def test_every_table_of_a_report_goes_into_pandas() -> None:
    for name, table in analyze(load(str(DATA / "v2"))).tables.items():
        assert len(table.to_pandas()) == len(table), name
