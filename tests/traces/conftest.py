"""The readers of SQLite exports, so that a test runs with each."""

from __future__ import annotations

import pytest

from specscope.traces import nsys_sqlite
from tests.shared import NOT_INSTALLED


@pytest.fixture(params=["pages", "sql"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test once with the native reader of pages, and once without."""
    if request.param == "sql":
        monkeypatch.setattr(nsys_sqlite, "read_pages", None)
    elif nsys_sqlite.read_pages is None:
        NOT_INSTALLED.append("specscope.traces._pages")
        pytest.skip("the native reader was not built")
