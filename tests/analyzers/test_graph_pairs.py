"""Recorded captures and their replays: every kernel gets its module.

The answers are taken from the JSON text by plain containment, beside the code under test.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specscope.analyzers.analyze import Options, analyze
from specscope.traces.graph_capture import load_capture_traces
from specscope.traces.load import load
from tests.shared import shared_path

SGLANG = (
    "2026-05-sglang-qwen3-8b-mi300x-graph-capture-bs32.json.gz",
    "2026-05-sglang-qwen3-8b-mi300x-decode-hipgraph.json.gz",
    544,
)
VLLM = (
    "2026-03-vllm-mi300-decode-graph-capture.json.gz",
    "2026-03-vllm-mi300-decode-full-hipgraph.json.gz",
    421,
)
NVIDIA = Path(__file__).resolve().parents[1] / "data" / "own-graph-capture"


@dataclass(frozen=True)
class Expected:
    """One launch call of the capture as its JSON text has it."""

    modules: str
    operator: str | None  # whose External id the call carries
    kernel: str | None


def events(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes())
    found = json.loads(text, strict=False)["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


@cache
def expected(path: Path) -> list[Expected]:
    """The calls between the begin and the end of the first capture of a file."""
    found = events(path)
    calls = [e for e in found if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    (begin, *_) = sorted(e["ts"] for e in calls if "StreamBeginCapture" in e["name"])
    (end, *_) = sorted(e["ts"] for e in calls if "StreamEndCapture" in e["name"])
    frames = [e for e in found if e["name"].startswith("nn.Module: ")]
    operators = {e["args"]["External id"]: e["name"] for e in found if e.get("cat") == "cpu_op"}
    launches = [
        e
        for e in calls
        if begin < e["ts"] < end and any(w in e["name"] for w in ("Launch", "Memcpy", "Memset"))
    ]
    out = []
    for call in sorted(launches, key=lambda e: e["ts"]):
        around = [f for f in frames if f["ts"] <= call["ts"] < f["ts"] + f["dur"]]
        around.sort(key=lambda f: (f["ts"], -f["dur"]))
        out.append(
            Expected(
                "/".join(f["name"].removeprefix("nn.Module: ") for f in around),
                operators.get(call["args"].get("External id")),
                call["args"].get("kernel"),
            )
        )
    return out


def report_of(capture: Path, trace: Path) -> Any:
    return analyze(load(trace, cache=False), Options(captures=load_capture_traces(capture)))


@cache
def pair(names: tuple[str, str, int]) -> Any:
    capture, trace, _ = (shared_path("traces", "public", str(name)) for name in (*names[:2], ""))
    return report_of(capture, trace)


@pytest.mark.parametrize("names", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_every_kernel_of_a_replay_gets_its_module_and_operator(
    names: tuple[str, str, int],
) -> None:
    report = pair(names)
    rows = report.tables["graph_nodes"].to_pylist()
    ops = report.tables["ops"].to_pylist()
    answers = expected(shared_path("traces", "public", names[0]))
    assert len(rows) == len(answers) == names[2]
    assert all(row["module"] for row in rows)
    assert [row["module"] for row in rows] == [answer.modules for answer in answers]
    assert [row["inner_operator"] for row in rows] == [answer.operator for answer in answers]
    assert [ops[row["op_id"]]["name"] for row in rows] == [answer.kernel for answer in answers]
    assert [row["position"] for row in rows] == list(range(names[2]))


@pytest.mark.parametrize("names", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_every_launch_call_on_rocm_names_its_kernel(names: tuple[str, str, int]) -> None:
    (captured,) = pair(names).graphs.captured
    answers = expected(shared_path("traces", "public", names[0]))
    assert [node.kernel for node in captured.nodes] == [answer.kernel for answer in answers]
    assert captured.named == names[2]


@pytest.mark.parametrize("names", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_the_mark_around_the_capture_names_the_graph(names: tuple[str, str, int]) -> None:
    (inside,) = pair(names).graphs.inside
    mark = "capture_32_DECODE" if names is SGLANG else "capture_32_FULL"
    assert (inside.stage, inside.titles, inside.nodes) == ("decode", (mark,), names[2])


def test_the_layers_of_sglang_are_the_36_of_the_model() -> None:
    report = pair(SGLANG)
    (inside,) = report.graphs.inside
    assert (inside.layers, inside.layers_by) == (36, "module")
    rows = report.tables["graph_nodes"].to_pylist()
    for row in rows:
        number = [p for p in row["module"].split("/") if p.startswith("Qwen3DecoderLayer_")]
        assert number == ([] if row["layer"] is None else [f"Qwen3DecoderLayer_{row['layer']}"])


def test_work_of_a_part_is_the_sum_of_its_kernels() -> None:
    """The kernels of this launch do not overlap, so that their lengths are their work."""
    report = pair(SGLANG)
    (inside,) = report.graphs.inside
    (trace,) = [shared_path("traces", "public", SGLANG[1])]
    launch = Counter(e["args"].get("correlation") for e in events(trace) if e["cat"] == "kernel")
    correlation = launch.most_common(1)[0][0]
    kernels = [
        e for e in events(trace) if e["cat"] == "kernel" and e["args"]["correlation"] == correlation
    ]
    kernels.sort(key=lambda e: e["ts"])
    answers = expected(shared_path("traces", "public", SGLANG[0]))
    layers = np.zeros(36)
    for kernel, answer in zip(kernels, answers, strict=True):
        path = answer.modules.split("/")
        if len(path) > 2 and path[2].startswith("Qwen3Attention"):
            layers[int(path[1].rsplit("_", 1)[1])] += kernel["dur"] * 1000
    (part,) = [part for part in inside.parts if part.name == "Qwen3Attention"]
    assert part.ns == pytest.approx(layers.sum(), rel=1e-6)
    assert part.layer_ns.median == pytest.approx(np.median(layers), rel=1e-6)
    assert part.layer_ns.low == pytest.approx(layers.min(), rel=1e-6)
    assert part.layer_ns.high == pytest.approx(layers.max(), rel=1e-6)


def test_the_compiled_model_of_vllm_has_24_attentions() -> None:
    (inside,) = pair(VLLM).graphs.inside
    assert (inside.layers, inside.layers_by) == (24, "attention")
    assert inside.parts[0].name == "vllm::moe_forward"


# The recording on an NVIDIA GPU, in the repository.


@cache
def nvidia() -> Any:
    return report_of(NVIDIA / "graph_capture.json.gz", NVIDIA / "rank0.trace.json.gz")


def test_launch_calls_on_nvidia_name_no_kernel() -> None:
    assert {graph.named for graph in nvidia().graphs.captured} == {0}


def test_target_and_draft_are_mapped_by_count_and_the_graph_on_two_streams_is_refused() -> None:
    graphs = nvidia().graphs
    assert [(one.stage, one.nodes, one.launches) for one in graphs.inside] == [
        ("draft", 57, 7),
        ("verify", 51, 7),
    ]
    assert [(one.stage, one.ops, one.launches) for one in graphs.refused] == [("accept", 14, 8)]
    assert "on 2 streams" in graphs.refused[0].reason


def test_three_draft_steps_are_three_forwards_of_one_layer() -> None:
    draft = nvidia().graphs.inside[0]
    assert (draft.forwards, draft.layers, draft.in_layers.nodes) == (3, 1, 36)


def test_on_nvidia_kernels_agree_with_the_operators_they_are_mapped_to() -> None:
    """Nothing but the order joins them, so what both say of themselves is a check of it."""
    report = nvidia()
    ops = {row["op_id"]: row["name"] for row in report.tables["ops"].to_pylist()}
    found = Counter(
        (word, row["inner_operator"])
        for row in report.tables["graph_nodes"].to_pylist()
        for word in ("nvjet", "sdpa", "Memcpy", "Memset", "indexSelect", "layer_norm", "add_one")
        if word in ops[row["op_id"]]
    )
    assert {word: {op for w, op in found if w == word} for word, _ in found} == {
        "nvjet": {"aten::addmm"},
        "sdpa": {"aten::_cudnn_attention_forward"},
        "Memset": {"aten::_cudnn_attention_forward"},
        "Memcpy": {"aten::copy_"},
        "indexSelect": {"aten::index_select"},
        "layer_norm": {"aten::_fused_rms_norm"},
        "add_one": {""},
    }


def test_modules_on_nvidia_are_those_of_the_capture() -> None:
    report = nvidia()
    rows = report.tables["graph_nodes"].to_pylist()
    answers = expected(NVIDIA / "graph_capture.json.gz")
    verify = [row for row in rows if row["graph"] == 0]
    assert [row["module"] for row in verify[: len(answers)]] == [a.modules for a in answers]
    assert len(verify) == 9 * len(answers)
