"""The graphs in a capture trace: which calls are nodes, and what lies around each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.analyzers.captured_graphs import CapturedGraph, _stacks, graphs_of
from specscope.analyzers.graph_layers import ATTENTION, LAYER
from specscope.traces.run import Note
from tests.analyzers.captures import Drawn, capture, graph, read
from tests.build import Timeline


def graphs(t: Timeline) -> list[CapturedGraph]:
    return graphs_of(*read(t))[0]


def notes(t: Timeline) -> list[Note]:
    return graphs_of(*read(t))[1]


def only(*nodes: Drawn, **more: str) -> CapturedGraph:
    (found,) = graphs(graph(*nodes, **more))
    return found


def column(found: CapturedGraph, name: str) -> list[object]:
    return [getattr(node, name) for node in found.nodes]


# Which calls are nodes.


def test_launches_copies_and_sets_between_begin_and_end_are_nodes_in_order() -> None:
    found = only(Drawn(kind="kernel"), Drawn(kind="set"), Drawn(kind="copy"), Drawn(kind="kernel"))
    assert [node.kind for node in found.nodes] == [0, 3, 2, 0]


def test_calls_outside_the_capture_and_on_other_threads_are_none() -> None:
    t = graph(Drawn(kernel="inside"))
    t.call("cudaLaunchKernel", -9, -8, kernel="warm-up")
    t.call("cudaLaunchKernel", 30, 31, kernel="after")
    t.on(99).call("cudaLaunchKernel", 2, 3, kernel="elsewhere")
    assert column(graphs(t)[0], "kernel") == ["inside"]


def test_a_driver_call_inside_a_runtime_call_is_no_node_of_its_own() -> None:
    t = graph(Drawn())
    t.call("cuLaunchKernel", 3.2, 3.8)
    assert len(graphs(t)[0].nodes) == 1


@pytest.mark.parametrize("api", ["cuda", "cu", "hip"])
def test_captures_of_every_api_are_found(api: str) -> None:
    t = Timeline()
    t.call(f"{api}StreamBeginCapture", 0, 1)
    t.call("cudaLaunchKernel", 2, 3)
    t.call(f"{api}StreamEndCapture", 4, 5)
    assert [len(found.nodes) for found in graphs(t)] == [1]


def test_several_captures_in_one_file_are_told_apart_by_their_marks() -> None:
    t = Timeline()
    for number, shape in enumerate(("capture_16_FULL", "capture_8_FULL")):
        capture(t.at(1000 * number), [Drawn()] * (number + 1), shape)
    assert [(found.shape, len(found.nodes)) for found in graphs(t)] == [
        ("capture_16_FULL", 1),
        ("capture_8_FULL", 2),
    ]


def test_a_capture_without_its_end_is_left_out_and_counted() -> None:
    t = graph(Drawn())
    t.call("cudaStreamBeginCapture", 50, 51)
    t.call("cudaLaunchKernel", 52, 53)
    assert len(graphs(t)) == 1
    assert [note.code for note in notes(t)] == ["graph_capture_left_out"]


def test_a_capture_that_is_begun_again_counts_from_the_second_begin() -> None:
    t = Timeline()
    for at in (0, 10):
        t.call("cudaStreamBeginCapture", at, at + 1)
        t.call("cudaLaunchKernel", at + 2, at + 3)
    t.call("cudaStreamEndCapture", 20, 21)
    assert [len(found.nodes) for found in graphs(t)] == [1]
    assert "1 graph captures begun and not ended" in notes(t)[0].text


def test_a_capture_with_a_graph_launched_inside_is_left_out() -> None:
    t = graph(Drawn())
    t.call("cudaGraphLaunch", 7, 8)
    assert graphs(t) == []
    assert "with a graph launched inside" in notes(t)[0].text


def test_an_empty_capture_is_no_graph() -> None:
    assert graphs(graph()) == []


# What lies around each.


def test_layers_are_numbered_as_they_appear_whatever_the_number_of_the_instance() -> None:
    found = only(
        Drawn("Model_0/Embedding_0"),
        Drawn("Model_0/LinearDecoderLayer_7/MLP_3"),
        Drawn("Model_0/FullDecoderLayer_2/MLP_9"),
        Drawn("Model_0/Norm_1"),
    )
    assert column(found, "layer") == [None, 0, 1, None]
    assert column(found, "part") == ["Embedding", "MLP", "MLP", "Norm"]
    assert (found.layers_by, found.layers) == ("module", 2)


def test_a_kernel_right_in_the_layer_belongs_to_the_layer_itself() -> None:
    assert column(only(Drawn("Model_0/DecoderLayer_0")), "part") == ["DecoderLayer"]


def test_a_layer_that_runs_again_is_another_forward() -> None:
    step = (Drawn("Draft_0/DecoderLayer_0/MLP_0"), Drawn("Sampler_0"))
    found = only(*step, *step, *step)
    assert column(found, "forward") == [0, 0, 1, 1, 2, 2]
    assert found.layers == 1


def test_the_layers_of_two_models_in_one_graph_are_counted_apart() -> None:
    found = only(Drawn("Target_0/DecoderLayer_0"), Drawn("Draft_0/DecoderLayer_1"))
    assert column(found, "layer") == [0, 0]
    assert found.layers == 2


def test_the_operator_is_what_the_innermost_module_called_and_what_made_the_call() -> None:
    t = graph(Drawn("Model_0/Linear_0", "aten::linear/aten::mm"))
    t.operator("outside::everything", -0.5, 9.5)
    (found,) = graphs(t)
    assert column(found, "operator") == ["aten::linear"]
    assert column(found, "inner") == ["aten::mm"]


def test_an_operator_around_the_modules_is_named_where_there_is_no_other() -> None:
    t = graph(Drawn("Model_0/Linear_0"))
    t.operator("vllm::moe_forward", -0.5, 9.5)
    assert column(graphs(t)[0], "operator") == ["vllm::moe_forward"]


def test_without_layer_modules_a_layer_reaches_from_one_attention_to_the_next() -> None:
    attention = Drawn("Compiled_0", "vllm::unified_attention_with_output")
    gemm = Drawn("Compiled_0", "aten::mm")
    found = only(gemm, attention, gemm, gemm, attention, gemm)
    assert column(found, "layer") == [None, 0, 0, 0, 1, 1]
    assert found.layers_by == "attention"
    assert column(found, "part")[:2] == ["aten::mm", "vllm::unified_attention_with_output"]


def test_two_kernels_of_one_attention_are_one_layer() -> None:
    t = graph(Drawn(), Drawn())
    t.operator("vllm::unified_attention", -0.5, 19)
    assert column(graphs(t)[0], "layer") == [0, 0]


def test_without_modules_and_operators_nothing_is_guessed() -> None:
    found = only(Drawn(), Drawn())
    assert found.layers_by == ""
    assert {(node.layer, node.part, node.module, node.operator) for node in found.nodes} == {
        (None, "", "", "")
    }


@pytest.mark.parametrize(
    "name",
    [
        "Qwen3DecoderLayer",
        "Qwen3MoeDecoderLayer",
        "NemotronHAttentionDecoderLayer",
        "LinearDecoderLayer",
        "GPTBlock",
        "TransformerBlock",
        "GPTNeoXLayer",
        "DeepSeekMultiTokenPredictorLayer",
        "DecoderLayerV2",
    ],
)
def test_classes_of_layers_are_known(name: str) -> None:
    assert LAYER.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["LayerNorm", "MLPBlock", "SparseMoeBlock", "EmbeddingLayer", "RowParallelLinear"]
)
def test_classes_of_parts_are_no_layers(name: str) -> None:
    assert not LAYER.fullmatch(name)


def test_the_write_of_the_kv_cache_is_no_attention() -> None:
    assert ATTENTION.fullmatch("vllm::unified_mla_attention_with_output")
    assert not ATTENTION.fullmatch("vllm::unified_kv_cache_update")


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=12)


@given(spans, st.lists(st.integers(0, 45), max_size=12))
def test_the_ranges_around_a_call_are_those_that_hold_its_start(
    drawn: list[tuple[int, int]], times: list[int]
) -> None:
    start = np.array([begin for begin, _ in drawn], np.int64)
    # Frames of a thread nest: each is cut at the end of the one that it begins in.
    end = nested(start, start + np.array([size for _, size in drawn], np.int64))
    at = np.array(sorted(times), np.int64)
    found = _stacks(np.arange(len(start)), start, end, at)
    assert [sorted(stack) for stack in found] == [
        [row for row in range(len(start)) if start[row] <= time < end[row]] for time in at
    ]
    for stack in found:
        lengths = [int(end[row] - start[row]) for row in stack]
        assert lengths == sorted(lengths, reverse=True)


def nested(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    end = end.copy()
    for row in np.lexsort((-end, start)):
        for outer in range(len(start)):
            if outer != row and start[outer] <= start[row] < end[outer] < end[row]:
                end[row] = end[outer]
    return end
