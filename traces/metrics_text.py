"""Reads samples of Prometheus text: names, labels, values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

MOST_TEXT: Final = 64 << 20
_LONGEST_LINE: Final = 16 << 10
_MOST: Final = 1e15  # no counter of an engine is larger
_SAMPLE: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)*\s*\Z")
_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass
class Page:
    """The samples of one scrape whose names begin as asked for; lines that cannot be read."""

    series: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)
    damaged: int = 0

    def total(self, name: str) -> float | None:
        """Sum over the series of a counter; None where the page does not have it."""
        values = [value for _, value in self._of(name)]
        return sum(values) if values else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The counter summed by the value of one label."""
        found: dict[str, float] = {}
        for labels, value in self._of(name):
            if label in labels:
                found[labels[label]] = found.get(labels[label], 0.0) + value
        return found

    def gauges(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of a gauge by its labels."""
        return {tuple(sorted(labels.items())): value for labels, value in self._of(name)}

    def _of(self, name: str) -> Iterable[tuple[dict[str, str], float]]:
        """The series of a name; clients add `_total` to a counter."""
        return self.series.get(name) or self.series.get(f"{name}_total") or ()


def page_of(text: str, prefixes: tuple[str, ...]) -> Page:
    """The samples with one of the prefixes; `:` in a name may have become `_` on its way."""
    page = Page()
    for line in _lines(text):
        if not line.startswith(prefixes):
            continue
        match = _SAMPLE.match(line)
        value = _value(match[3]) if match else None
        if match is None or value is None:
            page.damaged += 1
            continue
        if not abs(value) < _MOST:  # also a NaN: a gauge without a value yet
            continue
        name = match[1]
        for prefix in prefixes:
            if name.startswith(prefix):
                name = prefix.replace("_", ":") + name[len(prefix) :]
        labels = dict(_LABEL.findall(match[2] or ""))
        page.series.setdefault(name, []).append((labels, value))
    return page


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start : min(end, start + _LONGEST_LINE)].strip()
        start = end + 1


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
