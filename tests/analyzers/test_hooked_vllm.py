"""specscope's ranges in a vLLM worker: the step marks of the engine still tell the kinds."""

from __future__ import annotations

from pathlib import Path

import specscope
from tests.build import ATTENTION, GEMM, Timeline


def step(c: Timeline, mark: str, ranges: bool) -> None:
    """One engine step: the target's forward, then accept and draft where it verifies."""
    c.mark(mark, 1, 30)
    if ranges:
        c.mark("specscope:verify|b=2", 2, 28)
    c.launch(4, 6, ATTENTION, 8, 40)
    if ranges:
        c.mark("specscope:accept|b=2", 31, 36)
    c.launch(32, 34, "rejection_greedy_sample_kernel", 42, 44)
    if ranges:
        c.mark("specscope:draft|b=2", 40, 60)
    c.launch(42, 44, GEMM, 46, 56)


def test_a_prefill_step_between_hooked_cycles_makes_its_cycle_mixed(tmp_path: Path) -> None:
    verify = "execute_context_0(0)_generation_2(8)"
    prefill = "execute_context_1(64)_generation_0(0)"
    marks = [verify] * 4 + [prefill] + [verify] * 4
    t = Timeline()
    for c, mark in zip(t.cycles(len(marks), every=100), marks, strict=True):
        step(c, mark, ranges=mark == verify)
    path = tmp_path / "trace.json"
    path.write_bytes(t.to_json("torch"))
    report = specscope.analyze(specscope.load(path, cache=False))
    kinds = report.tables["cycles"]["kind"].to_pylist()
    assert kinds == ["speculation"] * 3 + ["mixed"] + ["speculation"] * 3
    assert report.verdict.refused == ()
    assert report.verdict.evidence[0] == "specscope"
