"""What a valid trace holds, in every layout, is what json.loads finds in it."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specscope.traces.events import ABSENT, HAS_DUR, HAS_TS, NEGATIVE_DUR, Document, ScanOptions
from specscope.traces.scan import scan
from tests.fuzz.compare import differences, unaccounted
from tests.fuzz.seeds import HEADER, LAYOUTS, document, random_event
from tests.traces.scan_readers import HAS_NATIVE, each_reader, names, one, plain, track, wrap

FLOWS = "sft"
IDS = {
    "correlation": ("correlation",),
    "device": ("device",),
    "stream": ("stream",),
    "bytes": ("bytes", "Bytes"),
    "external_id": ("External id", "external id"),
}


def number(value: Any) -> int:
    """An id of args as the scanner reads it."""
    if isinstance(value, str):
        return int(value, 16)
    return ABSENT if value is None else int(value)


def assert_is(found: Document, events: list[dict[str, Any]]) -> None:
    """The document holds exactly these events, as json.loads gives them."""
    kept = [event for event in events if event["ph"] not in FLOWS]
    assert found.events == len(events)
    assert [chr(ph) for ph in found.ph] == [event["ph"] for event in kept]
    assert names(found) == [event["name"] for event in kept]
    assert [found.cats[i] if i >= 0 else None for i in found.cat] == [e.get("cat") for e in kept]
    assert [track(found, pid) for pid in found.pid] == [event["pid"] for event in kept]
    assert [track(found, tid) for tid in found.tid] == [event["tid"] for event in kept]
    assert found.ts_ns.tolist() == [int(event["ts"] * 1000) for event in kept]
    durations = [int(event.get("dur", 0) * 1000) for event in kept]
    assert found.dur_ns.tolist() == [max(0, ns) for ns in durations]
    assert [bool(flags & HAS_TS) for flags in found.flags] == [True] * len(kept)
    assert [bool(flags & HAS_DUR) for flags in found.flags] == ["dur" in e for e in kept]
    assert [bool(flags & NEGATIVE_DUR) for flags in found.flags] == [ns < 0 for ns in durations]
    for column, keys in IDS.items():
        args = [event.get("args", {}) for event in kept]
        wanted = [next((number(a[k]) for k in keys if k in a), ABSENT) for a in args]
        assert getattr(found, column).tolist() == wanted
    nodes = [event.get("args", {}).get("graph node id") or ABSENT for event in kept]
    assert found.graph_node.tolist() == nodes
    texts = {
        int(i): json.loads(raw) for i, raw in zip(found.args_event, found.args_text, strict=True)
    }
    assert texts == {
        i: event["args"]
        for i, event in enumerate(kept)
        if "args" in event and (event["ph"] == "M" or "Collective name" in event["args"])
    }


@each_reader
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_events_that_json_finds(
    layout: str, bare: bool, reader: str
) -> None:
    rng = random.Random(layout)
    text = document([random_event(rng) for _ in range(200)], layout, bare=bare)
    found = one(text, reader, all_frames=True)
    whole = json.loads(text, parse_float=Decimal)
    assert_is(found, whole if bare else whole["traceEvents"])
    assert not found.losses


@each_reader
@pytest.mark.parametrize("layout", LAYOUTS)
def test_events_start_where_their_offset_says(layout: str, reader: str) -> None:
    rng = random.Random(layout)
    text = document([random_event(rng) for _ in range(50)], layout)
    found = one(text, reader, all_frames=True)
    raw = text.encode()
    decoder = json.JSONDecoder()
    for offset, name in zip(found.offset, names(found), strict=True):
        event, _ = decoder.raw_decode(raw[offset:].decode())
        assert event["name"] == name


@each_reader
@pytest.mark.parametrize("layout", LAYOUTS)
def test_metadata_on_both_sides_of_the_events_is_kept(layout: str, reader: str) -> None:
    found = one(document([random_event(random.Random(1))], layout), reader)
    header = {key: json.loads(value) for key, value in found.header.items()}
    assert header == {**HEADER, "traceName": "x.json"}


event_lists = st.integers(0, 2**32).map(
    lambda seed: [random_event(random.Random(seed + i)) for i in range(seed % 40)]
)
text_lists = st.lists(st.text(max_size=30), max_size=8)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(events=event_lists, layout=st.sampled_from(list(LAYOUTS)), bare=st.booleans())
def test_random_events_read_alike_on_both_paths(
    events: list[dict[str, Any]], layout: str, bare: bool
) -> None:
    text = document(events, layout, bare=bare).encode()
    pure = scan(text, ScanOptions(all_frames=True), reader="pure")
    whole = json.loads(text, parse_float=Decimal)
    assert_is(pure[0], whole if bare else whole["traceEvents"])
    assert not unaccounted(pure, len(text))
    if HAS_NATIVE:
        native = scan(text, ScanOptions(all_frames=True), reader="native")
        assert not differences(native, pure)


@settings(deadline=None, max_examples=100)
@given(texts=text_lists, ascii_only=st.booleans())
def test_any_text_can_be_a_name(texts: list[str], ascii_only: bool) -> None:
    wanted = [text.encode("utf-8", "replace").decode() for text in texts]
    events = [{"ph": "X", "name": name, "pid": name, "ts": 1} for name in wanted]
    raw = json.dumps({"traceEvents": events}, ensure_ascii=ascii_only).encode()
    for reader in ["native", "pure"] if HAS_NATIVE else ["pure"]:
        found = one(raw, reader)
        assert names(found) == wanted
        assert [track(found, pid) for pid in found.pid] == wanted


@each_reader
def test_the_words_trace_events_inside_args_are_no_events(reader: str) -> None:
    text = '{"a": {"traceEvents": [{"ph": "X"}]}, "b": "\\"traceEvents\\": [", "traceEvents": []}'
    found = one(text, reader)
    assert (found.events, found.has_events, list(found.header)) == (0, True, ["a", "b"])


@each_reader
def test_an_object_without_events_says_so(reader: str) -> None:
    found = one('{"schema": "1.0.2", "nodes": [{"id": 1}]}', reader)
    assert (found.has_events, found.events) == (False, 0)
    assert found.header == {"schema": b'"1.0.2"', "nodes": b'[{"id": 1}]'}


@each_reader
def test_byte_order_mark_leading_blanks_and_crlf_are_no_loss(reader: str) -> None:
    text = b"\xef\xbb\xbf \r\n" + wrap(plain(), plain("b")).replace("\n", "\r\n").encode()
    found = one(text, reader)
    assert (names(found), found.losses) == (["aten::mm", "b"], [])


@each_reader
def test_two_documents_in_one_text_are_two(reader: str) -> None:
    text = (wrap(plain("a")) + "\n" + wrap(plain("b"))).encode()
    first, second = scan(text, reader=reader)
    assert (names(first), names(second)) == (["a"], ["b"])
    assert (first.end, second.end) == (second.start, len(text))


@each_reader
def test_empty_text_is_no_document(reader: str) -> None:
    assert scan(b"", reader=reader) == []


@each_reader
def test_flows_are_counted_and_left_out(reader: str) -> None:
    flow = '{"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"}'
    found = one(wrap(flow, plain(), flow.replace('"s"', '"f"')), reader)
    assert (found.events, len(found.ph), found.dropped) == (3, 1, {"ac2g": 2})


@each_reader
def test_frames_are_left_out_unless_asked_for(reader: str) -> None:
    frames = [
        plain("a.py(1): run", cat="python_function"),
        plain("sglang/x.py(2): draft", cat="python_function"),
    ]
    text = wrap(*frames, plain())
    assert one(text, reader).dropped == {"python_function": 2}
    assert len(one(text, reader, all_frames=True).ph) == 3
    some = one(text, reader, frame_needles=(b"sglang/",))
    assert (names(some), some.dropped) == (
        ["sglang/x.py(2): draft", "aten::mm"],
        {"python_function": 1},
    )


@each_reader
def test_names_of_events_left_out_are_not_kept(reader: str) -> None:
    frame = plain("never shown", cat="python_function")
    assert one(wrap(frame, plain()), reader).names == ["aten::mm"]


@each_reader
def test_a_stream_in_hex_is_a_number(reader: str) -> None:
    found = one(wrap(plain(args={"stream": "0x1f"})), reader)
    assert found.stream.tolist() == [31]


@each_reader
def test_an_id_beyond_63_bits_is_absent_and_marked(reader: str) -> None:
    found = one(wrap(plain(args={"correlation": 1 << 63})), reader)
    assert (found.correlation[0], bool(found.flags[0] & 512)) == (ABSENT, True)


@each_reader
@pytest.mark.parametrize(
    ("args", "wanted"),
    [('{"stream": 7, "stream": 8}', 8), ('{"stream": 7, "x": {"stream": 8}}', 7)],
)
def test_a_key_that_stands_twice_is_marked_and_the_last_counts(
    args: str, wanted: int, reader: str
) -> None:
    event = '{"ph": "X", "ts": 1, "args": ' + args + "}"
    found = one(wrap(event), reader)
    assert found.stream[0] == wanted
    assert bool(found.flags[0] & 128) == (wanted == 8)


@each_reader
def test_a_key_spelled_with_escapes_is_that_key(reader: str) -> None:
    found = one(wrap('{"\\u0070h": "X", "na\\u006de": "x", "ts": 1}'), reader)
    assert (found.ph.tolist(), names(found)) == ([ord("X")], ["x"])
