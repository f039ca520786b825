"""Broken text: what is read all the same, what is mended, what is skipped, and what is said."""

from __future__ import annotations

import json
import time

import pytest

from specscope.traces import scan as scan_module
from specscope.traces.errors import TraceFormatError
from specscope.traces.events import ABSENT, NULLED, REPAIRED, Document
from specscope.traces.scan import scan
from specscope.traces.scan_losses import MAX_LOSS_ROWS
from specscope.traces.scan_parts import MAX_DEPTH
from tests.fuzz.compare import unaccounted
from tests.fuzz.seeds import LAYOUTS, Event, document
from tests.traces.scan_readers import each_reader, names, one, plain, reasons, wrap

QUOTED = [
    'quote "q" end',
    '"',
    '""',
    'starts "here',
    '{"a": 1, "b": 2}(3): f',
    '{"a": "1", "b": 2}(3): f',
    '[{"a": "b"}, {"c": "d"}](3): f',
    'x", y "z',
    'C:\\dir "q" x',
]


def lossless(found: Document, text: str | bytes) -> bool:
    """Is every byte accounted for?"""
    return not unaccounted([found], len(text.encode() if isinstance(text, str) else text))


def event(name: str, ts: int = 5) -> Event:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 1,
        "tid": 2,
        "ts": ts,
        "dur": 1,
        "args": {"External id": ts, "Ev Idx": 2},
    }


@each_reader
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUOTED)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_unescaped_quotes_in_a_name_are_mended(
    name: str, layout: str, place: int, reader: str
) -> None:
    wanted = ["first", "second", "third"]
    wanted[place] = "MARK"
    text = document([event(word, i) for i, word in enumerate(wanted)], layout)
    text = text.replace("MARK", name.replace("\\", "\\\\"))
    wanted[place] = name
    found = one(text, reader)
    assert names(found) == wanted
    assert found.external_id.tolist() == [0, 1, 2]
    assert [bool(flags & REPAIRED) for flags in found.flags] == [i == place for i in range(3)]
    assert reasons(found) == ["repaired"]
    assert found.losses[0].offset == found.offset[place]
    assert lossless(found, text)


@each_reader
def test_the_mended_stretch_is_the_whole_event(reader: str) -> None:
    text = wrap(plain("a"), plain("MARK").replace("MARK", 'x "y" z'), plain("b"))
    (loss,) = one(text, reader).losses
    assert text[loss.offset : loss.offset + loss.length] == plain("MARK").replace("MARK", 'x "y" z')


@each_reader
def test_a_missing_comma_inside_an_event_is_mended(reader: str) -> None:
    text = wrap('{"ph": "X" "name": "a", "ts": 1.000}', plain("b"))
    found = one(text, reader)
    assert (names(found), reasons(found)) == (["a", "b"], ["repaired"])


@each_reader
@pytest.mark.parametrize("between", ["\n  ", ",,\n  ", " , , "])
def test_a_missing_or_doubled_comma_between_events_is_named(between: str, reader: str) -> None:
    text = wrap(plain("a") + between + plain("b"))
    found = one(text, reader)
    assert names(found) == ["a", "b"]
    (loss,) = found.losses
    assert (loss.reason, loss.offset, loss.count) == ("odd_separator", found.offset[1], 1)
    assert lossless(found, text)


@each_reader
@pytest.mark.parametrize("tail", [",\n  ]\n}", "\n  ],\n}"])
def test_a_trailing_comma_is_no_loss(tail: str, reader: str) -> None:
    found = one('{"traceEvents": [' + plain("a") + tail, reader)
    assert (names(found), found.losses) == (["a"], [])


@each_reader
def test_a_trailing_comma_inside_an_event_is_no_loss(reader: str) -> None:
    found = one(wrap('{"ph": "X", "name": "a", "args": {"stream": 7, }, }'), reader)
    assert (names(found), found.stream.tolist(), found.losses) == (["a"], [7], [])


@each_reader
def test_control_bytes_in_a_name_stay(reader: str) -> None:
    found = one(wrap(plain("MARK")).replace("MARK", "a\x01\tb\nc"), reader)
    assert (names(found), found.losses) == (["a\x01\tb\nc"], [])


@each_reader
def test_bytes_that_are_not_utf8_are_replaced_and_counted(reader: str) -> None:
    text = wrap(plain("MARK"), plain("ok")).encode().replace(b"MARK", b"a\xffb\xe9")
    found = one(text, reader)
    assert (names(found), found.replaced_names) == (["a\ufffdb\ufffd", "ok"], 1)


@each_reader
def test_names_that_become_equal_by_replacing_are_one(reader: str) -> None:
    text = wrap(plain("MARK1"), plain("MARK2")).encode()
    found = one(text.replace(b"MARK1", b"\xff").replace(b"MARK2", b"\xfe"), reader)
    assert (found.names, found.name.tolist(), found.replaced_names) == (["\ufffd"], [0, 0], 2)


@each_reader
def test_backslashes_that_begin_no_escape_stay(reader: str) -> None:
    found = one(wrap(plain("MARK")).replace("MARK", r"C:\Users\x\\y\u12"), reader)
    assert names(found) == [r"C:\Users\x\y\u12"]


@each_reader
def test_half_a_surrogate_pair_is_replaced(reader: str) -> None:
    found = one(wrap(plain("MARK")).replace("MARK", r"a\ud83db"), reader)
    assert names(found) == ["a\ufffdb"]


@each_reader
@pytest.mark.parametrize("word", ["inf", "-nan", "NaN", "Infinity"])
def test_words_for_no_number_are_absent_in_columns(word: str, reader: str) -> None:
    found = one(wrap('{"ph": "X", "ts": 1, "args": {"bytes": ' + word + "}}"), reader)
    assert (found.bytes[0], bool(found.flags[0] & NULLED)) == (ABSENT, True)


@each_reader
def test_words_for_no_number_elsewhere_do_no_harm(reader: str) -> None:
    found = one(wrap('{"ph": "X", "ts": 1, "args": {"warps per SM": inf, "stream": 7}}'), reader)
    assert (found.stream.tolist(), found.losses) == ([7], [])


@each_reader
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cut_file_gives_its_complete_events(layout: str, reader: str) -> None:
    text = document([event(f"e{i}", i) for i in range(5)], layout)
    for cut in range(text.index('"ph"') - 4, len(text) - 1, 7):
        found = one(text[:cut], reader)
        assert names(found) == [f"e{i}" for i in range(len(found.name))]
        assert found.truncated
        assert lossless(found, text[:cut])


@each_reader
def test_the_tail_of_a_cut_file_is_a_loss(reader: str) -> None:
    text = wrap(plain("a"), plain("b"))
    cut = text.rindex('"name"') + 3
    (loss,) = one(text[:cut], reader).losses
    assert (loss.reason, loss.offset + loss.length) == ("truncated", cut)
    assert text[loss.offset :].startswith('{"ph"')


@each_reader
def test_a_file_cut_between_events_is_truncated_too(reader: str) -> None:
    text = '{"traceEvents": [' + plain("a") + ",\n"
    found = one(text, reader)
    assert (names(found), found.truncated, reasons(found)) == (["a"], True, ["truncated"])


@each_reader
def test_a_bare_array_needs_no_end(reader: str) -> None:
    found = one("[" + plain("a") + ",\n", reader)
    assert (names(found), found.is_array, found.truncated, found.losses) == (["a"], True, False, [])


@each_reader
def test_an_event_that_cannot_be_mended_is_skipped_alone(reader: str) -> None:
    text = wrap(plain("a"), '{"ph": "X", "name: 7', plain("b"))
    found = one(text, reader)
    (loss,) = found.losses
    assert (names(found), loss.reason, loss.count) == (["a", "b"], "bad_event", 1)
    assert text[loss.offset : loss.offset + loss.length] == '{"ph": "X", "name: 7'


@each_reader
def test_what_is_no_object_among_the_events_is_skipped(reader: str) -> None:
    text = wrap(plain("a"), "null", '"text"', "[1, {}]", plain("b"))
    found = one(text, reader)
    (loss,) = found.losses
    assert (names(found), loss.reason, loss.count) == (["a", "b"], "not_an_event", 3)
    assert lossless(found, text)


@each_reader
def test_a_comment_between_events_is_skipped(reader: str) -> None:
    text = wrap(plain("a"), "# a comment\n  " + plain("b"))
    found = one(text, reader)
    assert (names(found), reasons(found)) == (["a", "b"], ["not_an_event"])
    assert lossless(found, text)


@each_reader
def test_a_document_inside_a_cut_one_is_found(reader: str) -> None:
    text = wrap(plain("a"), plain("b"))
    both = (text[: text.rindex('"tid"')] + text).encode()
    first, second = scan(both, reader=reader)
    assert (names(first), first.truncated) == (["a"], True)
    assert (names(second), second.truncated) == (["a", "b"], False)
    assert not unaccounted([first, second], len(both))


@each_reader
def test_unescaped_quotes_in_a_header_value_are_mended(reader: str) -> None:
    text = '{\n  "my key": "val /"q/" /xnl",\n  "b": 1,\n  "traceEvents": [' + plain("a") + "]\n}"
    found = one(text, reader)
    assert (names(found), reasons(found)) == (["a"], ["repaired_header"])
    assert json.loads(found.header["my key"]) == 'val /"q/" /xnl'


@each_reader
def test_a_broken_header_does_not_hide_the_events(reader: str) -> None:
    text = '{\n  "a": oops {,\n  "b" 1,\n  "traceEvents": [' + plain("a") + '],\n  "c": 2\n}'
    found = one(text, reader)
    assert (names(found), found.header.get("c")) == (["a"], b"2")
    assert "bad_header" in reasons(found)
    assert lossless(found, text)


@each_reader
@pytest.mark.parametrize(
    "text", ["<!DOCTYPE html><p>{not json}", "version https://git-lfs", "\xff"]
)
def test_text_that_is_no_document_is_one_loss(text: str, reader: str) -> None:
    found = one(text.encode("latin-1"), reader)
    assert (reasons(found), found.has_events, found.skipped_bytes) == (
        ["not_json"],
        False,
        len(text),
    )


@each_reader
def test_text_behind_a_document_is_a_loss(reader: str) -> None:
    found = one(wrap(plain("a")) + "\nKilled", reader)
    assert (names(found), reasons(found)) == (["a"], ["not_json"])


@each_reader
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 10_000, 200_000])
def test_an_event_nested_too_deep_is_skipped_alone(depth: int, reader: str) -> None:
    deep = '{"ph": "X", "args": {"a": ' + "[" * depth + "]" * depth + "}}"
    found = one(wrap(plain("a"), deep, plain("b")), reader)
    assert (names(found), reasons(found)) == (["a", "b"], ["bad_event"])


@each_reader
def test_a_header_value_nested_too_deep_is_skipped_alone(reader: str) -> None:
    deep = "[" * 20_000 + "]" * 20_000
    found = one('{"deep": ' + deep + ', "traceEvents": [' + plain("a") + "]}", reader)
    assert (names(found), reasons(found), found.header) == (["a"], ["too_deep"], {})


@each_reader
def test_a_name_of_a_megabyte_is_a_name(reader: str) -> None:
    long = "x" * (1 << 20) + 'é"\\'
    found = one(wrap(plain(long), plain("b")), reader)
    assert names(found) == [long, "b"]


@each_reader
def test_an_event_over_the_limit_is_skipped_alone(reader: str) -> None:
    huge = plain("y" * (17 << 20))
    found = one(wrap(plain("a"), huge, plain("b")), reader)
    assert (names(found), reasons(found)) == (["a", "b"], ["bad_event"])


@each_reader
def test_a_header_value_over_the_limit_is_skipped_alone(reader: str) -> None:
    big = '"' + "y" * (17 << 20) + '"'
    found = one('{"big": ' + big + ', "traceEvents": [' + plain("a") + "]}", reader)
    assert (names(found), reasons(found), found.header) == (["a"], ["large_header"], {})


@each_reader
def test_a_header_of_too_many_keys_is_kept_in_part(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "MAX_HEADER_KEYS", 2)
    found = one('{"a": 1, "b": 2, "c": 3, "traceEvents": [' + plain("a") + "]}", reader)
    assert (names(found), list(found.header), reasons(found)) == (
        ["a"],
        ["a", "b"],
        ["large_header"],
    )


@each_reader
def test_many_bad_events_give_a_bounded_number_of_rows(reader: str) -> None:
    pairs = ",\n".join(f"null,\n{plain(dur='1.000')}" for _ in range(MAX_LOSS_ROWS + 50))
    found = one("[" + pairs + "]", reader)
    assert len(found.losses) == MAX_LOSS_ROWS + 1
    assert sum(loss.count for loss in found.losses) == MAX_LOSS_ROWS + 50
    assert found.skipped_bytes == sum(loss.length for loss in found.losses)


@each_reader
def test_lines_of_json_are_refused_in_words(reader: str) -> None:
    with pytest.raises(TraceFormatError, match="documents in one text"):
        scan(b'{"ph": "X"}\n' * 2000, reader=reader)


@each_reader
@pytest.mark.parametrize("piece", ['{"ph": 7 7},', '{"ph": 7}, 7 7,'])
def test_text_that_is_broken_everywhere_is_refused(
    piece: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "MAX_BREAKS", 50)
    with pytest.raises(TraceFormatError, match="broken places"):
        scan(b"[" + piece.encode() * 200 + b"]", reader=reader)


HOSTILE = {
    "open brackets": b'{"traceEvents":[' + b'{"ph":[' * 40_000,
    "open quotes": b'{"traceEvents":[' + b'{"ph":"X","name":"' * 40_000,
    "quotes and commas": b'{"traceEvents":[' + b'{"ph":"X","name":"a"b","pid":1},' * 3_000,
    "blanks": b'{"traceEvents":[' + b" " * 2_000_000,
    "commas": b"[" + b"," * 2_000_000,
    "backslashes": b'[{"ph":"' + b"\\" * 2_000_000,
    "keys": b"{" + b'"a":1,' * 100_000,
    "broken keys": b"{" + b'\n"a" 1,' * 20_000,
    "braces": b"[" + b"{" * 300_000,
    "garbage": b"[" + b"}" * 300_000,
    "nothing": b"\x00" * 2_000_000,
}


@each_reader
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_ends_in_bounded_time(kind: str, reader: str) -> None:
    text = HOSTILE[kind]
    started = time.process_time()
    documents = scan(text, reader=reader)
    assert time.process_time() - started < 10
    assert not unaccounted(documents, len(text))
