"""The pages say what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_page_of_the_tables_is_that_of_the_schemas() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_tables.py"))["main"]()
    assert (ROOT / "docs" / "tables.md").read_text("utf-8") == made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_every_warning_code_has_its_line() -> None:
    text = (ROOT / "docs" / "warnings.md").read_text("utf-8")
    codes = {
        code
        for path in [*(ROOT / "analyzers").glob("*.py"), *(ROOT / "traces").glob("*.py")]
        for code in re.findall(r'Note\(\s*"([a-z_]+)"', path.read_text("utf-8"))
    }
    assert {code for code in codes if f"`{code}`" not in text} == set()
