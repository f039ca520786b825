"""Acceptance and device times from Prometheus texts of SGLang and vLLM."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.traces.errors import TraceFormatError
from specscope.traces.server_metrics import ServerMetrics, read_metrics

HEAD = "# HELP x y\n# TYPE x counter\npython_info 1.0\n"


def vllm(
    drafts: int,
    accepted: int,
    drafted: int,
    positions: list[int],
    engine: int = 0,
    tail: str = "_total",
) -> str:
    label = f'engine="{engine}",model_name="m"'
    places = f"vllm:spec_decode_num_accepted_tokens_per_pos{tail}"
    rows = [
        f"vllm:spec_decode_num_drafts{tail}{{{label}}} {drafts}.0",
        f"vllm:spec_decode_num_draft_tokens{tail}{{{label}}} {drafted}.0",
        f"vllm:spec_decode_num_accepted_tokens{tail}{{{label}}} {accepted}.0",
        'vllm:spec_decode_num_drafts_created{x="y"} 1.7e9',
    ]
    for at, count in enumerate(positions):
        rows.append(f'{places}{{{label},position="{at}"}} {count}.0')
    return HEAD + "\n".join(rows) + "\n"


def read(*texts: str) -> ServerMetrics:
    return read_metrics(list(texts), [f"m{number}.txt" for number in range(len(texts))])


FIRST = vllm(87, 167, 259, [70, 60, 37])
SECOND = vllm(187, 317, 559, [150, 110, 57])


@pytest.mark.parametrize("tail", ["_total", ""])
def test_counters_of_vllm_since_the_server_started(tail: str) -> None:
    found = read(vllm(87, 167, 259, [70, 60, 37], tail=tail)).served
    assert found is not None
    assert round(found.accept_length or 0, 2) == 2.92
    assert found.by_position == pytest.approx((70 / 87, 60 / 87, 37 / 87))
    assert (found.cycles, found.accepted, found.drafted) == (87, 167, 259)
    assert found.source == "metrics m0.txt"


def test_two_texts_give_what_lies_between_them() -> None:
    found = read(FIRST, SECOND).served
    assert found is not None
    assert found.accept_length == pytest.approx(1 + 150 / 100)
    assert found.by_position == pytest.approx((0.8, 0.5, 0.2))
    assert (found.cycles, found.drafted) == (100, 300)
    assert found.source == "metrics m1.txt since m0.txt"


def test_a_server_that_was_started_anew_is_said_and_not_subtracted() -> None:
    found = read(SECOND, FIRST)
    assert found.restarted
    assert found.served is not None
    assert found.served.cycles == 87
    assert found.served.source == "metrics m1.txt"


def test_engines_of_one_server_are_added() -> None:
    both = vllm(60, 100, 180, [50, 30, 20]) + vllm(40, 50, 120, [30, 20, 0], engine=1)
    found = read(both).served
    assert found is not None
    assert found.accept_length == pytest.approx(2.5)
    assert found.by_position == pytest.approx((0.8, 0.5, 0.2))


def test_no_draft_between_two_texts_is_no_acceptance() -> None:
    assert read(FIRST, FIRST).served is None


def test_more_accepted_than_drafted_is_a_contradiction_and_no_acceptance() -> None:
    found = read(vllm(87, 267, 259, [70, 60, 37]))
    assert found.served is None
    assert found.impossible == "267 draft tokens are accepted of 259 drafted"
    assert read(FIRST).impossible == ""


def test_gauges_of_sglang_are_weighted_by_running_requests() -> None:
    text = "".join(
        f'sglang:{name}{{dp_rank="{rank}",tp_rank="0"}} {value}\n'
        for rank, values in enumerate([(3.0, 0.7, 1), (2.0, 0.4, 8), (0.0, 0.0, 0)])
        for name, value in zip(
            ("spec_accept_length", "spec_accept_rate", "num_running_reqs"), values, strict=True
        )
    )
    found = read(text).served
    assert found is not None
    assert found.accept_length == pytest.approx((3 + 16) / 9)
    assert found.rate == pytest.approx((0.7 + 3.2) / 9)
    assert "last log interval" in found.convention


def test_a_name_whose_colon_became_a_line_is_known() -> None:
    found = read('sglang_spec_accept_length{x="y"} 2.5\n').served
    assert found is not None
    assert found.accept_length == 2.5


@pytest.mark.parametrize(
    "name", ["sglang:gpu_execution_seconds_total", "sglang:forward_execution_seconds_total"]
)
def test_device_seconds_by_category_over_ranks_and_between_texts(name: str) -> None:
    def page(scale: float) -> str:
        return "".join(
            f'{name}{{category="{category}",tp_rank="{rank}"}} {seconds * scale}\n'
            for rank in (0, 1)
            for category, seconds in (("target_verify", 9.0), ("eagle_draft", 1.0), ("idle", 0.0))
        )

    found = read(page(1.0), page(3.0)).device
    assert found is not None
    assert found.between
    assert found.by_category == (("eagle_draft", 4.0), ("target_verify", 36.0))


def test_lines_that_cannot_be_read_are_counted_and_values_without_a_number_are_not() -> None:
    bad = 'vllm:spec_decode_num_drafts_total{engine="1"\nvllm:x 12abc\nvllm:y NaN\n'
    found = read(FIRST + bad)
    assert found.damaged == 2
    assert found.served is not None
    assert found.served.damaged == 2
    assert found.served.cycles == 87


def test_a_label_with_quotes_and_braces_is_read() -> None:
    text = r'vllm:spec_decode_num_drafts{model_name="a\"b}c{",engine="0"} 4' + "\n"
    text += "vllm:spec_decode_num_accepted_tokens 2\n"
    found = read(text).served
    assert found is not None
    assert found.accept_length == 1.5


@pytest.mark.parametrize("text", ["", "<html>", "python_info 1\n", "\0" * 100])
def test_what_is_no_text_of_an_engine_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TraceFormatError, match="no metric of SGLang or vLLM") as error:
        read(text)
    assert "\n" not in str(error.value)


LINE = st.sampled_from([*FIRST.splitlines(), *SECOND.splitlines(), "vllm:{{{", 'sglang:a{b="c'])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(LINE, st.text(max_size=40)), max_size=12), st.booleans())
def test_no_text_breaks_the_reader(lines: list[str], twice: bool) -> None:
    text = "\n".join(lines)
    try:
        found = read(*([text] * (2 if twice else 1)))
    except TraceFormatError:
        return
    if found.served is not None:
        assert (found.served.accept_length or 1) >= 1
        assert all(0 <= rate <= 1 for rate in found.served.by_position)
