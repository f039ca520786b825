"""Names from traces become one visible line."""

from __future__ import annotations

import doctest
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from specscope.dashboards import grid, markdown, safe_text, units
from specscope.dashboards.safe_text import clean


@given(st.text(st.characters(codec=None), max_size=200))
def test_nothing_invisible_is_left(text: str) -> None:
    kinds = {unicodedata.category(letter) for letter in clean(text)}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=50))
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text or not text.isprintable()


def test_a_name_of_a_megabyte_is_cut() -> None:
    assert len(clean("x" * 1_000_000, 120)) == 120


def test_a_lone_surrogate_can_be_written() -> None:
    clean("a\udcffb").encode("utf-8")


def test_the_examples_in_the_docstrings_hold() -> None:
    for module in (grid, markdown, safe_text, units):
        assert doctest.testmod(module).failed == 0, module.__name__
