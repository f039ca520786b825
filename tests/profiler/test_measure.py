"""The load and what is measured with it, on servers that answer as the engines do."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specscope.profiler import engine_probe, load, measure, prometheus, vllm_command
from specscope.profiler.http_api import Api
from specscope.profiler.load import Answer, Load, sglang_answer, vllm_answer
from specscope.profiler.measure import Pair, evaluated, fitting
from specscope.profiler.server_errors import ServerError, UnsuitableError
from tests.profiler.fake_servers import (
    SECRET,
    Fake,
    FakeSglang,
    FakeVllm,
    expected_cycles,
    expected_rates,
    whole_patterns,
)

BOTH = [FakeSglang, FakeVllm]


def measured(fake: Fake, *, batch: int = 2, tokens: int = whole_patterns(120)) -> measure.Measured:
    api = Api(fake.url, fake.api_key)
    engine = engine_probe.probe(api)
    size = fitting(engine, batch=batch, prompt_tokens=8, tokens=tokens, vocabulary=None)
    return measure.measure(load.driver(api, engine), size, 3, seconds=30)


@pytest.mark.parametrize("kind", BOTH)
def test_tokens_a_second_and_cycle_leave_prefill_and_start_out(kind: Any) -> None:
    """The prefill takes half as long as the cycles of a long request: it must not show."""
    with kind(cycle_seconds=0.01, prefill_seconds=0.2) as fake:
        found = measured(fake)
    cycles = expected_cycles(found.load.tokens) - expected_cycles(found.load.short)
    more = found.load.batch * (found.load.tokens - found.load.short)
    cycle = fake.real_cycle_ms()
    assert found.step_ms.value == pytest.approx(cycle, rel=0.35)
    assert found.tokens_per_second.value == pytest.approx(1e3 * more / (cycles * cycle), rel=0.35)


@pytest.mark.parametrize("kind", BOTH)
def test_acceptance_is_in_one_convention_for_both_engines(kind: Any) -> None:
    with kind() as fake:
        found = measured(fake)
    assert found.accept_length is not None
    # The bonus token included: 2 drafts on average, and one more.
    assert found.accept_length.value == pytest.approx(3.0)
    assert found.position_rates == pytest.approx(expected_rates(), abs=0.05)
    assert list(found.position_rates) == sorted(found.position_rates, reverse=True)
    assert found.running_batch == pytest.approx(2.0)


@pytest.mark.parametrize("kind", BOTH)
def test_cycle_is_running_batch_times_accept_length_over_tokens_a_second(kind: Any) -> None:
    with kind(cycle_seconds=0.004) as fake:
        found = measured(fake)
    assert found.accept_length is not None
    rate = found.tokens_per_second.value
    cycle = 1e3 * found.running_batch * found.accept_length.value / rate
    assert cycle == pytest.approx(found.step_ms.value, rel=0.1)


@pytest.mark.parametrize("kind", BOTH)
def test_a_plain_server_is_measured_in_steps(kind: Any) -> None:
    with kind(speculates=False, cycle_seconds=0.01) as fake:
        found = measured(fake, tokens=33)
    assert not found.speculates
    assert found.accept_length is None
    assert found.position_rates == ()
    assert found.step_ms.value == pytest.approx(fake.real_cycle_ms(), rel=0.35)


@pytest.mark.parametrize("kind", BOTH)
def test_the_load_is_what_it_says(kind: Any) -> None:
    with kind() as fake:
        found = measured(fake)
    path = "/generate" if kind is FakeSglang else "/v1/completions"
    lengths = []
    for body in fake.asked(path):
        if kind is FakeSglang:
            sampling = body["sampling_params"]
            assert (sampling["temperature"], sampling["ignore_eos"]) == (0, True)
            lengths.append(sampling["max_new_tokens"])
        else:
            assert (body["temperature"], body["ignore_eos"]) == (0, True)
            lengths.append(body["max_tokens"])
    short, long = found.load.short, found.load.tokens
    assert lengths == [short, long] * 4  # the warm-up, and three pairs
    assert all(len(p) == 2 and {len(row) for row in p} == {8} for p in fake.prompts)
    flat = [token for prompts in fake.prompts for row in prompts for token in row]
    assert 0 < min(flat) <= max(flat) < load.SAFE_VOCABULARY


def test_no_prompt_begins_as_another_does() -> None:
    """So that no prefix cache knows it; the rest is fixed."""
    size = Load(4, 6, 64, 8, 1_000_000)
    prompts = [row for pair in range(3) for turn in range(2) for row in size.prompts(pair, turn)]
    assert len({row[0] for row in prompts}) == len(prompts)
    assert size.prompts(1, 0)[2][1:] == size.prompts(1, 1)[2][1:]
    assert size.prompts(1, 0)[2][1:] != size.prompts(2, 0)[2][1:]


# Counters.


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=40), min_size=1, max_size=4))
def test_both_engines_counters_give_the_same_rates(accepted: list[list[int]]) -> None:
    """`accepted[sequence][cycle]`: counted by hand, as SGLang, and as vLLM count it."""
    k = 5
    infos = []
    for sequence in accepted:
        histogram = [sequence.count(i) for i in range(k + 1)]
        while len(histogram) > 1 and not histogram[-1]:
            histogram.pop()  # SGLang's grows as needed
        infos.append(
            {
                "completion_tokens": 1 + sum(1 + a for a in sequence),
                "spec_verify_ct": len(sequence),
                "spec_num_correct_drafts": sum(sequence),
                "spec_correct_drafts_histogram": histogram,
            }
        )
    by_sglang = sglang_answer(infos, 1.0)
    flat = [a for sequence in accepted for a in sequence]
    page = "\n".join(
        [
            'vllm:num_requests_running{engine="0"} 0',
            f'vllm:spec_decode_num_drafts_total{{engine="0"}} {len(flat)}',
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {sum(flat)}',
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} '
                f"{sum(a > i for a in flat)}"
                for i in range(k)
            ),
        ]
    )
    by_vllm = vllm_answer("", page, 1.0, 1)
    expected = [sum(a > i for a in flat) / len(flat) for i in range(k)]
    assert list(by_vllm.position_rates) == pytest.approx(expected)
    padded = [*by_sglang.position_rates, *[0.0] * k][:k]
    assert padded == pytest.approx(expected)
    assert by_sglang.accept_length == pytest.approx(by_vllm.accept_length)
    assert by_sglang.accept_length == pytest.approx(1 + sum(expected))


def test_a_real_answer_of_sglang_is_read() -> None:
    """`meta_info` of SGLang 0.5.23 for one of two prompts, 32 tokens, EAGLE-3 with 3 steps."""
    info = {
        "completion_tokens": 32,
        "cached_tokens": 0,
        "spec_accept_rate": 0.6363636363636364,
        "spec_accept_length": 2.909090909090909,
        "spec_num_correct_drafts": 21,
        "spec_num_proposed_drafts": 33,
        "spec_verify_ct": 11,
        "spec_correct_drafts_histogram": [1, 4, 1, 5],
    }
    answer = sglang_answer([info], 0.4)
    assert (answer.steps, answer.verified, answer.drafted, answer.accepted) == (11, 11, 33, 21)
    assert answer.by_position == (10, 6, 5)
    assert answer.accept_length == pytest.approx(1 + 21 / 11)


def test_an_older_servers_names_are_known() -> None:
    info = {
        "completion_tokens": 32,
        "spec_verify_ct": 11,
        "spec_accept_token_num": 21,
        "spec_draft_token_num": 33,
        "spec_accept_histogram": [1, 4, 1, 5],
    }
    answer = sglang_answer([info], 0.4)
    assert (answer.drafted, answer.accepted, answer.by_position) == (33, 21, (10, 6, 5))


def test_a_server_that_counts_no_drafts_gives_the_accept_length_by_its_tokens() -> None:
    answer = sglang_answer([{"completion_tokens": 32, "spec_verify_ct": 10}], 0.4)
    assert answer.accept_length == pytest.approx(3.1)
    assert answer.position_rates == ()


def test_steps_of_several_data_parallel_engines_are_not_added_up() -> None:
    page = "\n".join(
        f'vllm:{name}{{engine="{engine}"}} {value}'
        for engine in (0, 1)
        for name, value in (("num_requests_running", 0), ("iteration_tokens_total_count", 40))
    )
    assert vllm_answer("", page, 1.0, 64).steps is None


def counters_of_vllm(sequences: list[list[int | None]]) -> tuple[str, int]:
    """The page, and the tokens made: `sequences[i]` has the accepted drafts of each cycle.

    None: the cycle had no draft. vLLM 0.32.0 (`SpecDecodingStats.observe_draft`) counts those that
    had one.
    """
    cycles = [cycle for sequence in sequences for cycle in sequence]
    verified = [cycle for cycle in cycles if cycle is not None]
    made = len(sequences) + len(cycles) + sum(verified)
    lines = {
        "num_requests_running": 0,
        "iteration_tokens_total_count": 1 + max(map(len, sequences)),
        "generation_tokens_total": made,
        "spec_decode_num_drafts_total": len(verified),
        "spec_decode_num_draft_tokens_total": 3 * len(verified),
        "spec_decode_num_accepted_tokens_total": sum(verified),
    }
    return "\n".join(f'vllm:{n}{{engine="0"}} {value}' for n, value in lines.items()), made


CYCLES = st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=40)


@given(st.lists(CYCLES, min_size=1, max_size=4))
def test_the_accept_length_is_over_all_cycles_also_those_without_a_draft(
    sequences: list[list[int | None]],
) -> None:
    page, made = counters_of_vllm(sequences)
    found = vllm_answer("", page, 1.0, made, len(sequences))
    cycles = [cycle for sequence in sequences for cycle in sequence]
    drafted = sum(cycle is not None for cycle in cycles)
    assert (found.verified, found.undrafted) == (drafted, len(cycles) - drafted)
    assert found.cycles == len(cycles)
    if drafted:
        assert found.accept_length == pytest.approx((made - len(sequences)) / len(cycles))


def test_a_cycle_that_is_cut_short_by_the_end_is_no_cycle_without_a_draft() -> None:
    page, made = counters_of_vllm([[3, 3, 3], [3, 3, 3]])
    assert vllm_answer("", page, 1.0, made - 5, 2).undrafted == 0


def test_n_gram_speculation_is_measured_by_all_of_its_cycles() -> None:
    """One of four cycles has a draft, of which two are accepted: 6 tokens in 4 cycles."""
    pairs = []
    for short, long in ((2, 20), (2, 20), (2, 20)):
        answers = []
        for rounds in (short, long):
            page, made = counters_of_vllm([[None, 2, None, None] * rounds] * 2)
            answers.append(vllm_answer("", page, 0.01 * (1 + 4 * rounds), made, 2))
        pairs.append(Pair(*answers))
    found = evaluated(Load(2, 8, 1 + 6 * 20, 1 + 6 * 2, 1000), pairs)
    assert found.accept_length is not None
    assert found.accept_length.value == pytest.approx(1.5)
    assert found.running_batch == pytest.approx(2.0)
    assert found.step_ms.value == pytest.approx(10.0)
    assert found.tokens_per_second.value == pytest.approx(300.0)
    assert found.notes == (
        "75 % of the cycles had no draft: the accept length is over all of them, over those with "
        "a draft it is 3.00",
    )
    assert found.counts["undrafted"] == 3 * 2 * 3 * 22


def test_a_server_that_never_found_a_draft_is_measured_in_steps() -> None:
    page, made = counters_of_vllm([[None] * 20])
    answer = vllm_answer("", page, 1.0, made, 1)
    first = vllm_answer("", counters_of_vllm([[None] * 4])[0], 0.2, 5, 1)
    assert not evaluated(Load(1, 8, 21, 5, 1000), [Pair(first, answer)]).speculates


def test_tokens_of_others_are_noticed() -> None:
    page = 'vllm:generation_tokens_total{engine="0"} 100'
    assert vllm_answer("", page, 1.0, 64).others
    assert not vllm_answer("", page, 1.0, 100).others


def test_sequences_that_end_at_different_times_make_the_running_batch_smaller() -> None:
    short = Answer(1.0, 20, steps=5, verified=10, accepted=10)
    long = Answer(2.0, 200, steps=65, verified=100, accepted=100)  # 5 + 60 steps, 10 + 90
    found = evaluated(Load(2, 8, 100, 10, 1000), [Pair(short, long)])
    assert found.running_batch == pytest.approx(90 / 60)
    assert found.step_ms.value == pytest.approx(1e3 / 60)
    assert "1.5 of 2 sequences ran" in found.notes[0]


def test_repetitions_that_differ_are_named() -> None:
    pairs = [Pair(Answer(1.0, 8, 8), Answer(1.0 + more, 64, 64)) for more in (1.0, 1.0, 1.5)]
    found = evaluated(Load(1, 8, 64, 8, 1000), pairs)
    assert "differs by 50 % between repetitions" in found.notes[0]
    assert found.step_ms.values == pytest.approx([1e3 / 56, 1e3 / 56, 1.5e3 / 56])


def test_tokens_a_second_are_those_of_all_prompts_at_the_median_cycle() -> None:
    """Prompts that accept more, and a repetition with a hiccup, do not go together by chance."""
    pairs = []
    for accepted, more in ((1, 1.0), (2, 1.0), (3, 2.0)):
        verified = 100
        tokens = verified * (1 + accepted)
        long = Answer(1.0 + more, tokens, verified, verified, accepted=accepted * verified)
        pairs.append(Pair(Answer(1.0, 0, 0, 0, accepted=0), long))
    found = evaluated(Load(1, 8, 64, 8, 1000), pairs)
    assert found.accept_length is not None  # a short request may have no draft at all
    assert found.accept_length.value == pytest.approx(1 + 600 / 300)
    pairs = [Pair(Answer(1.0, 2, 1, 1, accepted=1), pair.long) for pair in pairs]
    found = evaluated(Load(1, 8, 64, 8, 1000), pairs)
    assert found.accept_length is not None
    assert found.accept_length.value == pytest.approx(1 + 603 / 303)
    assert found.step_ms.value == pytest.approx(1e3 / 99)
    expected = 1e3 * found.accept_length.value / found.step_ms.value
    assert found.tokens_per_second.value == pytest.approx(expected)


PAIRS = st.lists(
    st.tuples(st.floats(0.1, 1), st.integers(1, 40), st.floats(1.1, 9), st.integers(41, 200)),
    min_size=1,
    max_size=6,
)


@given(PAIRS, st.lists(st.floats(0.0, 4.0), min_size=6, max_size=6))
def test_every_figure_lies_within_its_own_range(pairs: list[Any], accepted: list[float]) -> None:
    def answer(seconds: float, cycles: int, accept: float) -> Answer:
        drafts = int(accept * cycles)
        tokens = cycles + drafts
        return Answer(seconds, tokens, steps=cycles, verified=cycles, drafted=None, accepted=drafts)

    found = evaluated(
        Load(1, 8, 10_000, 16, 100),
        [
            Pair(answer(short, few, 1.0), answer(long, many, 1.0 + accept))
            for (short, few, long, many), accept in zip(pairs, accepted, strict=False)
        ],
    )
    assert found.accept_length is not None
    for figure in (found.tokens_per_second, found.step_ms, found.accept_length):
        assert len(figure.values) == len(pairs)
        assert min(figure.values) <= figure.value * (1 + 1e-9)
        assert figure.value <= max(figure.values) * (1 + 1e-9)


def test_counters_that_cannot_be_meant_are_named() -> None:
    short, long = (Answer(s, n, steps=n, verified=5, accepted=3) for s, n in ((1.0, 8), (2.0, 64)))
    with pytest.raises(ServerError, match="cannot be meant"):
        evaluated(Load(1, 8, 64, 8, 100), [Pair(short, long)])


def test_a_pair_that_a_hiccup_spoiled_is_taken_again() -> None:
    class Hiccup:
        seconds = iter([1.0, 1.0, 1.5, 1.2, 1.0, 2.0])

        def generate(self, prompts: Any, tokens: int, **_: Any) -> Answer:
            return Answer(next(self.seconds), tokens, tokens)

    found = measure.measure(Hiccup(), Load(1, 8, 64, 8, 1000), 1, seconds=1)
    assert found.step_ms.values == pytest.approx([1e3 / 56])


def test_a_long_request_that_takes_no_longer_gives_no_figure() -> None:
    pair = Pair(Answer(1.0, 8, 8), Answer(0.9, 64, 64))
    with pytest.raises(ServerError, match="took no longer"):
        evaluated(Load(1, 8, 64, 8, 1000), [pair])


# What the server is.


def test_an_engine_is_known_by_its_pages() -> None:
    with FakeSglang(tp=4) as fake:
        engine = engine_probe.probe(Api(fake.url))
    assert (engine.name, engine.version, engine.ranks) == ("sglang", "0.5.23", 4)
    assert (engine.speculation, engine.k, engine.topk, engine.draft_tokens) == ("EAGLE3", 3, 1, 4)
    with FakeVllm() as fake:
        engine = engine_probe.probe(Api(fake.url))
    assert (engine.name, engine.version, engine.served) == ("vllm", "0.32.0", "tiny")
    assert (engine.k, engine.most_tokens) == (3, 4096)


def test_an_older_sglang_is_known_by_its_older_page() -> None:
    class Older(FakeSglang):
        def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
            if path == "/get_server_info":
                return super().answer(method, "/server_info", body)
            return (404, {}) if path == "/server_info" else super().answer(method, path, body)

    with Older() as fake:
        assert engine_probe.probe(Api(fake.url)).name == "sglang"


@pytest.mark.parametrize(
    ("info", "ranks"),
    [
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 8),
        ({"tp_size": 4, "dp_size": 2}, 8),
        ({"tp_size": 4, "pp_size": 2}, 8),
    ],
)
def test_every_worker_of_sglang_writes_a_trace(info: dict[str, Any], ranks: int) -> None:
    with FakeSglang(info=info) as fake:
        assert engine_probe.probe(Api(fake.url)).ranks == ranks


def test_something_else_is_refused_in_one_line() -> None:
    with Fake() as fake:
        fake.answer = lambda *_: (404, {})
        with pytest.raises(UnsuitableError, match=r"neither SGLang .* nor vLLM"):
            engine_probe.probe(Api(fake.url))


def test_nothing_at_the_port_is_one_line() -> None:
    with pytest.raises(ServerError, match="does not answer GET /version: Connection refused"):
        engine_probe.probe(Api("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://h:99999", "http://u:p@h:1", "http://[x"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UnsuitableError):
        Api(url)


def test_a_missing_key_is_asked_for_and_a_given_one_is_never_shown() -> None:
    with FakeSglang(api_key=SECRET) as fake:
        with pytest.raises(UnsuitableError, match="give --api-key"):
            engine_probe.probe(Api(fake.url))
        api = Api(fake.url, SECRET)
        assert engine_probe.probe(api).name == "sglang"
        assert SECRET not in repr(api)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("vllm serve m -tp 2 --max-num-seqs=8", {"tensor_parallel_size": 2, "max_num_seqs": 8}),
        ("python -m vllm.x --model m --enforce-eager", {"model": "m", "enforce_eager": True}),
        (
            "vllm serve m --profiler-config.torch_profiler_dir=/t --profiler-config.profiler torch",
            {"profiler_config": {"torch_profiler_dir": "/t", "profiler": "torch"}},
        ),
        (
            """vllm serve m --speculative-config '{"method": "eagle3"}' -O 3""",
            {"speculative_config": {"method": "eagle3"}, "optimization_level": 3},
        ),
    ],
)
def test_vllms_command_line_is_taken_apart(command: str, found: dict[str, Any]) -> None:
    read = vllm_command.arguments([command])
    assert {key: read[key] for key in found} == found


def test_a_load_that_does_not_fit_is_refused_with_what_would() -> None:
    small = engine_probe.Engine("vllm", most_tokens=512, most_requests=4, most_batch_tokens=1000)
    ask = {"batch": 1, "prompt_tokens": 256, "tokens": 128, "vocabulary": None}
    assert fitting(small, **ask).tokens == 128
    for change, words in (
        ({"tokens": 300}, "holds 512 a sequence"),
        ({"batch": 3}, "cache of 1000"),
        ({"batch": 5, "prompt_tokens": 8}, "at most 4 sequences"),
        ({"tokens": 8}, "too short to measure"),
    ):
        with pytest.raises(UnsuitableError, match=words):
            fitting(small, **{**ask, **change})


# Prometheus.


def test_a_page_of_counters_is_summed_over_engines() -> None:
    page = (
        '# TYPE a counter\na_total{engine="0",m="x y"} 3.0\na_total{engine="1",m="x y"} 4\n'
        'a_created{engine="0"} 9\nab_total 5\nb NaN\nc{p="0"} 1\nc{p="1"} 2\nd +Inf\n'
    )
    assert prometheus.total(page, "a") == 7
    assert prometheus.total(page, "b") is None
    assert prometheus.total(page, "d") is None
    assert prometheus.by_label(page, "c", "p") == {"0": 1.0, "1": 2.0}


@given(st.text())
def test_no_page_of_counters_raises(page: str) -> None:
    total = prometheus.total(page, "a")
    assert total is None or math.isfinite(total)


def test_random_prompts_depend_on_the_seed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Load(2, 8, 64, 8, 1000).prompts(1, 0)
    random.seed(3)
    assert Load(2, 8, 64, 8, 1000).prompts(1, 0) == before
    assert Load(2, 8, 64, 8, 1000, seed=8).prompts(1, 0)[0][1:] != before[0][1:]
