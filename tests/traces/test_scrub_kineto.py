"""Copies of Kineto traces: nothing planted stays, and nothing else changes."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from specscope.traces import schema
from specscope.traces.errors import SpecscopeError
from specscope.traces.events import ScanOptions
from specscope.traces.read import read_file
from specscope.traces.scrub import scrub
from tests.analyzers.case import CASES
from tests.dashboards import reports
from tests.shared import shared_path
from tests.traces import planted
from tests.traces.planted import ENVIRONMENT, HOME, SECRET, TEXT, TOKEN, USER

ROOT = Path(__file__).resolve().parents[2]
KERNEL = {
    "ph": "X", "cat": "kernel", "name": "void gemm<128>(float*)", "pid": 0, "tid": 7,
    "ts": "TS", "dur": 1.5, "args": {"stream": 7, "correlation": 5},
}  # fmt: skip


def event(**changes: Any) -> str:
    # Digits that no float holds.
    return json.dumps({**KERNEL, **changes}).replace('"TS"', "1700000000123456.789")


def with_args(**args: Any) -> str:
    return event(args={**KERNEL["args"], **args})  # type: ignore[dict-item]


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


# One thing planted a place; each stands in a trace with an environment behind its events.
PLACES: dict[str, str] = {
    "kernel name": event(name=f"gemm {TOKEN}"),
    "kernel name with a path": event(name=f"lambda at {HOME}/x.cu:3:5"),
    "kernel name with a known secret": event(name=f"gemm {SECRET}"),
    "operator name": event(cat="cpu_op", name=f"my::op {TOKEN}"),
    "annotation": event(cat="user_annotation", name=TEXT),
    "frame": event(cat="python_function", name=f"{HOME}/{USER}/x.py(3): f"),
    "relative frame": event(cat="python_function", name=f"{USER}/x.py(3): f_{SECRET}"),
    "category": event(cat=TOKEN),
    "unknown category": event(cat="other", name=TEXT),
    "no category": '{"ph": "i", "name": "' + TOKEN + '", "ts": 1}',
    "text in args": with_args(note=TEXT),
    "key of args": with_args(**{TOKEN: 1}),
    "key of the event": event(**{TOKEN: 1}),
    "text of the event": event(note=TEXT),
    "list of the event": event(notes=[TEXT]),
    "secret name in args": with_args(api_key="plain"),
    "number with a secret name": with_args(password=1234),
    "list in args": with_args(notes=["a", TEXT]),
    "list in a list in args": with_args(notes=[["a", TEXT]]),
    "option in a list": with_args(command=["serve", "--api-key", SECRET]),
    "mapping in args": with_args(more={"deep": {"deeper": TEXT}}),
    "environment in args": with_args(environ=ENVIRONMENT),
    "JSON in a text": with_args(text=json.dumps({"api_key": SECRET, "home": HOME})),
    "process name": '{"ph":"M","name":"process_name","pid":1,"args":{"name":'
    + json.dumps(TEXT) + "}}",
    "process labels": '{"ph":"M","name":"process_labels","pid":1,"args":{"labels":"'
    + TOKEN + '"}}',
    "thread name": '{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"'
    + USER + '"}}',
    "process as text": event(pid=f"python {HOME}/serve.py"),
    "thread as text": event(tid=TEXT),
    "flow": '{"ph":"s","id":1,"pid":0,"tid":7,"ts":1,"cat":"ac2g","name":"' + TOKEN + '"}',
    "escapes": event().replace("void", escaped(TOKEN)),
    "escapes in args": with_args(note="MARK").replace("MARK", escaped(HOME)),
    "not ASCII": event(cat="user_annotation", name=f"größe {TEXT}"),
    "a key twice": event(name="x").replace('"name": "x"', f'"name": "{TOKEN}", "name": "x"'),
    "a key twice in args": event().replace('"stream": 7', f'"a": "{TOKEN}", "a": "b", "stream": 7'),
    "infinity": event().replace('"stream": 7', f'"stream": 7, "x": inf, "note": "{TOKEN}"'),
    "secret beside infinity": event().replace(
        '"stream": 7', f'"stream": 7, "x": inf, "api_key": "{SECRET}"'
    ),
    "an escape that is none": event(name="x MARK").replace("MARK", f"\\q {TOKEN}"),
    "a key with the word inf": with_args(inf="inf", note=TOKEN),
    "quotes to mend": event(cat="user_annotation", name="MARK").replace(
        "MARK", f'a "{TOKEN}" b'
    ),
    "no event": json.dumps(TEXT),
    "broken": '{"ph": "X", "name": "' + TOKEN + '", "ts": }',
    "a control letter": event(name="MARK").replace("MARK", f"\x01 {TOKEN}"),
}  # fmt: skip
HEADER_PLACES: dict[str, str] = {
    "unknown key": f'"command": {json.dumps(TEXT)}',
    "a key itself": f'"{TOKEN}": 1',
    "environment": f'"env": {json.dumps(ENVIRONMENT)}',
    "trace name": f'"traceName": "{HOME}/traces/rank0.json"',
    "device": '"deviceProperties": [{"id": 0, "name": "H200", "note": ' + json.dumps(TEXT) + "}]",
    "distributed": '"distributedInfo": {"rank": 0, "world_size": 1, "host": "gpu-node-77",'
    f' "master_addr": "{planted.ADDRESS}", "note": ' + json.dumps(TEXT) + "}",
    "version": f'"torch_version": "2.4+{TOKEN}"',
    "quotes to mend": f'"torch_version": "a "{TOKEN}" b"',
    "no value": f'"torch_version" {TOKEN}',
}


def write(folder: Path, events: list[str], header: str = "", *, packed: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    # What tells comes last, as a harness appends it.
    tail = f', "environ": {json.dumps(ENVIRONMENT)}'
    head = f'{{"schemaVersion": 1, {header + ", " if header else ""}"traceEvents": [\n'
    raw = (head + ",\n".join([event(), *events, event(ts=2)]) + "\n]" + tail + "}").encode()
    path = folder / ("t.json.gz" if packed else "t.json")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_planted_in_an_event_stays(place: str, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path, [PLACES[place]], packed=packed)
    assert planted.found_in(path)
    out = tmp_path / f"copy-{path.name}"
    scrub(path, out)
    assert planted.found_in(out) == set()
    assert out.read_bytes().startswith(b"\x1f\x8b") is packed
    (rank,) = read_file(out, "", ScanOptions(all_frames=True))
    # The first and the last event are there, to the nanosecond.
    assert rank.ops["start_ns"].to_pylist()[0] == 1700000000123456789
    assert rank.ops["start_ns"].to_pylist()[-1] == 2000


@pytest.mark.parametrize("place", HEADER_PLACES)
def test_nothing_planted_in_the_header_stays(place: str, tmp_path: Path) -> None:
    path = write(tmp_path, [], HEADER_PLACES[place])
    out = tmp_path / "copy.json"
    scrub(path, out)
    assert planted.found_in(out) == set()
    assert read_file(out, "", ScanOptions())[0].ops.num_rows >= 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"# {TOKEN}\n", ""),
        ("", f"\n{TOKEN} {SECRET}\n"),
        ("", '\n{"note": "' + TOKEN + '"}'),
        ("", '\n{"traceEvents": [{"ph": "i", "name": "' + TOKEN + '"}]}'),
    ],
    ids=["before", "behind", "another document", "another trace"],
)
def test_nothing_planted_around_a_trace_stays(before: str, after: str, tmp_path: Path) -> None:
    path = write(tmp_path, [])
    path.write_text(path.read_text() + after)
    if before:
        path.write_text('{"traceEvents": [' + event() + "]}\n" + before + path.read_text())
    out = tmp_path / "copy.json"
    scrub(path, out)
    assert planted.found_in(out) == set()


def test_the_name_in_a_gzip_head_does_not_stay(tmp_path: Path) -> None:
    path = tmp_path / f"{USER}.json.gz"
    with path.open("wb") as plain, gzip.GzipFile(f"{USER}.json", "wb", 6, plain) as packed:
        packed.write(('{"traceEvents": [' + event() + "]}").encode())
    out = tmp_path / "copy.json.gz"
    assert USER in planted.found_in(path)
    scrub(path, out)
    assert planted.found_in(out) == set()


def test_a_trace_cut_anywhere_is_copied_up_to_there(tmp_path: Path) -> None:
    whole = write(tmp_path, [PLACES["text in args"], PLACES["process name"]]).read_bytes()
    cut, out = tmp_path / "cut.json", tmp_path / "copy.json"
    copied = 0
    for length in range(60, len(whole), 31):
        cut.write_bytes(whole[:length])
        try:
            wanted = read_file(cut, "", ScanOptions())[0].ops.num_rows
        except Exception:
            continue
        scrub(cut, out, force=True)
        assert read_file(out, "", ScanOptions())[0].ops.num_rows == wanted
        assert TOKEN not in planted.found_in(out)
        copied += 1
    assert copied > 10


def test_no_damage_lets_a_token_through(tmp_path: Path) -> None:
    """Letters replaced, taken out and put in anywhere: what is left of a trace is masked."""
    whole = write(tmp_path, list(PLACES.values())).read_bytes()
    draw = random.Random(3)
    path, out = tmp_path / "damaged.json", tmp_path / "copy.json"
    copied = 0
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randint(1, 30)):
            at = draw.randrange(len(raw))
            piece = draw.choice([b"", b'"', b"\\", b"{", b"}", b"]", b",", b"\0", b"\xff", b'":'])
            raw[at : at + draw.randint(0, 2)] = piece
        path.write_bytes(raw)
        try:
            scrub(path, out, force=True)
        except SpecscopeError as error:
            assert "\n" not in str(error)
            continue
        copied += 1
        text = out.read_bytes()
        # A letter before it makes another word of it.
        assert not re.search(rb"(?<![A-Za-z0-9])" + TOKEN.encode(), text)
        read_file(out, "", ScanOptions())
    assert copied > 30


def test_numbers_that_are_none_stay_without_a_number(tmp_path: Path) -> None:
    odd = event(ts=5).replace('"stream": 7', f'"stream": inf, "x": -Infinity, "note": "{USER}"')
    path = write(tmp_path, [odd])
    out = tmp_path / "copy.json"
    scrub(path, out)
    one, other = (read_file(file, "", ScanOptions())[0] for file in (path, out))
    assert one.ops.to_pylist() == other.ops.to_pylist()
    assert one.ops.num_rows == 3


def test_what_is_the_same_gets_the_same_placeholder(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        [with_args(a=f"of {USER}", b=f"{HOME}/x/model.bin"), with_args(a=f"{USER}: {HOME}/y/z")],
    )
    out = tmp_path / "copy.json"
    scrub(path, out)
    args = [found["args"] for found in json.loads(out.read_text())["traceEvents"]]
    assert args[1]["a"] == "of user1"
    assert args[1]["b"] == "/p/model.bin"
    assert args[2]["a"] == "user1: /p/z"


def test_an_untouched_event_keeps_its_bytes(tmp_path: Path) -> None:
    odd = (
        '{"ph":"X",  "cat":"kernel" ,"name":"k","ts":1.5000,"dur":2e0,"pid":0,"tid":"7","args":{}}'
    )
    path = write(tmp_path, [odd])
    out = tmp_path / "copy.json"
    scrub(path, out)
    assert odd in out.read_text()


def test_a_changed_event_keeps_the_digits_of_its_times(tmp_path: Path) -> None:
    path = write(tmp_path, [with_args(note=TEXT)])
    out = tmp_path / "copy.json"
    scrub(path, out)
    assert out.read_text().count("1700000000123456.789") == 2


RECORDINGS = [
    "examples/tp2-70b-eagle3/rank0.trace.json.gz",
    "tests/data/own-graph-capture/rank0.trace.json.gz",
    "tests/data/own-graph-capture/graph_capture.json.gz",
    "tests/data/own-hooks-8b-tp2/v1/rank0.trace.json.gz",
]
SHARED = [
    "public/2022-08-ddp-v100-rank1of2.json.gz",
    "public/2023-05-cudagraph-a100-rank0of16.json.gz",
    "public/2024-04-ns-absolute-ts-v100.json.gz",
    "public/2026-01-vllm-prefill-tp8-b200-rank0.json.gz",
    "public/2026-05-sglang-qwen3-8b-mi300x-decode-hipgraph.json.gz",
    "public/torch2.13.0-cpu-INVALID-quote-in-name.json",
    "public/torch2.13.0-cpu-schedule-stack-memory.json.gz",
    "cpu/vllm_draft_tp1_rank0.json.gz",
    "nsight/twin_cpu/twin.kineto.json",
]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_of_ours_gives_the_same_tables(name: str, tmp_path: Path) -> None:
    assert_same_tables(ROOT / name, tmp_path)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_recording_gives_the_same_tables(name: str, tmp_path: Path) -> None:
    assert_same_tables(shared_path("traces", *name.split("/")), tmp_path)


def assert_same_tables(path: Path, tmp_path: Path) -> None:
    """Every column but the names of frames whose paths were absolute."""
    out = tmp_path / path.name
    scrub(path, out)
    options = ScanOptions(all_frames=True)
    for one, other in zip(read_file(path, "", options), read_file(out, "", options), strict=True):
        for name in ("ops", "calls", "ranges", "collectives", "tracks"):
            assert_equal(getattr(one, name), getattr(other, name))
        for fact in ("rank", "world_size", "versions", "devices", "switches", "clock_base_ns"):
            assert one.facts[fact] == other.facts[fact]


def assert_equal(one: pa.Table, other: pa.Table) -> None:
    assert one.schema == other.schema
    for name in one.column_names:
        left, right = one[name].to_pylist(), other[name].to_pylist()
        changed = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
        assert all(
            a.startswith("/") and b.startswith("/p/") and a.endswith(b.rpartition("/")[2])
            for a, b in changed
        ), changed[:3]


def test_stages_by_frames_are_found_in_the_copy(tmp_path: Path) -> None:
    """Frames of an editable install below a home keep what their evidence needs."""
    import specscope

    source = tmp_path / "in"
    source.mkdir()
    drawn = CASES["transformers_assisted_generation_by_its_frames"]().trace
    for path in reports.write(source, drawn):
        path.write_text(path.read_text().replace('"transformers/', f'"{HOME}/src/transformers/'))
    out = tmp_path / "out"
    scrub(source, out)
    assert planted.found_in(out) == set()
    first, second = (specscope.analyze(specscope.load(folder)) for folder in (source, out))
    assert first.verdict.sentence == second.verdict.sentence
    assert first.tables["parts"].equals(second.tables["parts"])


def test_the_schema_of_the_tables_is_all_compared() -> None:
    of_nvtx = {"range_args", "marks"}  # a Kineto trace has none
    compared = {"ops", "calls", "ranges", "collectives", "tracks", "losses", "sources"}
    assert compared | of_nvtx == set(schema.TABLES)
