"""Reading graph-capture traces: kernel names, folders, refusals in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope.traces.errors import TraceFormatError, UsageError
from specscope.traces.graph_capture import load_capture_traces
from tests.analyzers.captures import Drawn, graph
from tests.build import Timeline
from tests.traces.small import write_trace


def write(path: Path, *nodes: Drawn, rank: int | None = None, pack: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    t = graph(*(nodes or (Drawn(),)), rank=rank)
    path.write_bytes(t.to_gzip() if pack else t.to_json())
    return path


def kernels(path: Path) -> list[str]:
    (trace,) = load_capture_traces(path)
    return [name for name in trace.calls["kernel"].to_pylist() if name is not None]


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("reader", ["native", "pure"])
def test_the_kernel_that_a_launch_call_names_is_read(
    tmp_path: Path, pack: bool, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECSCOPE_PURE_PYTHON", "1" if reader == "pure" else "0")
    names = ["plain", 'quote " and \\ and ä', "x" * 100_000, "last"]
    path = write(tmp_path / "c.json", *(Drawn(kernel=name) for name in names), pack=pack)
    assert kernels(path) == names


def test_a_launch_call_without_a_kernel_has_none(tmp_path: Path) -> None:
    assert kernels(write(tmp_path / "c.json", Drawn(), Drawn(kernel="k"))) == ["k"]


def test_names_stand_at_their_calls_also_when_the_file_is_not_in_order(tmp_path: Path) -> None:
    t = graph(Drawn(kernel="first"), Drawn(kernel="second"))
    t.events.reverse()
    (tmp_path / "c.json").write_bytes(t.to_json())
    (trace,) = load_capture_traces(tmp_path / "c.json")
    rows = sorted(trace.calls.to_pylist(), key=lambda row: row["start_ns"])
    assert [row["kernel"] for row in rows if row["kernel"]] == ["first", "second"]


def test_modules_are_kept_and_other_frames_are_not(tmp_path: Path) -> None:
    t = graph(Drawn("Model_0"))
    t.frame("torch/nn/modules/module.py(1779): _call_impl", 0, 5)
    (tmp_path / "c.json").write_bytes(t.to_json())
    (trace,) = load_capture_traces(tmp_path / "c.json")
    assert trace.ranges["name"].to_pylist() == ["nn.Module: Model_0"]


def test_the_rank_is_the_recorded_one_else_that_of_the_name(tmp_path: Path) -> None:
    named = write(tmp_path / "bs_8_rank3.json")
    recorded = write(tmp_path / "bs_16_rank3.json", rank=1)
    assert [trace.rank for trace in load_capture_traces([named, recorded])] == [3, 1]


def test_of_a_folder_the_files_named_so_are_read_in_it_and_right_below(tmp_path: Path) -> None:
    write(tmp_path / "graph_capture_profile" / "cuda_graph_capture-CudaGraphRunner-TP-0.json.gz")
    write(tmp_path / "CudaGraphRunner_bs_8_rank0.json.gz")
    write_trace(tmp_path, "rank0.trace.json")
    found = [Path(trace.path).name for trace in load_capture_traces(tmp_path)]
    assert found == [
        "CudaGraphRunner_bs_8_rank0.json.gz",
        "cuda_graph_capture-CudaGraphRunner-TP-0.json.gz",
    ]


def test_of_a_folder_without_such_names_the_traces_with_a_capture_are_read(tmp_path: Path) -> None:
    write(tmp_path / "one.json")
    write_trace(tmp_path, "two.json")
    assert [Path(trace.path).name for trace in load_capture_traces(tmp_path)] == ["one.json"]


def test_a_trace_of_serving_is_refused(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "rank0.trace.json")
    for given in (path, tmp_path):
        with pytest.raises(TraceFormatError, match="graph capture") as error:
            load_capture_traces(given)
        assert "\n" not in str(error.value)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="holds no trace of a graph capture"):
        load_capture_traces(tmp_path)


def test_what_cannot_be_read_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="standard input"):
        load_capture_traces("-")
    with pytest.raises(UsageError, match="does not exist"):
        load_capture_traces(tmp_path / "none.json")
    (tmp_path / "page.json").write_text("<!DOCTYPE html>")
    with pytest.raises(TraceFormatError, match="web page"):
        load_capture_traces(tmp_path / "page.json")


def test_a_merged_file_is_refused(tmp_path: Path) -> None:
    t = graph(Drawn())
    for event in t.events:
        event["pid"] = f"[TP00] {event['pid']}"
    (tmp_path / "c.json").write_bytes(t.to_json())
    with pytest.raises(TraceFormatError, match="merged from several ranks"):
        load_capture_traces(tmp_path / "c.json")


def test_a_file_that_ends_early_keeps_its_losses(tmp_path: Path) -> None:
    t = graph(Drawn(kernel="k"))
    t.mark("after", 50, 60)
    text = t.to_json()
    (tmp_path / "c.json").write_bytes(text[: text.index(b"after")])
    (trace,) = load_capture_traces(tmp_path / "c.json")
    assert trace.losses["reason"].to_pylist() == ["truncated"]


def test_text_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="--max-text"):
        load_capture_traces(write(tmp_path / "c.json"), max_text_bytes=100)


def test_a_damaged_launch_call_has_no_kernel(tmp_path: Path) -> None:
    """It is mended or skipped by the reader; its name is not guessed."""
    t = Timeline()
    t.call("cudaStreamBeginCapture", 0, 1)
    t.call("cudaLaunchKernel", 2, 3, kernel='a"b')
    t.call("cudaStreamEndCapture", 4, 5)
    (tmp_path / "c.json").write_bytes(t.to_json().replace(b'a\\"b', b'a"b'))
    assert kernels(tmp_path / "c.json") == []
