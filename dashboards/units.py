"""Numbers as people read them: milliseconds with two decimals, microseconds under one.

No figure is made here; each is only written down. What is not known is `-`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

UNKNOWN: Final = "-"
# From here on a time is written in milliseconds: below it would round to 1000 us.
_MS_FROM_NS: Final = 999_500


def is_known(value: float | None) -> bool:
    """Is there a figure at all?"""
    return value is not None and math.isfinite(value)


def time_text(ns: float | None) -> str:
    """A length of time.

    >>> time_text(37_532_232.5), time_text(842_341), time_text(2_300), time_text(None)
    ('37.53 ms', '842 us', '2.3 us', '-')
    """
    if ns is None or not math.isfinite(ns):
        return UNKNOWN
    if abs(ns) >= _MS_FROM_NS:
        return f"{ns / 1e6:,.2f} ms"
    if ns and abs(ns) < 10_000:
        return f"{ns / 1e3:.1f} us"
    return f"{ns / 1e3:.0f} us"


def share_text(share: float | None) -> str:
    """A share as a percentage.

    >>> share_text(0.9024), share_text(None)
    ('90.2 %', '-')
    """
    return f"{100 * share:.1f} %" if share is not None and math.isfinite(share) else UNKNOWN


def range_text(low: float | None, high: float | None) -> str:
    """A range of shares, in percent.

    >>> range_text(0.901, 0.9098)
    '90.1-91.0'
    """
    if low is None or high is None or not (is_known(low) and is_known(high)):
        return UNKNOWN
    return f"{100 * low:.1f}-{100 * high:.1f}"


def between(texts: Iterable[str]) -> str:
    """Several figures as one text: the first and the last where they differ.

    >>> between(["8", "8"]), between(["37.52 ms", "37.53 ms"]), between(["900 us", "1.20 ms"])
    ('8', '37.52 to 37.53 ms', '900 us to 1.20 ms')
    """
    found = list(dict.fromkeys(texts))
    if not found:
        return UNKNOWN
    first, last = found[0], found[-1]
    if first == last:
        return first
    number, _, unit = first.partition(" ")
    return f"{number if unit == last.partition(' ')[2] else first} to {last}"


def count_text(count: float) -> str:
    """A whole number with its thousands apart."""
    return f"{int(count):,}"


def spread(values: Iterable[float | None], write: Callable[[float], str] = count_text) -> str:
    """The least and the greatest of several figures.

    >>> spread([13531, 13530, None])
    '13,530 to 13,531'
    """
    known = sorted(v for v in values if v is not None and math.isfinite(v))
    return between(write(v) for v in ([known[0], known[-1]] if known else []))


def size_text(size: float) -> str:
    """A size in bytes, as file managers write it.

    >>> size_text(454_018), size_text(5_100_000)
    ('454 kB', '5.1 MB')
    """
    for unit, bytes_in_it in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_in_it:
            amount = size / bytes_in_it
            return (
                f"{amount:.1f} {unit}" if amount < 100 and unit != "kB" else f"{amount:.0f} {unit}"
            )
    return f"{int(size)} bytes"
