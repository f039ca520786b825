"""Folders as servers write them: the newest capture is read, the rest is listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specscope.traces.errors import TraceFormatError
from specscope.traces.folder import choose
from tests.shared import shared_path
from tests.traces.small import write_trace

SECOND = 10**9
OLD, NEW = 1712345678_000000000, 1712345978_000000000


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        write_trace(folder, name)
    return folder


def chosen(folder: Path) -> list[str]:
    return [path.name for path in choose(folder).files]


def test_sglang_the_newest_profile_id_is_read_with_all_its_ranks(tmp_path: Path) -> None:
    old = [f"1712345678.25-TP-{rank}.trace.json.gz" for rank in range(2)]
    new = [f"1712345978.5-TP-{rank}.trace.json.gz" for rank in range(2)]
    found = choose(fill(tmp_path, [*new, *old]))
    assert [path.name for path in found.files] == new
    assert found.listed == tuple(f"{name}: an older capture" for name in old)
    assert [note.code for note in found.notes] == ["captures_listed"]
    assert "2 captures" in found.notes[0].text
    assert new[0] in found.notes[0].text


def test_time_in_the_name_decides_and_not_the_time_of_the_file(tmp_path: Path) -> None:
    fill(tmp_path, ["1712345978.5-TP-0.trace.json.gz", "1712345678.5-TP-0.trace.json.gz"])
    os.utime(tmp_path / "1712345978.5-TP-0.trace.json.gz", (1, 1))
    assert chosen(tmp_path) == ["1712345978.5-TP-0.trace.json.gz"]


def test_sglang_ranks_stand_in_order_of_numbers(tmp_path: Path) -> None:
    names = [f"17.5-TP-{rank}.trace.json.gz" for rank in range(11)]
    assert chosen(fill(tmp_path, names)) == names


def test_both_stages_of_a_by_stage_capture_are_handed_on(tmp_path: Path) -> None:
    names = [f"17.5-TP-0-{stage}.trace.json.gz" for stage in ("DECODE", "EXTEND")]
    assert chosen(fill(tmp_path, names)) == names


def test_a_prefix_makes_another_capture(tmp_path: Path) -> None:
    names = ["a-1712345678.5-TP-0.trace.json.gz", "b-1712345978.5-TP-0.trace.json.gz"]
    assert chosen(fill(tmp_path, names)) == names[1:]


@pytest.mark.parametrize(
    "pattern",
    [
        "rank{rank}.{stamp}.pt.trace.json.gz",
        "a1b2-rank-{rank}.{stamp}.pt.trace.json.gz",
        "dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.{stamp}.pt.trace.json.gz",
        "pre_dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.{stamp}.pt.trace.json",
        "gpu.host.example_812{rank}.{stamp}.pt.trace.json.gz",
    ],
)
def test_vllm_of_every_generation_the_newest_file_of_each_worker(
    tmp_path: Path, pattern: str
) -> None:
    def names(stamp: int) -> list[str]:
        return [pattern.format(rank=rank, stamp=stamp + rank * SECOND) for rank in range(2)]

    assert chosen(fill(tmp_path, names(OLD) + names(NEW))) == names(NEW)


def test_vllm_captures_close_to_one_another_are_cut_where_a_worker_comes_again(
    tmp_path: Path,
) -> None:
    def names(stamp: int) -> list[str]:
        return [f"rank{rank}.{stamp + rank}.pt.trace.json.gz" for rank in range(2)]

    assert chosen(fill(tmp_path, names(OLD) + names(OLD + 20 * SECOND))) == names(OLD + 20 * SECOND)


def test_an_old_file_of_a_rank_that_failed_is_not_mixed_in(tmp_path: Path) -> None:
    names = [f"rank0.{NEW}.pt.trace.json", f"rank1.{OLD}.pt.trace.json"]
    assert chosen(fill(tmp_path, names)) == names[:1]


def test_everything_beside_the_ranks_is_listed_with_its_reason(tmp_path: Path) -> None:
    fill(tmp_path, [f"rank0.{NEW}.pt.trace.json.gz", f"h_1.async_llm.{NEW}.pt.trace.json.gz"])
    fill(tmp_path, [f"graph_capture_rank_0.{OLD}.pt.trace.json.gz"])
    (tmp_path / "profiler_out_0.txt").write_text("table")
    (tmp_path / "17.5-TP-0-memory.pickle").write_bytes(b"\x80\x04")
    (tmp_path / "rank1.trace.json.tmp").write_text('{"traceEvents": [')
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    (tmp_path / "page.json").write_text("<!DOCTYPE html>")
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / ".hidden.json").write_text("{}")
    found = choose(tmp_path)
    assert [path.name for path in found.files] == [f"rank0.{NEW}.pt.trace.json.gz"]
    assert dict(line.split(": ", 1) for line in found.listed) == {
        f"h_1.async_llm.{NEW}.pt.trace.json.gz": "front-end process, no GPU work in it",
        f"graph_capture_rank_0.{OLD}.pt.trace.json.gz": (
            "recorded while graphs were built; --capture-trace reads it"
        ),
        "profiler_out_0.txt": "a text table, not a trace",
        "17.5-TP-0-memory.pickle": "a pickle, never opened",
        "rank1.trace.json.tmp": "unfinished export of a killed process",
        "config.json": "no trace events in it",
        "page.json": "a web page",
    }


def test_a_merged_file_is_left_out_beside_its_ranks_and_read_alone(tmp_path: Path) -> None:
    fill(tmp_path / "both", ["merged-17.5.trace.json.gz", "17.5-TP-0.trace.json.gz"])
    fill(tmp_path / "alone", ["merged-17.5.trace.json.gz"])
    assert chosen(tmp_path / "both") == ["17.5-TP-0.trace.json.gz"]
    assert chosen(tmp_path / "alone") == ["merged-17.5.trace.json.gz"]


def test_an_unfinished_export_is_read_when_there_is_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x.json.tmp").write_text('{"traceEvents": [')
    assert chosen(tmp_path) == ["x.json.tmp"]


def test_the_newest_of_the_folders_below_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "1712345678.5", ["1712345678.5-TP-0.trace.json.gz"])
    fill(tmp_path / "1712345978.5", ["1712345978.5-TP-0.trace.json.gz"])
    found = choose(tmp_path)
    assert [path.parent.name for path in found.files] == ["1712345978.5"]
    assert "1712345678.5/: another capture, older" in found.listed


def test_files_right_in_the_folder_go_before_folders_below(tmp_path: Path) -> None:
    fill(tmp_path / "capture_traces", [f"graph_capture_rank_0.{NEW}.pt.trace.json.gz"])
    fill(tmp_path, [f"rank0.{OLD}.pt.trace.json.gz"])
    assert chosen(tmp_path) == [f"rank0.{OLD}.pt.trace.json.gz"]


def test_a_graph_capture_is_no_rank_also_when_it_is_newer_than_the_traces(tmp_path: Path) -> None:
    """SGLang writes it into a folder of its own beside those of the captures."""
    fill(tmp_path / "1712345678.5", ["1712345678.5-TP-0.trace.json.gz"])
    fill(tmp_path / "graph_capture_profile", ["cuda_graph_capture-CudaGraphRunner-TP-0.json.gz"])
    found = choose(tmp_path)
    assert [path.name for path in found.files] == ["1712345678.5-TP-0.trace.json.gz"]
    assert found.listed == (
        "graph_capture_profile/: recorded while graphs were built; --capture-trace reads it",
    )
    assert found.notes == ()


def test_a_graph_capture_right_in_the_folder_does_not_hide_the_traces_below(tmp_path: Path) -> None:
    fill(tmp_path, ["DecodeCudaGraphRunner_bs_8_rank0.json.gz"])
    fill(tmp_path / "1712345678.5", ["1712345678.5-TP-0.trace.json.gz"])
    found = choose(tmp_path)
    assert [path.name for path in found.files] == ["1712345678.5-TP-0.trace.json.gz"]
    assert found.listed == (
        "DecodeCudaGraphRunner_bs_8_rank0.json.gz: recorded while graphs were built; "
        "--capture-trace reads it",
    )


def test_a_graph_capture_alone_is_read_so_that_it_can_be_named(tmp_path: Path) -> None:
    fill(tmp_path / "graph_capture_profile", ["cuda_graph_capture-CudaGraphRunner-TP-0.json.gz"])
    assert chosen(tmp_path) == ["cuda_graph_capture-CudaGraphRunner-TP-0.json.gz"]


def test_an_empty_folder_and_one_without_traces_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="holds no trace"):
        choose(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(TraceFormatError, match=r"notes\.md: not a trace"):
        choose(tmp_path)


def test_a_link_to_a_missing_file_is_not_followed(tmp_path: Path) -> None:
    write_trace(tmp_path, "rank0.trace.json")
    (tmp_path / "rank1.trace.json").symlink_to(tmp_path / "gone.json")
    assert chosen(tmp_path) == ["rank0.trace.json"]


def test_a_recording_of_four_ranks_is_chosen_whole() -> None:
    folder = shared_path("traces", "own", "tp4-70b-eagle3-k3-shm-bs1")
    assert chosen(folder) == [f"rank{rank}.trace.json.gz" for rank in range(4)]


def test_hostile_file_names_are_listed_without_control_characters(tmp_path: Path) -> None:
    write_trace(tmp_path, "rank0.trace.json")
    (tmp_path / "a\x1b[2J\n.md").write_text("x")
    (line,) = choose(tmp_path).listed
    assert line.isprintable()
