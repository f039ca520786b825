"""What is not a trace is refused in one line that says what it is and what to do."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from specscope.traces import sniff
from specscope.traces.errors import TraceFormatError
from specscope.traces.load import load
from tests.shared import shared_path

TABLE = b"-------------  ------------  ------------  \n   Name    Self CPU %      Self CPU  \n"
TFEVENTS = (
    struct.pack("<Q", 24) + b"\x12\x34\x56\x78" + b"\x09\0\0\0\0\0\0\0\0\x1a\x0dbrain.Event:2"
)

KINDS = {
    "empty": (b"", "x.json", "is empty"),
    "zeros": (bytes(5000), "x.json", "zero bytes"),
    "nsys-rep": (b"\x01\x02binary", "run.nsys-rep", "Nsight Systems report"),
    "pickle": (b"\x80\x04\x95abc", "x-memory.pickle", "pickle, which is never opened"),
    "pickle named as a trace": (b"\x80\x02}q\0", "x.trace.json", "pickle"),
    "pickle inside gzip": (gzip.compress(b"\x80\x05\x95abc"), "x.trace.json.gz", "pickle"),
    "zip": (b"PK\x03\x04rest", "x.json.gz", "zip archive"),
    "zstd": (b"\x28\xb5\x2f\xfdrest", "x.json.zst", "zstd"),
    "xz": (b"\xfd7zXZ\0rest", "x.json.xz", "xz"),
    "bzip2": (b"BZh91AY", "x.json.bz2", "bzip2"),
    "lz4": (b"\x04\x22\x4d\x18rest", "x.json.lz4", "lz4"),
    "tar": (b"a.json" + bytes(251) + b"ustar\x0000", "x.tar", "tar archive"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "x.json.gz", "git lfs pull"),
    "html": (b"\n<!DOCTYPE html><html>", "x.json", "web page"),
    "html in gzip": (gzip.compress(b"<html><body>login"), "x.json.gz", "web page"),
    "xml": (b"<?xml version='1.0'?>", "x.json", "web page"),
    "chakra": (b'{\n "schema": "1.0.1", "pid": 1, "nodes": []}', "x.json", "Chakra"),
    "rocprofv3": (b'{"rocprofiler-sdk-tool":[{}]}', "x.json", "rocprofv3"),
    "memory timeline": (b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]", "x.raw", "memory timeline"),
    "speedscope": (b'{"$schema": "https://www.speedscope.app/x"}', "x.json", "another tool"),
    "nsys json": (b'{"Type":48,"GlobalTid":1}\n{"Type":59}', "x.json", "Nsight Systems JSON"),
    "table": (TABLE, "profiler_out_0.txt", "text table of the profiler"),
    "tfevents": (TFEVENTS, "x.v2", "TensorBoard event file"),
    "tfevents by name": (b"abc", "events.out.tfevents.17.host.1.0", "TensorBoard event file"),
    "perfetto": (b"\n\xa2\x01\x0a\x08", "x.pftrace", "protobuf"),
    "parquet": (b"PAR1\x15\x04", "x.parquet", "Parquet"),
    "list of numbers": (b"[1, 2, 3]", "x.json", "list without events"),
    "utf-16": ('{"traceEvents": []}'.encode("utf-16"), "x.json", "UTF-16"),
    "prose": (b"Hello \x1b[31mred", "x.json", "not JSON: it begins with 'Hello"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file_is_refused_in_one_line_that_names_it(kind: str) -> None:
    head, name, expected = KINDS[kind]
    with pytest.raises(TraceFormatError) as refused:
        sniff.check_head(head, name)
    message = str(refused.value)
    assert expected in message
    assert name in message
    assert "; " in message, "what to do stands behind a semicolon"
    assert message.isprintable()
    assert refused.value.exit_code == 3


@pytest.mark.parametrize(
    "head",
    [
        b'{"schemaVersion": 1, "traceEvents": []}',
        b'\n  {\n  "schemaVersion": 1,',
        b'\xef\xbb\xbf{"traceEvents": [',
        b'[{"ph": "X"}',
        b"[\n {",
        b"[]",
        gzip.compress(b'{"traceEvents": []}'),
        gzip.compress(b'{"traceEvents": []}')[:20],
    ],
)
def test_a_trace_of_every_layout_passes(head: bytes) -> None:
    sniff.check_head(head, "x.json")


@pytest.mark.parametrize(
    "name",
    [
        "chakra-execution-trace.json.gz",
        "git-lfs-pointer.json.gz",
        "memory-timeline.raw.json.gz",
        "torch2.13.0-execution-trace.json.gz",
        "torch2.13.0-memory-timeline.json",
    ],
)
def test_real_files_that_are_no_traces_are_refused(name: str) -> None:
    with pytest.raises(TraceFormatError, match=r"(timeline|Chakra|LFS)"):
        sniff.check(shared_path("traces", "public", "not-a-trace", name))


def test_the_head_of_a_bomb_is_unpacked_no_further_than_needed() -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(sniff.unpacked_head(bomb)) <= sniff.HEAD_BYTES


def test_hostile_file_names_and_keys_cannot_steer_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as refused:
        sniff.check_head(b"", "\x1b[2Jx\n.json")
    assert str(refused.value).isprintable()
    message = str(sniff.refuse_keys("x.json", ["\x1b[31m", "k" * 10_000, *"abcdefgh"]))
    assert message.isprintable()
    assert "and 4 more" in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(gzip.compress(b'{"traceEvents": []}')), "gzip inside gzip"),
        (gzip.compress(b""), "gzip of nothing"),
        ('{"traceEvents": []}'.encode("utf-16-le"), "UTF-16"),
        ('{"traceEvents": []}'.encode("utf-16-be"), "UTF-16"),
        (b"{}", "JSON without traceEvents"),
        (b'{"traceEvents": []}', "without one event"),
    ],
)
def test_near_misses_are_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=said):
        load(path, cache=False)
