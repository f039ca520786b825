"""Opening inputs: plain, gzip, cut, damaged, too large, standard input."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
from pathlib import Path

import pytest

from specscope.traces import text as text_module
from specscope.traces.errors import TraceFormatError
from specscope.traces.events import ScanOptions
from specscope.traces.scan import scan
from specscope.traces.text import open_text
from tests.fuzz.compare import differences, unaccounted
from tests.fuzz.seeds import document, random_event
from tests.traces.scan_readers import each_reader, names, plain, reasons, wrap


def trace(count: int = 400) -> bytes:
    """A valid trace."""
    rng = random.Random(3)
    return document([random_event(rng) for _ in range(count)], "kineto_old").encode()


def read_all(source: str | bytes, limit: int = 1 << 40) -> tuple[bytes, list[str]]:
    """The whole text through windows, and the reasons of its losses."""
    text = open_text(source, limit)
    try:
        out = b""
        while True:
            window = text.window(len(out), 1)
            piece = window.buf[len(out) - window.base :]
            if not piece:
                return out, [loss.reason for loss in text.losses]
            out += piece
            text.release(len(out))
    finally:
        text.close()


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(trace()))
    assert read_all(str(path)) == (trace(), [])


def test_plain_text_named_gz_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(trace())
    assert read_all(str(path)) == (trace(), [])


def test_all_members_of_a_gzip_are_read() -> None:
    packed = b"".join(gzip.compress(part) for part in (b"one", b"", b"two"))
    assert read_all(packed) == (b"onetwo", [])


def test_a_mapped_file_gives_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "SMALL", 100)
    monkeypatch.setattr(text_module, "RELEASE", 4096)
    path = tmp_path / "trace.json"
    path.write_bytes(trace())
    assert read_all(str(path)) == (trace(), [])
    assert scan(str(path))[0].events == 400


def test_a_file_that_shrinks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "SMALL", 100)
    path = tmp_path / "trace.json"
    path.write_bytes(trace())
    text = open_text(str(path), 1 << 40)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(TraceFormatError, match="shorter"):
        text.check()
    text.close()


@each_reader
@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_cut_gzip_gives_its_complete_events(share: float, reader: str) -> None:
    packed = gzip.compress(trace())
    (found,) = scan(packed[: int(len(packed) * share)], reader=reader)
    assert found.truncated
    assert reasons(found)[-1] == "gzip_truncated"
    assert 0 < found.events <= 400


@each_reader
def test_a_gzip_cut_in_its_trailer_loses_no_event(reader: str) -> None:
    (found,) = scan(gzip.compress(trace())[:-4], reader=reader)
    assert (found.events, found.truncated, reasons(found)) == (400, False, ["gzip_truncated"])


@each_reader
def test_a_bare_array_without_end_in_a_cut_gzip_is_truncated(reader: str) -> None:
    text = ("[" + plain("a") + ",\n").encode()
    assert not scan(gzip.compress(text), reader=reader)[0].truncated
    assert scan(gzip.compress(text)[:-4], reader=reader)[0].truncated


LONG_HEADERS = {
    "cut": b'{"a": "' + b"x" * (18 << 20),
    "deep": b'{"a": [' + b"1," * (9 << 20) + b"[" * 600 + b"]" * 601 + b', "b": 1}',
    "followed by garbage": b'{"a": "' + b"x" * (18 << 20) + b'" y, \n"b": 1}',
    "fine": b'{"a": "' + b"x" * (18 << 20) + b'", "b": 1}',
}


@pytest.mark.parametrize("kind", LONG_HEADERS)
def test_a_long_header_value_reads_alike_whole_and_as_a_stream(kind: str) -> None:
    text = LONG_HEADERS[kind]
    whole = scan(text, reader="pure")
    assert not differences(scan(gzip.compress(text, 1), reader="pure"), whole)
    assert not unaccounted(whole, len(text))


@each_reader
def test_a_damaged_gzip_gives_what_came_before(reader: str) -> None:
    packed = bytearray(gzip.compress(trace(4000)))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    (found,) = scan(bytes(packed), reader=reader)
    assert found.truncated
    assert reasons(found)[-1] in ("gzip_corrupt", "gzip_truncated")


@each_reader
@pytest.mark.parametrize("tail", [b"\x00" * 512, b"garbage"])
def test_bytes_behind_a_gzip_are_named(tail: bytes, reader: str) -> None:
    (found,) = scan(gzip.compress(trace()) + tail, reader=reader)
    assert (found.events, found.truncated) == (400, False)
    assert [(loss.reason, loss.count) for loss in found.losses] == [("gzip_trailing", len(tail))]


@each_reader
def test_a_cut_gzip_accounts_for_the_text_it_gave(reader: str) -> None:
    packed = gzip.compress(trace())
    documents = scan(packed[: len(packed) // 2], reader=reader)
    losses = documents[-1].losses
    losses.remove(next(loss for loss in losses if loss.reason == "gzip_truncated"))
    assert not unaccounted(documents, documents[-1].end)


@each_reader
def test_text_beyond_the_limit_is_refused_with_the_mend(reader: str) -> None:
    with pytest.raises(TraceFormatError, match=r"100,000 bytes.*--max-text SIZE"):
        scan(
            gzip.compress(b'{"a": "' + b"0" * 10**6),
            ScanOptions(max_text_bytes=10**5),
            reader=reader,
        )


def test_plain_text_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(trace())
    with pytest.raises(TraceFormatError, match="--max-text"):
        scan(str(path), ScanOptions(max_text_bytes=1000))


BOMB = """
import gzip, resource, sys
packed = gzip.compress(bytes(1 << 20)) * 2048
from specscope.traces.scan import scan, ScanOptions
from specscope.traces.errors import TraceFormatError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    scan(packed, ScanOptions(max_text_bytes=1 << 30))
    sys.exit("not refused")
except TraceFormatError as error:
    print(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
sys.exit(f"{grown} KiB" if grown > 100_000 else 0)
"""


def test_memory_does_not_follow_the_ratio_of_a_bomb() -> None:
    done = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(wrap(plain("a")).encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    (found,) = scan("-")
    assert names(found) == ["a"]
    assert not stdin.buffer.closed


def test_an_error_of_the_reading_thread_reaches_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "missing.json"
    with pytest.raises(FileNotFoundError):
        scan(str(path))
    with pytest.raises(IsADirectoryError):
        scan(str(tmp_path))


def test_windows_bridge_blocks() -> None:
    text = text_module.StreamText(iter([b"abc", b"", b"defg", b"h"]), 100)
    try:
        assert text.window(0, 1).buf == b"abc"
        bridge = text.window(1, 5)
        assert (bridge.buf, bridge.base, bridge.stop) == (b"bcdef", 1, 3)
        text.release(6)
        assert (text.before(6), text.window(6, 9).buf) == (b"abcdef", b"gh")
    finally:
        text.close()
