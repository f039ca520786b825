"""A real SGLang server on GPUs, recorded with our hooks: ranges against marks and structure."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope import Options, analyze, load

DATA = Path(__file__).resolve().parents[1] / "data" / "own-hooks-8b-tp2"
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
