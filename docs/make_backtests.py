"""Writes docs/backtests.md from benchmarks/backtests: `python docs/make_backtests.py`."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BACKTESTS = DOCS.parent / "benchmarks" / "backtests"


def main() -> str:
    """The page: its words with the tables put in."""
    table = runpy.run_path(str(BACKTESTS / "table.py"))["table"]()
    held_out = (BACKTESTS / "held_out.md").read_text("utf-8")
    page = (BACKTESTS / "page.md").read_text("utf-8")
    return page.replace("<!-- table -->", table.strip()).replace("<!-- held out -->", held_out)


if __name__ == "__main__":
    (DOCS / "backtests.md").write_text(main(), "utf-8")
