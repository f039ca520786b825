"""The native and the pure reader give equal documents, on every trace there is at hand."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from specscope.traces import scan as scan_module
from specscope.traces.events import ScanOptions
from specscope.traces.scan import reader_name, scan
from tests.fuzz.compare import differences, unaccounted
from tests.fuzz.seeds import seed_texts
from tests.shared import shared_path
from tests.traces.scan_readers import needs_native

OPTIONS = [
    ScanOptions(),
    ScanOptions(all_frames=True, threads=1),
    ScanOptions(frame_needles=(b"sglang", b"vllm")),
]


def unpacked(path: Path) -> bytes:
    """The text, as far as it can be had."""
    raw = path.read_bytes()
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    text = b""
    while raw.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(31)
        text += member.decompress(raw)
        raw = member.unused_data
    return text


def traces(*folder: str) -> list[Path]:
    """All trace files below a folder of ../shared."""
    return sorted(shared_path(*folder).rglob("*.json*"))


@needs_native
@pytest.mark.parametrize("folder", [("cases",), ("traces", "public"), ("traces", "cpu")])
def test_both_readers_agree_on_shared_traces(folder: tuple[str, ...]) -> None:
    for path in traces(*folder):
        text = unpacked(path)
        for options in OPTIONS[: 1 if len(text) > 5e6 else 3]:
            pure = scan(text, options, reader="pure")
            assert not differences(scan(path_or_text(path, text), options), pure), path.name
            assert not unaccounted(pure, len(text)), path.name


def path_or_text(path: Path, text: bytes) -> str | bytes:
    """The packed file, unless its packing is the problem."""
    try:
        return str(path) if gzip.decompress(path.read_bytes()) == text else text
    except (OSError, EOFError):
        return text


@needs_native
@pytest.mark.long
def test_both_readers_agree_on_own_recordings() -> None:
    for path in traces("traces", "own"):
        for options in OPTIONS:
            pure = scan(str(path), options, reader="pure")
            assert not differences(scan(str(path), options), pure), str(path)


@needs_native
def test_segments_read_ahead_give_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from specscope.traces import scan_native

    monkeypatch.setattr(scan_native, "usable_cores", lambda: 4)
    for seed, text in enumerate(seed_texts(7, 60)):
        whole = scan(text, ScanOptions(threads=1), reader="native")
        monkeypatch.setattr(scan_native, "SEGMENT", 97 + 61 * seed)
        assert not differences(scan(text, ScanOptions(threads=4), reader="native"), whole)


@needs_native
def test_a_wrong_guess_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from specscope.traces import scan_native

    monkeypatch.setattr(scan_native, "usable_cores", lambda: 2)
    monkeypatch.setattr(scan_native, "SEGMENT", 300)
    lure = '},\\n  {\\"ph\\": \\"X\\"'
    inner = '[{"a": 1},{"ph": "X", "name": "not an event"}]'
    event = '\n  {"ph": "X", "name": "' + lure + '", "ts": 1, "args": {"l": ' + inner + "}}"
    text = ('{"traceEvents": [' + ",".join([event] * 500) + "]}").encode()
    (found,) = scan(text, ScanOptions(threads=2), reader="native")
    assert (found.events, found.losses) == (500, [])


@needs_native
def test_segments_that_were_read_in_vain_do_not_hold_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specscope.traces import scan_native, text

    monkeypatch.setattr(scan_native, "usable_cores", lambda: 2)
    monkeypatch.setattr(scan_native, "SEGMENT", 300)
    monkeypatch.setattr(text, "SMALL", 100)
    meta = '\n  {"ph": "M", "name": "process_name", "args": {"name": "x"}}'
    one = '{"traceEvents": [' + ",".join([meta] * 20) + "\n]}\n"
    path = tmp_path / "two.json"
    path.write_text(one + one)
    assert [found.events for found in scan(str(path), ScanOptions(threads=2))] == [20, 20]


def test_the_switch_forces_the_pure_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scan_module.PURE_SWITCH, "1")
    assert reader_name() == "pure"


@needs_native
def test_a_switch_of_zero_forces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scan_module.PURE_SWITCH, "0")
    assert reader_name() == "native"
