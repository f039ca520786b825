"""The report in an issue tracker."""

from __future__ import annotations

from collections.abc import Callable

from specscope.dashboards.markdown import escape, markdown_text
from tests.dashboards import reports


def test_the_document_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("two_ranks_of_70b.md", markdown_text(reports.bundled()))


def test_the_verdict_stands_first_and_the_details_are_folded() -> None:
    text = markdown_text(reports.bundled())
    assert text.splitlines()[2].startswith("**Verify")
    assert text.count("<details>") == text.count("</details>") == 1


def test_tables_have_as_many_cells_in_every_row() -> None:
    for block in markdown_text(reports.bundled()).split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") - row.count("\\|") for row in rows}) <= 1


def test_names_are_shown_and_never_become_markup() -> None:
    text = markdown_text(reports.hostile())
    assert "<script>" not in text
    assert "<img" not in text
    assert "\x1b" not in text


def test_names_become_no_mention_no_reference_and_no_link() -> None:
    shown = escape("@someone #12 http://example.org www.example.org [a](b) `x` $y$")
    for mark in ("@s", "#1", "://", "www.", "[a]", " `x`", " $y"):
        assert mark not in shown


def test_a_withheld_verdict_gives_the_call_as_code() -> None:
    text = markdown_text(reports.drawn("two_cycles_give_figures_and_no_verdict"))
    assert "No verdict" in text.splitlines()[2]
    assert "```sh\n" in text
