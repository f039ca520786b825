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


def test_the_page_of_the_dataset_is_that_of_its_schemas() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_dataset.py"))["main"]()
    assert (ROOT / "docs" / "dataset.md").read_text("utf-8") == made


def test_the_page_of_the_backtests_is_made_from_what_was_predicted_and_measured() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_backtests.py"))["main"]()
    assert (ROOT / "docs" / "backtests.md").read_text("utf-8") == made


def test_the_page_of_the_causes_is_that_of_the_rules() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_causes.py"))["main"]()
    assert (ROOT / "docs" / "causes.md").read_text("utf-8") == made


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


def test_the_answer_in_the_readme_is_what_the_tool_prints() -> None:
    """Every line of the sample, in order; what was left out is marked by `...`."""
    readme = (ROOT / "README.md").read_text("utf-8")
    sample = readme.split("$ analyze examples/tp2-70b-eagle3\n")[1].split("```")[0]
    golden = ROOT / "tests" / "dashboards" / "golden" / "two_ranks_of_70b.80.txt"
    printed = golden.read_text("utf-8")
    at = 0
    for piece in sample.rstrip().removesuffix("...").split("\n...\n"):
        found = printed.find(piece.strip("\n"), at)
        assert found >= 0, piece
        at = found
