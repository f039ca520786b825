"""Which captured graph a launch replays, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.analyzers.graph_inside import own_ns
from specscope.analyzers.graph_layers import operator_of
from specscope.analyzers.kernel_names import qualified, same_kernel
from specscope.analyzers.links import Ops
from tests.analyzers.captures import NAMES, Drawn, graph, replay, report_of, served
from tests.build import GEMM, Timeline

LAYER = "Model_0/DecoderLayer_{}/MLP_{}"
NVIDIA = tuple(Drawn(LAYER.format(i, i), "aten::mm") for i in range(3))


def named(*kernels: str) -> tuple[Drawn, ...]:
    return tuple(Drawn("Model_0", "aten::mm", kernel) for kernel in kernels)


def warning(report: Any) -> str:
    (text,) = [note.text for note in report.warnings if note.code == "graph_not_mapped"]
    return str(text)


def modules(report: Any) -> list[str]:
    return list(report.tables["graph_nodes"]["module"].to_pylist())


# What is mapped.


def test_without_kernel_names_equal_counts_and_kinds_map_every_op() -> None:
    report = report_of(served([GEMM] * 3, launches=2), graph(*NVIDIA))
    assert modules(report) == [LAYER.format(i, i) for i in range(3)] * 2
    assert (report.graphs.launches, report.graphs.mapped) == (2, 2)


def test_every_row_names_its_op_and_its_launch() -> None:
    report = report_of(served([GEMM] * 3, launches=2), graph(*NVIDIA))
    calls = {row["op_id"]: row["call_id"] for row in report.tables["ops"].to_pylist()}
    rows = report.tables["graph_nodes"].to_pylist()
    assert {row["op_id"]: row["call_id"] for row in rows} == calls
    assert [row["position"] for row in rows] == [0, 1, 2] * 2


def test_copies_and_sets_are_nodes_of_their_own() -> None:
    nodes = (Drawn("A_0"), Drawn("B_0", kind="set"), Drawn("C_0", kind="copy"))
    ran = [GEMM, NAMES["set"], NAMES["copy"]]
    assert modules(report_of(served(ran), graph(*nodes))) == ["A_0", "B_0", "C_0"]


def test_kernels_that_rocm_runs_for_copies_and_sets_stand_for_them() -> None:
    nodes = (Drawn("A_0", kind="copy"), Drawn("B_0", kind="set"))
    ran = ["__amd_rocclr_copyBuffer", "__amd_rocclr_fillBufferAligned.kd"]
    assert modules(report_of(served(ran), graph(*nodes, api="hip"))) == ["A_0", "B_0"]


def test_of_two_graphs_of_one_size_the_names_tell_which_was_replayed() -> None:
    one, other = named("gemm_a", "norm"), named("gemm_b", "norm")
    other = tuple(node.__class__("Other_0", "", node.kernel) for node in other)
    report = report_of(served(["gemm_b", "norm"]), graph(*one), graph(*other))
    assert modules(report) == ["Other_0"] * 2


def test_two_graphs_that_mean_the_same_fit_both() -> None:
    """Two batch sizes: the same modules in the same order."""
    shapes = ("capture_16_FULL", "capture_8_FULL")
    report = report_of(served([GEMM] * 3), *(graph(*NVIDIA, shape=shape) for shape in shapes))
    (inside,) = report.graphs.inside
    assert inside.titles == shapes
    assert report.graphs.replayed == 1


def test_a_mangled_name_in_one_trace_fits_the_demangled_one_in_the_other() -> None:
    report = report_of(
        served(["void aiter::norm_kernel<__hip_bfloat16, 256>(__hip_bfloat16*)"]),
        graph(*named("_ZN5aiter11norm_kernelI14__hip_bfloat16Li256EEEvPT_")),
    )
    assert report.graphs.mapped == 1


def test_a_rank_is_held_against_its_own_captures() -> None:
    own = graph(*NVIDIA, rank=0)
    foreign = graph(*(Drawn("Foreign_0"),) * 3, rank=1)
    assert modules(report_of(served([GEMM] * 3), own, foreign))[0] == LAYER.format(0, 0)


def test_captures_of_another_rank_serve_where_the_rank_has_none() -> None:
    """vLLM writes those of rank 0 alone."""
    assert report_of(served([GEMM] * 3), graph(*NVIDIA, rank=5)).graphs.mapped == 1


# What is refused.


def test_another_count_is_refused_with_both_counts() -> None:
    report = report_of(served([GEMM] * 4), graph(*NVIDIA), graph(*NVIDIA[:1]))
    assert modules(report) == []
    assert "4 ops in the replay, 1, 3 in the captured graphs" in warning(report)


def test_a_replay_that_lost_one_row_is_refused() -> None:
    report = report_of(served([GEMM] * 2), graph(*NVIDIA))
    assert report.graphs.mapped == 0


def test_another_name_is_refused_with_its_place_and_both_names() -> None:
    report = report_of(
        served(["a", "x", "c"]), graph(*named("a", "b", "c"), shape="capture_1_FULL")
    )
    assert modules(report) == []
    text = warning(report)
    assert "in capture_1_FULL, but 1 of them differ, first number 1: x ran, b was captured" in text


def test_another_kind_is_refused() -> None:
    report = report_of(served([GEMM, NAMES["set"], GEMM]), graph(*NVIDIA))
    assert "Memset (Device) ran, a kernel was captured" in warning(report)


def test_graphs_that_differ_in_meaning_and_not_in_what_can_be_checked_are_refused() -> None:
    report = report_of(served([GEMM] * 3), graph(*NVIDIA), graph(*(Drawn("Other_0"),) * 3))
    assert modules(report) == []
    assert "3 ops fit 2 captured graphs with different modules" in warning(report)


def test_two_batch_sizes_of_one_model_are_one_graph_and_where_they_differ_nothing_is_said() -> None:
    """As SGLang captures batch 1 and 8: embeddings are looked up by another function."""

    first, second = ("aten::gather", "aten::index_select")
    report = report_of(
        served([GEMM] * 2),
        *(
            graph(Drawn("Model_0", "aten::mm"), Drawn("Model_0", f"aten::embedding/{inner}"))
            for inner in (first, second)
        ),
    )
    rows = report.tables["graph_nodes"].to_pylist()
    assert [row["operator"] for row in rows] == ["aten::mm", "aten::embedding"]
    assert [row["inner_operator"] for row in rows] == ["aten::mm", ""]


def test_code_that_torch_compile_makes_for_a_shape_is_one_operator() -> None:
    assert operator_of("Torch-Compiled Region: 3/1") == "Torch-Compiled Region: 3"
    assert operator_of("aten::add/1") == "aten::add/1"


def test_several_streams_are_refused_where_no_name_can_check_the_order() -> None:
    report = report_of(served([GEMM] * 3, streams=(7, 8, 7)), graph(*NVIDIA))
    assert modules(report) == []
    assert "3 ops on 2 streams, and the capture has no kernel names" in warning(report)


def test_several_streams_are_mapped_where_every_name_agrees() -> None:
    report = report_of(served(["a", "b", "c"], streams=(7, 8, 7)), graph(*named("a", "b", "c")))
    assert report.graphs.mapped == 1


def test_several_streams_in_another_order_are_refused_and_say_so() -> None:
    report = report_of(served(["b", "a"], streams=(7, 8)), graph(*named("a", "b")))
    assert warning(report).endswith("; its ops ran on 2 streams")


def test_launches_in_another_order_than_most_are_refused_where_no_name_tells() -> None:
    """A graph on one stream has one order: some times of those launches are wrong."""
    t = served(["a", "b", "c"], launches=3)
    odd = t.at(1000)
    odd.mark("step[DECODE bs=1]", 0, 5)
    replay(odd, ["b", "a", "c"])
    report = report_of(t, graph(*NVIDIA))
    assert (report.graphs.launches, report.graphs.mapped) == (4, 3)
    assert "other launches run the same kernels in another order" in warning(report)
    told = (graph(*named(*kernels)) for kernels in ("abc", "bac"))
    assert report_of(t, *told).graphs.mapped == 4


def test_where_no_order_is_that_of_most_none_is_believed() -> None:
    t = served(["a", "b", "c"])
    odd = t.at(1000)
    odd.mark("step[DECODE bs=1]", 0, 5)
    replay(odd, ["b", "a", "c"])
    assert report_of(t, graph(*NVIDIA)).graphs.mapped == 0


def test_one_line_stands_for_all_launches_that_are_refused_alike() -> None:
    report = report_of(served([GEMM] * 4, launches=5), graph(*NVIDIA))
    assert warning(report).startswith("5 graph launches of decode not mapped: ")


def test_a_trace_without_graph_launches_is_told_so() -> None:
    t = Timeline()
    t.mark("step[DECODE bs=1]", 0, 5)
    t.launch(1, 2, GEMM, 3, 9)
    report = report_of(t, graph(*NVIDIA))
    assert "no graph launch in the trace" in next(
        note.text for note in report.warnings if note.code == "graph_none"
    )


def test_without_capture_traces_nothing_is_shown() -> None:
    from specscope.analyzers.analyze import analyze
    from tests.dashboards.reports import bundled

    report = analyze(bundled().run)
    assert report.graphs is None
    assert "graph_nodes" not in report.tables


kinds = st.sampled_from(["kernel", "copy", "set"])
nodes = st.lists(st.tuples(kinds, st.sampled_from("ab"), st.booleans()), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(nodes, nodes)
def test_a_replay_is_mapped_when_every_place_agrees_and_not_else(
    captured: list[tuple[str, str, bool]], ran: list[tuple[str, str, bool]]
) -> None:
    """One node: its kind, its kernel, and whether the capture has the kernel's name."""
    drawn = [
        Drawn(f"M_{i}", "", kernel if kind == "kernel" and known else None, kind)
        for i, (kind, kernel, known) in enumerate(captured)
    ]
    report = report_of(served([NAMES.get(kind, name) for kind, name, _ in ran]), graph(*drawn))
    agree = len(captured) == len(ran) and all(
        kind == other and (kind != "kernel" or not known or kernel == name)
        for (kind, kernel, known), (other, name, _) in zip(captured, ran, strict=False)
    )
    assert report.graphs.mapped == agree
    assert modules(report) == ([f"M_{i}" for i in range(len(ran))] if agree else [])


# Figures.


def test_figures_of_layers_are_sums_of_their_ops() -> None:
    t = Timeline()
    t.mark("step[DECODE bs=1]", 0, 5)
    spans = ((10, 12), (12, 17), (20, 30), (31, 32))
    t.graph(1, 3, *((GEMM, *span) for span in spans))
    drawn = (
        Drawn("M_0/DecoderLayer_0/Attention_0", "aten::mm"),
        Drawn("M_0/DecoderLayer_0/MLP_0", "aten::mm"),
        Drawn("M_0/DecoderLayer_1/MLP_1", "aten::add"),
        Drawn("M_0/Norm_0", "aten::norm"),
    )
    (inside,) = report_of(t, graph(*drawn)).graphs.inside
    assert inside.ns == 18_000
    layer = inside.in_layers.layer_ns
    assert (layer.low, layer.median, layer.high) == (7_000, 8_500, 10_000)
    assert {part.name: (part.in_layer, part.nodes, part.ns) for part in inside.parts} == {
        "MLP": (True, 2, 15_000),
        "Attention": (True, 1, 2_000),
        "Norm": (False, 1, 1_000),
    }
    assert [(row.operator, row.ns) for row in inside.operators] == [
        ("aten::add", 10_000),
        ("aten::mm", 7_000),
        ("aten::norm", 1_000),
    ]


def test_a_kernel_without_an_operator_goes_by_its_own_name() -> None:
    (inside,) = report_of(served(["triton_kernel"]), graph(Drawn("M_0"))).graphs.inside
    assert [(row.operator, row.kernel) for row in inside.operators] == [("", "triton_kernel")]


def test_a_collective_is_told_inside_its_part() -> None:
    from tests.build import ALL_REDUCE

    drawn = (Drawn("M_0/DecoderLayer_0/MLP_0"),) * 2
    (inside,) = report_of(served([GEMM, ALL_REDUCE]), graph(*drawn)).graphs.inside
    assert [part.collective_ns for part in inside.parts] == [3_000]


ops = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=8
)


@given(ops)
def test_the_time_of_an_op_is_what_no_earlier_one_of_its_stream_covers(
    drawn: list[tuple[int, int, int]],
) -> None:
    drawn = sorted(drawn)
    start = np.array([begin for begin, _, _ in drawn], np.int64)
    end = start + np.array([size for _, size, _ in drawn], np.int64)
    stream = np.array([one for _, _, one in drawn], np.int64)
    blank: Any = dict.fromkeys(Ops.__dataclass_fields__)
    table = Ops(**{**blank, "start": start, "end": end, "stream": stream})
    taken: set[tuple[int, int]] = set()
    expected = []
    for begin, until, on in zip(start.tolist(), end.tolist(), stream.tolist(), strict=True):
        instants = {(on, at) for at in range(begin, until)} - taken
        # What is covered lies at the beginning: an earlier op began before it.
        expected.append(len(instants))
        taken |= instants
    assert own_ns(table, np.arange(len(drawn))[None, :])[0].tolist() == expected


# Names.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("triton_poi_fused_0.kd", "triton_poi_fused_0"),
        ("void a::b<c<d> >(int)", "void a::b<c<d>>(int)"),
        ("_Z4siluPfi", "silu(float*, int)"),
        (
            "_ZN2at6native12_GLOBAL__N_13addIfEEvT_",
            "void at::native::(anonymous namespace)::add<float>(float)",
        ),
        ("_ZL4copyPf [clone .kd]", "copy(float*)"),
    ],
)
def test_two_spellings_of_one_kernel(one: str, other: str) -> None:
    assert same_kernel(one, other)
    assert same_kernel(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void a::b<float>(int)", "void a::b<half>(int)"),
        ("_ZN1a1bIfEEvv", "_ZN1a1bIdEEvv"),
        ("_ZN5aiter4normIfEEvv", "void aiter::gemm<float>()"),
        ("_Z", "f()"),
        ("_Z99short", "short"),
    ],
)
def test_two_kernels(one: str, other: str) -> None:
    assert not same_kernel(one, other)
    assert not same_kernel(other, one)


@given(st.text(max_size=30))
def test_no_name_breaks_the_reading_of_names(text: str) -> None:
    assert isinstance(qualified("_Z" + text), str)
    assert same_kernel(text, text)
