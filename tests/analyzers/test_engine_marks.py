"""Traces drawn for every generation of engine marks are read as worked out by hand."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import specscope
from tests import reference as ref
from tests.analyzers import cases_ranges, cases_sglang, cases_trtllm, cases_vllm
from tests.analyzers.case import CASES, Case, found_parts, read_table
from tests.build import Layout, Timeline

# Importing a module of cases registers what it draws.
assert CASES.keys() >= {
    cases_sglang.sglang_plain_decode.__name__,
    cases_trtllm.trtllm_with_a_draft_model_and_iteration_numbers.__name__,
    cases_vllm.vllm_plain_decode.__name__,
    cases_ranges.own_ranges_with_every_field.__name__,
}

# Best first, as in the design.
EVIDENCE = ("specscope", "engine", "frames", "structure")


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Write, load and analyze the trace of a case, once a session."""

    @cache
    def report(name: str) -> Any:
        return analyzed(tmp_path_factory.mktemp(name[:40]), CASES[name]().trace)

    return report


def analyzed(
    folder: Path,
    *timelines: Timeline,
    layout: Layout = "torch",
    metadata_last: bool = False,
) -> Any:
    """The report of one trace file per rank."""
    paths = []
    for timeline in timelines:
        path = folder / f"1712345678-TP-{timeline.rank}.trace.json"
        path.write_bytes(timeline.to_json(layout, metadata_last=metadata_last))
        paths.append(path)
    return specscope.analyze(specscope.load(paths, cache=False))


def cycles_of(report: Any, rank: int = 0) -> list[dict[str, Any]]:
    """The whole cycles of one rank in order of time."""
    rows = [row for row in report.tables["cycles"].to_pylist() if row["rank"] == rank]
    return sorted((row for row in rows if row["whole"]), key=lambda row: row["start_ns"])


def evidence_of(report: Any) -> set[str]:
    """The kinds of evidence that place the stages of the run."""
    return {row["evidence"] for row in report.tables["stages"].to_pylist()}


def parts_of(report: Any, case: Case, rank: int = 0) -> list[dict[str, int]]:
    """Per whole cycle its parts, as the case compares them."""
    table = report.tables["parts"]
    return [case.merged(found_parts(table, rank, row["cycle"])) for row in cycles_of(report, rank)]


@pytest.mark.parametrize("name", CASES)
def test_a_drawn_trace_is_read_as_worked_out(name: str, read: Any) -> None:
    case, report = CASES[name](), read(name)
    cycles = cycles_of(report)

    assert case.kinds in (None, tuple(row["kind"] for row in cycles))
    for column, expected in (
        ("batch", case.batches),
        ("tokens", case.tokens),
        ("k", (case.k,) * len(cycles)),
        ("mark", case.marks),
    ):
        for row, value in zip(cycles, expected or (), strict=expected is not None):
            assert value is None or row[column] == value, (column, row)

    answers = [case.answer(i) for i in range(len(cycles))]
    found = parts_of(report, case)
    assert [f for f, a in zip(found, answers, strict=True) if a is not None] == [
        a for a in answers if a is not None
    ]


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n]().evidence])
def test_the_evidence_is_named(name: str, read: Any) -> None:
    case, report = CASES[name](), read(name)
    found = evidence_of(report)
    stronger = EVIDENCE[: EVIDENCE.index(case.evidence)]
    assert case.evidence in found
    assert not found.intersection(stronger)
    if "no speculation" not in case.refused:
        assert set(report.verdict.evidence) == found


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_is_withheld_exactly_where_the_trace_does_not_support_it(
    name: str, read: Any
) -> None:
    case, report = CASES[name](), read(name)
    reasons = " ".join(str(reason) for reason in report.verdict.refused)
    if case.refused:
        assert re.search(case.refused, reasons, re.IGNORECASE), reasons
    else:
        assert reasons == ""


@pytest.mark.parametrize("name", CASES)
def test_the_parts_of_a_drawn_cycle_add_up_to_its_length(name: str, read: Any) -> None:
    report = read(name)
    for row in cycles_of(report):
        parts = found_parts(report.tables["parts"], 0, row["cycle"])
        assert sum(parts.values()) == row["end_ns"] - row["start_ns"]


def drawn(timeline: Timeline) -> tuple[list[ref.Op], list[ref.Call]]:
    """The ops and calls of a drawing, for the reference."""
    kinds = {
        "cudaGraphLaunch": "graph_launch",
        "cudaMemcpyAsync": "copy",
        "cudaLaunchKernel": "launch",
    }
    ops, calls = [], []
    for event in timeline.events:
        start, end = event["ts"], event["ts"] + event["dur"]
        args, name = event["args"], event["name"]
        if event["cat"] in ("kernel", "gpu_memcpy"):
            copied = event["cat"] == "gpu_memcpy"
            what = "copy" if copied else "collective" if "nccl" in name else "compute"
            ops.append(ref.Op(start, end, args["stream"], args["correlation"], what, name))
        elif event["cat"].startswith("cuda_"):
            kind = kinds.get(name, "other")
            calls.append(
                ref.Call(
                    start,
                    end,
                    event["tid"],
                    args["correlation"],
                    kind,
                    blocks=name.endswith("Synchronize"),
                )
            )
    return ops, calls


def answers_whole_cycles_of_gpu_work(case: Case) -> bool:
    return bool(case.parts and not case.asked and drawn(case.trace)[0])


@pytest.mark.parametrize("name", [n for n in CASES if answers_whole_cycles_of_gpu_work(CASES[n]())])
def test_the_answers_agree_with_the_slow_reference_but_for_the_stages(name: str) -> None:
    """A guard for the hand, not for specscope: stages apart, work and idle follow from times."""
    case = CASES[name]()
    ops, calls = drawn(case.trace)
    tables = [case.parts_of.get(i, case.parts) for i in range(len(case.kinds or ()))]

    # Cycles whose parts are not asked are as long as those around them.
    usual = sum(read_table(case.parts, 0).values())
    windows, start = [], min(op.start for op in ops)
    for i, table in enumerate(tables):
        length = sum(read_table(table, i).values()) if table else usual
        windows.append((start, start + length))
        start += length
    segments = ref.partition(ops, ref.link(ops, calls), [""] * len(ops), calls, windows)
    for i, (table, parts) in enumerate(zip(tables, ref.parts(segments), strict=True)):
        if table:
            assert without_stages(parts) == without_stages(read_table(table, i)), i


def without_stages(parts: dict[str, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for key, ns in parts.items():
        state, _, what = key.split("/")
        if ns:
            sums[f"{state}/{what}"] = sums.get(f"{state}/{what}", 0) + ns
    return sums


# One fact each.


@pytest.mark.parametrize("metadata_last", [False, True])
@pytest.mark.parametrize("layout", ["torch", "lines", "compact", "array"])
def test_the_layout_of_the_file_changes_nothing(
    layout: Layout, metadata_last: bool, tmp_path: Path
) -> None:
    case = cases_sglang.sglang_0_5_14_spans_of_draft_and_draft_extend()
    report = analyzed(tmp_path, case.trace, layout=layout, metadata_last=metadata_last)
    assert parts_of(report, case) == [case.answer(i) for i in range(5)]


def test_the_order_of_the_events_changes_nothing(tmp_path: Path) -> None:
    case = cases_vllm.vllm_0_16_piecewise_graphs()
    random.Random(0).shuffle(case.trace.events)
    assert parts_of(analyzed(tmp_path, case.trace), case) == [case.answer(i) for i in range(5)]


@pytest.mark.parametrize(
    ("name", "share"),
    [("verify_share_of_95_8_percent", 0.958), ("verify_share_of_94_9_percent", 0.949)],
)
def test_the_share_is_the_median_of_the_shares_of_the_cycles(
    name: str, share: float, read: Any
) -> None:
    verdict = read(name).verdict
    assert verdict.stage == "verify"
    assert verdict.share == pytest.approx(share, abs=1e-9)


def test_a_share_of_verify_holds_accept(read: Any) -> None:
    """Cycles of 120 with verify 44+i and accept 17-i: always 61 of 120."""
    assert read("own_ranges_with_every_field").verdict.share == pytest.approx(61 / 120)


def test_stages_placed_by_structure_alone_are_never_of_high_confidence(read: Any) -> None:
    structure = read("sglang_0_5_10_v2_without_any_mark").verdict.confidence
    assert str(structure).split()[0] != "high"


def test_accept_and_draft_told_by_kernels_alone_are_never_of_high_confidence(
    read: Any,
) -> None:
    confidence = read("vllm_runner_v2_leaves_the_iteration_mark_only").verdict.confidence
    assert str(confidence).split()[0] != "high"


def test_the_verdict_rests_on_the_most_frequent_batch(read: Any) -> None:
    """Five cycles of batch 2 lead, not the three of batch 1 nor the mixed one.

    Verify of cycle i of batch 2 is 93+i of 180; the median is that of i = 2.
    """
    verdict = read("sglang_prefill_inside_a_speculation_cycle").verdict
    assert verdict.share == pytest.approx(95 / 180)


def test_a_warm_up_on_one_rank_is_one_on_all(tmp_path: Path) -> None:
    """Rank 1 begins to profile late, so only rank 0 sees a long first cycle."""
    ranks = []
    for rank, first in ((0, 0), (1, 300)):
        t = Timeline(rank=rank, world_size=2)
        for start in (first, 480, 660, 840, 1020, 1200):
            c = t.at(start)
            c.mark("step[TARGET_VERIFY bs=1]", 51, 60)
            cases_sglang.v2_cycle(c)
        ranks.append(t)
    report = analyzed(tmp_path, *ranks)
    for rank in (0, 1):
        marks = [row["mark"] for row in cycles_of(report, rank)]
        assert marks == ["warmup", "", "", "", ""]


def test_a_run_on_the_cpu_has_no_idle(read: Any) -> None:
    states = set(read("vllm_on_cpu_is_partitioned_on_host_ranges").tables["parts"]["state"])
    assert {str(state) for state in states} == {"work"}


@pytest.mark.parametrize(
    ("name", "exit_code", "says"),
    [
        ("verify_share_of_95_8_percent", 0, ""),
        ("verify_share_of_94_9_percent", 1, "94.9"),
        ("unlinked_work_of_15_percent_withholds_the_verdict", 4, "GPU busy time"),
        ("idle_that_ends_at_unlinked_work_withholds_the_verdict", 4, "placed"),
        ("two_cycles_give_figures_and_no_verdict", 4, "cycle"),
    ],
)
def test_a_check_passes_fails_or_is_not_supported(
    name: str, exit_code: int, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "1712345678-TP-0.trace.json.gz"
    path.write_bytes(CASES[name]().trace.to_gzip())
    command = [sys.executable, "-m", "specscope", "analyze", "--no-cache", str(path)]
    done = subprocess.run(
        [*command, "--check", "verify.share>=0.95"], capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, done.stderr
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
