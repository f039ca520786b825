"""The grammar of specscope's own ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.profiler import grammar
from specscope.profiler.grammar import CYCLE, STAGES, RangeName

numbers = st.one_of(st.none(), st.integers(-1, 10**15))


@given(
    st.builds(
        RangeName,
        st.sampled_from([*STAGES, CYCLE]),
        *[numbers] * 7,
    )
)
def test_what_is_written_is_read_back(name: RangeName) -> None:
    text = grammar.write(name)
    assert text.isascii()
    assert grammar.read(text) == name


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_without_an_error(text: str) -> None:
    grammar.read(text)
    grammar.read(grammar.PREFIX + text)


def test_fields_that_are_not_known_are_kept_out() -> None:
    assert grammar.read("specscope:draft|c=3|zz=9|s=x|b=2") == RangeName("draft", cycle=3, batch=2)


@pytest.mark.parametrize(
    "text", ["specscope.draft", "specscope:drafting", "Specscope:draft", "specscope:", "draft"]
)
def test_other_names_are_none_of_ours(text: str) -> None:
    assert grammar.read(text) is None


def test_an_unknown_stage_is_not_written() -> None:
    with pytest.raises(ValueError, match="unknown stage"):
        grammar.write(RangeName("drafting"))
