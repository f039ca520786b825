"""Published measurements (field-problems.md 5.3): what their own figures say of break-even."""

from __future__ import annotations

import pytest

from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.throughput import Baseline, StageCost, Throughput, cycle_of_rate

MS = 1e6

# id, plain tokens/s, tokens/s with speculation, accept length, draft tokens, batch,
# break-even, speed-up.
RATES = [
    ("3.02 3 steps", 222.47, 159.78, 1.86, 3, 1, 2.59, 0.718),
    ("3.02 other draft", 222.47, 207.62, 1.99, None, 1, 2.13, 0.933),
    ("3.02 16 draft tokens", 222.47, 191.90, 2.52, None, 1, 2.92, 0.863),
    ("3.02 60 draft tokens", 222.47, 177.5, 3.2, None, 1, 4.01, 0.798),
    ("3.03", 218.89, 185.64, 2.54, None, 1, 2.995, 0.848),
    ("3.08 k=2", 128.64, 175.49, 1.89, 2, 1, 1.385, 1.364),
    ("3.08 k=4", 128.64, 165.65, 2.08, 4, 1, 1.615, 1.288),
    ("the story", 90.0, 71.0, 2.1, 5, 1, 2.66, 0.789),
]


def measured(
    plain: float, rate: float, accept_length: float, k: int | None, batch: int
) -> Throughput:
    return Throughput(
        cycle_ns=cycle_of_rate(rate, accept_length, batch),
        cycle_source="published",
        profiled=False,
        batch=batch,
        k=k,
        acceptance=Acceptance(accept_length, "published"),
        baseline=Baseline(1e9 * batch / plain, "published"),
    )


@pytest.mark.parametrize(
    ("plain", "rate", "accept_length", "k", "batch", "break_even", "speed_up"),
    [row[1:] for row in RATES],
    ids=[row[0] for row in RATES],
)
def test_break_even_and_speed_up(
    plain: float,
    rate: float,
    accept_length: float,
    k: int | None,
    batch: int,
    break_even: float,
    speed_up: float,
) -> None:
    found = measured(plain, rate, accept_length, k, batch)
    assert found.break_even == pytest.approx(break_even, abs=0.006)
    assert found.speed_up == pytest.approx(speed_up, abs=0.001)
    assert found.tokens_per_second == pytest.approx(rate)
    assert found.plain_tokens_per_second == pytest.approx(plain)


def test_a_longer_draft_of_3_08_costs_more_than_it_brings() -> None:
    """k = 2 to 4: 0.19 tokens more for a cycle longer by 1.79 ms, the break-even rises faster."""
    two, four = (measured(*row[1:6]) for row in RATES if row[0].startswith("3.08"))
    assert four.cycle_ns - two.cycle_ns == pytest.approx(1.79 * MS, abs=0.01 * MS)
    assert (four.tokens_per_second or 0) < (two.tokens_per_second or 0)
    assert (four.perfect_speed_up or 0) > (two.perfect_speed_up or 0) > 1


def test_the_figures_of_3_67_do_not_show_that_the_draft_decides() -> None:
    """OPT-30B at TP 4: 6.23 s with speculation, 2.42 s without; draft 1.39 s, alone 0.35 s.

    Without the draft's penalty it would take 5.2 s: still twice plain decoding.
    """
    with_speculation, plain, draft, draft_alone = 6.23e9, 2.42e9, 1.39e9, 0.35e9
    found = Throughput(
        cycle_ns=with_speculation,
        cycle_source="published",
        profiled=False,
        batch=1,
        k=None,
        acceptance=Acceptance(1.0, "the whole request as one cycle"),
        baseline=Baseline(plain, "published"),
        stages=(StageCost("draft", draft, (draft_alone, draft)),),
    )
    assert found.speed_up == pytest.approx(0.388, abs=0.001)
    without_penalty = with_speculation - (draft - draft_alone)
    assert without_penalty == pytest.approx(5.19e9)
    assert plain / without_penalty == pytest.approx(0.466, abs=0.001)
    # Even a draft for nothing leaves it at half the rate of plain decoding.
    gain = found.free_draft_gain
    assert gain is not None
    assert (found.speed_up or 0) * gain == pytest.approx(0.5, abs=0.001)


@pytest.mark.parametrize(
    ("cycle", "verify", "draft", "share", "gain"),
    [
        (27.7, 20.8, 4.9, 0.751, 1.215),
        (100.6, 79.5, 15.6, 0.790, 1.184),
        (26.2, 23.7, 2.6, 0.905, 1.110),
    ],
    ids=["3.21 concurrency 1", "3.21 concurrency 16", "3.66"],
)
def test_verify_decides_and_a_free_draft_gives_little(
    cycle: float, verify: float, draft: float, share: float, gain: float
) -> None:
    found = Throughput(
        cycle_ns=cycle * MS,
        cycle_source="published",
        profiled=False,
        batch=None,
        k=None,
        acceptance=None,
        baseline=None,
        stages=(
            StageCost("verify", verify * MS, (verify * MS, verify * MS)),
            StageCost("draft", draft * MS, (draft * MS, draft * MS)),
        ),
    )
    assert found.stage_ns("verify") / found.cycle_ns == pytest.approx(share, abs=0.001)
    assert found.free_draft_gain == pytest.approx(gain, abs=0.001)
    assert found.speed_up is None
