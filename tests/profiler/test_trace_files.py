"""Which files are traces of workers, and when one is whole."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope.profiler import (
    trace_files,
)
from tests.profiler.fake_servers import (
    trace_bytes,
)


@pytest.mark.parametrize(
    ("damage", "whole"),
    [
        (lambda raw: raw, True),
        (lambda raw: raw[:-1], False),
        (lambda raw: raw[:-6], False),
        (lambda raw: raw[: len(raw) // 2], False),
        (lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:], False),
        (lambda raw: raw + raw, True),
        (lambda raw: b"", False),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:-2]), False),
        (gzip.decompress, True),
        (lambda raw: gzip.decompress(raw)[:-2], False),
    ],
)
def test_a_file_is_whole_when_its_trailer_and_its_json_are(
    tmp_path: Path, damage: Callable[[bytes], bytes], whole: bool
) -> None:
    path = tmp_path / "a-TP-0.trace.json.gz"
    path.write_bytes(damage(trace_bytes(0, 4)))
    found = trace_files.read_whole(path)
    assert (found is not None) == whole
    assert found is None or found.world_size == 4


def test_a_file_counts_once_its_size_stands_still(tmp_path: Path) -> None:
    watch = trace_files.Watch(tmp_path)
    path = tmp_path / "a-TP-0.trace.json.gz"
    raw = trace_bytes(0, 2)
    assert watch.look() == trace_files.Standing()
    path.write_bytes(raw[:10])
    assert watch.look().unfinished == (path.name,)
    path.write_bytes(raw)
    assert watch.look().whole == ()
    assert [file.path for file in watch.look().whole] == [path]
    path.write_bytes(raw[:-3])
    assert watch.look().whole == ()


@pytest.mark.parametrize(
    ("name", "is_trace"),
    [
        ("1796017833.8-TP-0.trace.json.gz", True),
        ("rank0.1796.pt.trace.json.gz", True),
        ("dp0_pp0_tp1_dcp0_ep0_rank1.1796.pt.trace.json", True),
        ("host_8235.async_llm.1796.pt.trace.json.gz", False),
        ("rank0.profiler_out.txt", False),
        ("merged-1.trace.json.gz", False),
        ("run.json", False),
        ("1-TP-0-memory.pickle", False),
    ],
)
def test_traces_of_workers_are_told_by_their_names(name: str, is_trace: bool) -> None:
    assert trace_files.is_trace(name) == is_trace


def test_ranks_are_read_out_of_names() -> None:
    names = ("1-TP-3.trace.json.gz", "dp0_pp0_tp1_rank1.2.pt.trace.json.gz", "x.json")
    files = tuple(trace_files.Whole(Path(name), 1, None) for name in names)
    assert trace_files.Standing(files).ranks() == (1, 3)
