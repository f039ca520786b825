"""Times come from the digits, to the nanosecond, and never through a float."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.traces.events import (
    ABSENT,
    HAS_DUR,
    HAS_TS,
    NEGATIVE_DUR,
    NULLED,
    ODD_DECIMALS,
    QUOTED_NUMBER,
    ROUNDED,
)
from tests.fuzz.seeds import microseconds
from tests.traces.scan_readers import HAS_NATIVE, each_reader, one, plain, wrap

TIMES = [
    ("1712195495541300.987", 1712195495541300987, 0),
    ("4458676983543.183", 4458676983543183, 0),
    ("0.001", 1, 0),
    ("0", 0, 0),
    ("12", 12000, 0),
    ("1428625731622.25", 1428625731622250, ODD_DECIMALS),
    ("7.5", 7500, ODD_DECIMALS),
    ("102.95699890136719", 102957, ROUNDED),
    ("1.00049", 1000, ROUNDED),
    ("1.0005", 1001, ROUNDED),
    ("1.0009999999999999999999999", 1001, ROUNDED),
    ("-0.001", -1, 0),
    ("-5.250", -5250, 0),
    ("1.5e3", 1500000, ODD_DECIMALS),
    ("1E-3", 1, ODD_DECIMALS),
    ("15e-4", 2, ODD_DECIMALS | ROUNDED),
    ("+7.000", 7000, 0),
    (".5", 500, ODD_DECIMALS),
    ("5.", 5000, 0),
    ("00012.000", 12000, 0),
    ("9000000000000000", 9000000000000000000, 0),
    ('"12.345"', 12345, QUOTED_NUMBER),
]
UNREADABLE = [
    ("null", 0),
    ("true", 0),
    ("nan", NULLED),
    ("-inf", NULLED),
    ("Infinity", NULLED),
    ("NaN", NULLED),
    ('"nan"', NULLED | QUOTED_NUMBER),
    ("9000000000000001", 0),
    ("99999999999999999999999999", 0),
    ("1.2.3", 0),
    ("-660.-123", 0),
    ("0x10", 0),
    ("1e9999", 0),
    ('""', QUOTED_NUMBER),
    ("[1]", 0),
    ('{"a": 1}', 0),
    ("1" * 65, 0),
]


@each_reader
@pytest.mark.parametrize(("text", "ns", "flags"), TIMES)
def test_a_time_is_read_to_the_nanosecond(text: str, ns: int, flags: int, reader: str) -> None:
    found = one(wrap(plain(ts=text)), reader)
    assert (found.ts_ns[0], found.flags[0]) == (ns, flags | HAS_TS | HAS_DUR)


@each_reader
@pytest.mark.parametrize(("text", "flags"), UNREADABLE)
def test_a_time_that_is_no_number_is_absent(text: str, flags: int, reader: str) -> None:
    found = one(wrap(plain(ts=text)), reader)
    assert (found.ts_ns[0], found.flags[0]) == (ABSENT, flags | HAS_DUR)


@each_reader
def test_a_negative_duration_is_zero_and_marked(reader: str) -> None:
    found = one(wrap(plain(dur="-3.000")), reader)
    assert (found.dur_ns[0], found.flags[0]) == (0, HAS_TS | HAS_DUR | NEGATIVE_DUR)


@each_reader
def test_a_missing_duration_is_zero_and_not_marked_as_there(reader: str) -> None:
    found = one(wrap('{"ph": "X", "name": "a", "ts": 1}'), reader)
    assert (found.dur_ns[0], found.flags[0]) == (0, HAS_TS)


@settings(deadline=None)
@given(st.lists(st.integers(-(10**18), 9 * 10**18), min_size=1, max_size=50))
def test_printed_times_come_back_exactly(times: list[int]) -> None:
    text = wrap(*(plain(ts=microseconds(ns)) for ns in times))
    for reader in ["native", "pure"] if HAS_NATIVE else ["pure"]:
        assert one(text, reader).ts_ns.tolist() == times
