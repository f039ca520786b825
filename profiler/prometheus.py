"""Reads counters out of a Prometheus page, summed over everything that is not asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

# No counter of an engine is larger.
_MOST = 1e15
_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def total(page: str, name: str) -> float | None:
    """The sum of a metric over its series, or None when the page does not have it.

    `_total` may be left out, as clients add it to counters.
    """
    values = [value for _, value in _series(page, name)]
    return sum(values) if values else None


def by_label(page: str, name: str, label: str) -> dict[str, float]:
    """The metric summed by the value of one label."""
    found: dict[str, float] = {}
    for labels, value in _series(page, name):
        key = dict(_LABEL.findall(labels)).get(label)
        if key is not None:
            found[key] = found.get(key, 0.0) + value
    return found


def _series(page: str, name: str) -> Iterator[tuple[str, float]]:
    wanted = {name, f"{name}_total"}
    for found, labels, text in _LINE.findall(page):
        if found not in wanted:
            continue
        try:
            value = float(text)
        except ValueError:
            continue
        if abs(value) < _MOST:  # a NaN compares false
            yield labels, value
