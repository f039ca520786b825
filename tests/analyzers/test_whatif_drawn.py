"""A drawn server whose draft is slow for its collectives: the story the other way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import specscope
from specscope.analyzers.whatif import Asked, WhatIf, told_draft_tp, whatif
from tests.build import ALL_REDUCE, GEMM, Timeline

CYCLE_US, STEP_US, STEPS, COMPUTE_US = 40_000, 5_000, 5, 1_500


def draw(folder: Path, *, server_args: object = None, compute_us: int = COMPUTE_US) -> Path:
    """Two ranks: 5 draft steps of 5.0 ms, all but 1.5 of it all-reduce, and 15 ms of verify."""
    for rank in (0, 1):
        line = Timeline(rank=rank, world_size=2)
        for c in line.cycles(7, every=CYCLE_US):
            for step in range(STEPS):
                begin, call = step * STEP_US, 40 * step
                c.mark(f"specscope:draft|c={c.i}|s={step}|b=1", call, call + 30)
                c.launch(call + 2, call + 5, GEMM, begin + 9 + rank, begin + compute_us)
                c.launch(call + 12, call + 15, ALL_REDUCE, begin + compute_us + 1, begin + STEP_US)
            c.mark(f"specscope:verify|c={c.i}|b=1", 300, CYCLE_US - 5)
            c.launch(302, 305, GEMM, STEPS * STEP_US + 1, CYCLE_US - 12)
            c.sync(310, CYCLE_US - 8)
        (folder / f"rank{rank}.trace.json.gz").write_bytes(line.to_gzip())
    context = {"accept_length": 3.0, "batch": 1, "k": STEPS, "tp": 2}
    if server_args is not None:
        context["server_args"] = server_args
    (folder / "run.json").write_text(json.dumps(context))
    return folder


def found_of(folder: Path) -> WhatIf:
    report = specscope.analyze(specscope.load(folder, cache=False))
    return whatif(report, Asked((("draft-tp", 1.0),)))


def test_the_draft_on_one_gpu_comes_first_where_its_collectives_are_what_it_costs(
    tmp_path: Path,
) -> None:
    found = found_of(draw(tmp_path))
    assert found.corrected is not None
    assert found.corrected.cycle_ns == pytest.approx(40e6, rel=1e-3)
    assert found.rate == pytest.approx(75, rel=1e-3)
    (row,) = found.asked
    assert row.cycle_ns is not None
    assert row.rate is not None
    # 22.5 ms where the draft's compute was not split, 1.5 ms a step more where it was.
    assert row.cycle_ns[0] == pytest.approx(22.5e6, rel=2e-3)
    assert row.cycle_ns[1] == pytest.approx(30.0e6, rel=2e-3)
    assert row.rate[1] == pytest.approx(133, rel=5e-3)
    assert found.ranked[0].lever == "draft-tp"
    assert found.notes == ()


@pytest.mark.parametrize(
    "server_args",
    [
        {"speculative_config": {"draft_tensor_parallel_size": 1}},
        ["vllm", "serve", "--speculative-config", '{"draft_tensor_parallel_size": 1}'],
        ["--speculative-draft-tp-size", "1"],
    ],
)
def test_an_option_that_had_no_effect_is_named(tmp_path: Path, server_args: object) -> None:
    found = found_of(draw(tmp_path, server_args=server_args))
    assert any("the option had no effect" in note for note in found.notes)


@pytest.mark.parametrize("key", ["server_command", "command"])
def test_the_command_counts_where_server_args_do_not_say_it(tmp_path: Path, key: str) -> None:
    words = ["serve", "--speculative-config", '{"draft_tensor_parallel_size": 1}']
    folder = draw(tmp_path, server_args={"tp_size": 2})
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: words}))
    found = found_of(folder)
    assert any("the option had no effect" in note for note in found.notes)


@pytest.mark.parametrize(
    ("server_args", "ranks"),
    [
        ({"draft_tensor_parallel_size": 4}, 4),
        (["--tp-size", "1"], None),
        ({"tp_size": 8, "draft_model": "tp-1"}, None),
        (None, None),
    ],
)
def test_the_width_of_the_draft_is_read_only_where_it_is_said(
    server_args: object, ranks: int | None
) -> None:
    assert told_draft_tp(server_args) == ranks


def test_a_run_without_gpu_ops_is_refused_in_words(tmp_path: Path) -> None:
    line = Timeline()
    for c in line.cycles(5, every=1000):
        c.mark(f"specscope:draft|c={c.i}", 0, 400)
        c.mark(f"specscope:verify|c={c.i}", 400, 990)
    (tmp_path / "rank0.trace.json").write_bytes(line.to_json())
    found = whatif(specscope.analyze(specscope.load(tmp_path, cache=False)))
    assert found.refused
    assert "GPU" in found.refused[0]
