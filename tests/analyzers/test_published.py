"""What people measured and published, as a table: figures in, what their text says out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from specscope.analyzers import figures
from specscope.analyzers.causes import judge

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

DATA = Path(__file__).resolve().parents[1] / "data" / "published_measurements.toml"
ROWS: list[dict[str, Any]] = tomllib.loads(DATA.read_text("utf-8"))["measurement"]
PRECISION = 0.001
row = pytest.mark.parametrize("row", ROWS, ids=lambda one: one["id"])


@row
def test_figures_follow_as_published(row: dict[str, Any]) -> None:
    table = figures.complete(row["figures"])
    for name, value in row.get("expect", {}).items():
        assert table[name] == pytest.approx(value, rel=PRECISION), name


@row
def test_causes_come_out_as_the_text_says(row: dict[str, Any]) -> None:
    found = judge(row["figures"])
    states = {name: found[name].state for name in row.get("causes", {})}
    assert states == row.get("causes", {})
    for name, state in states.items():
        assert bool(found[name].missing) == (state == "open"), name
    for name, words in row.get("beside", {}).items():
        assert any(words in text for text in found[name].beside)
    for name, words in row.get("against", {}).items():
        assert any(words in text for text in found[name].against)
    for name, value in row.get("gain", {}).items():
        assert found[name].gain == pytest.approx(value, rel=PRECISION), name
    for name, value in row.get("after", {}).items():
        assert found[name].after == pytest.approx(value, rel=PRECISION), name


def test_one_gpu_for_the_draft_comes_first_where_it_gains_most() -> None:
    constructed = next(row for row in ROWS if row["id"] == "constructed")
    assert judge(constructed["figures"]).of("seen")[0].id == "C7"
