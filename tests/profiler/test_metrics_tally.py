"""Counts of the metrics: every instant of a cycle has one stage, and nothing grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specscope.profiler import metrics_tally
from specscope.profiler.cycle_log_rows import STAGE_CODE, Row
from specscope.profiler.grammar import CYCLE, STAGES
from specscope.profiler.metrics_tally import Histogram, Tally


def row(stage: str, start: int, end: int, cycle: int | None = 0, **more: Any) -> Row:
    thread = more.get("thread", 1)
    values = (cycle, more.get("step"), more.get("batch"), None, 3, None, None)
    return Row.of(stage, values, start, end, thread)


def taken(*rows: Row) -> Tally:
    tally = Tally()
    tally.take(rows)
    tally.settle()
    return tally


def sums(histograms: dict[int, Histogram]) -> dict[str, int]:
    return {STAGES[code]: found.sum for code, found in histograms.items()}


# ---------------------------------------------------------------- stages

Tree = tuple[str, int, int, list[Any], int]


@st.composite
def trees(draw: st.DrawFn, depth: int = 0) -> Tree:
    """A range as (stage, idle before it, work before its children, children, work after)."""
    children = draw(st.lists(trees(depth + 1), max_size=3)) if depth < 3 else []
    stage = draw(st.sampled_from([s for s in STAGES if s != "prefill"]))
    small = st.integers(0, 4)
    return stage, draw(small), draw(small), children, draw(small)


def closed(tree: Tree, at: int, rows: list[Row], owner: list[str | None]) -> int:
    """The rows of a tree in the order of their ends; `owner` of each instant. Where it ends."""
    stage, before, first, children, last = tree
    start = at + before
    owner += [None] * (start - len(owner))
    owner += [stage] * first
    at = start + first
    for child in children:
        begun = len(owner)
        at = closed(child, at, rows, owner)
        # Between two children it is this range's own time.
        owner[begun:] = [stage if one is None else one for one in owner[begun:]]
    owner += [stage] * last
    at += last
    rows.append(row(stage, start, at))
    return at


@given(st.lists(trees(), min_size=1, max_size=4))
def test_a_stage_has_the_time_in_which_no_range_inside_it_was_open(forest: list[Tree]) -> None:
    rows: list[Row] = []
    owner: list[str | None] = []
    at = 0
    for tree in forest:
        at = closed(tree, at, rows, owner)
    tally = taken(*rows)
    expected = {stage: owner.count(stage) for stage in STAGES}
    assert {stage: ns for stage, ns in sums(tally.stages).items() if ns} == {
        stage: ns for stage, ns in expected.items() if ns
    }
    assert all(found.count == 1 for found in tally.stages.values())


def test_draft_steps_and_collectives_inside_a_stage_are_not_counted_twice() -> None:
    tally = taken(
        row("draft", 10, 20, step=0),
        row("draft", 20, 30, step=1),
        row("draft", 0, 40),
        row("verify", 50, 60),  # a collective
        row("verify", 40, 100),
    )
    assert sums(tally.stages) == {"draft": 40, "verify": 60}
    assert [found.count for found in tally.stages.values()] == [1, 1]


def test_ranges_of_one_stage_are_one_observation_a_cycle() -> None:
    tally = taken(*(row("schedule", 10 * n, 10 * n + 4) for n in range(5)))
    schedule = tally.stages[STAGE_CODE["schedule"]]
    assert (schedule.count, schedule.sum) == (1, 20)


def test_times_of_the_gpu_have_their_own_counts() -> None:
    rows = [
        row(CYCLE, 0, 100, 7).with_gpu(0, 900),
        row("draft", 10, 20, 7, step=0).with_gpu(100, 200),
        row("draft", 0, 30, 7).with_gpu(50, 250),
        row("verify", 30, 90, 7).with_gpu(250, 800),
    ]
    tally = taken(*rows)
    assert sums(tally.gpu_stages) == {"draft": 200, "verify": 550}
    assert sums(tally.stages) == {"draft": 30, "verify": 60}
    assert (tally.gpu_cycle.count, tally.gpu_cycle.sum) == (1, 900)


# ---------------------------------------------------------------- cycles


def cycle_at(number: int, start: int, stage: str = "verify", **more: Any) -> list[Row]:
    return [row(stage, start, start + 10, number, **more)]


def cycles(*starts: tuple[int, int, str]) -> Histogram:
    rows = [one for number, start, stage in starts for one in cycle_at(number, start, stage)]
    return taken(*rows).cycle


def test_a_cycle_reaches_to_the_start_of_the_next() -> None:
    found = cycles((0, 0, "verify"), (1, 25, "verify"), (2, 60, "verify"))
    assert (found.count, found.sum) == (2, 60)


def test_a_prefill_or_a_gap_in_the_numbers_ends_no_cycle() -> None:
    found = cycles((0, 0, "verify"), (1, 25, "prefill"), (2, 60, "verify"), (9, 90, "verify"))
    assert found.count == 0


def test_plain_steps_and_rounds_of_speculation_do_not_make_one_cycle() -> None:
    found = cycles((0, 0, "verify"), (1, 25, "decode"), (2, 60, "decode"))
    assert (found.count, found.sum) == (1, 35)


def test_a_sampled_cycle_that_comes_late_is_counted_like_the_others() -> None:
    in_order = cycles(*((n, 100 * n + n * n, "verify") for n in range(20)))
    late = [(n, 100 * n + n * n, "verify") for n in range(20)]
    late.insert(14, late.pop(10))
    found = cycles(*late)
    assert (found.count, found.sum, found.counts) == (
        in_order.count,
        in_order.sum,
        in_order.counts,
    )


def test_threads_have_cycles_of_their_own() -> None:
    rows: list[Row] = []
    for n in range(6):
        for thread in (1, 2):
            rows += [row("draft", 100 * n, 100 * n + 10, n, thread=thread)]
    for n in range(6):
        rows += [row("verify", 100 * n + 20, 100 * n + 50, n, thread=3)]
    tally = taken(*rows)
    assert (tally.cycle.count, tally.cycle.sum) == (15, 1500)
    assert tally.stages[STAGE_CODE["draft"]].count == 12


def test_ranges_without_a_cycle_are_counted_one_by_one() -> None:
    tally = taken(row("verify", 0, 10, None), row("verify", 20, 50, None))
    verify = tally.stages[STAGE_CODE["verify"]]
    assert (verify.count, verify.sum, tally.cycle.count) == (2, 40, 0)


def test_the_batch_is_read_once_a_cycle_from_whatever_range_knows_it() -> None:
    rows = [row("draft", 0, 5, 1), row("verify", 5, 9, 1), row(CYCLE, 0, 10, 1, batch=6)]
    tally = taken(*rows, row("prefill", 20, 30, 2, batch=99))
    assert (tally.batch.count, tally.batch.sum) == (1, 6)


# ---------------------------------------------------------------- lengths and buckets


@given(st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=20))
def test_accept_lengths_are_counted_one_by_one(batches: list[list[int]]) -> None:
    tally = taken(*(Row.accept(n, lengths, 0, 1) for n, lengths in enumerate(batches)))
    lengths = [length for batch in batches for length in batch]
    by_hand = Histogram(metrics_tally.LENGTH_BUCKETS)
    for length in lengths:
        by_hand.observe(length)
    found = tally.accept
    assert (found.counts, found.sum, found.count) == (by_hand.counts, sum(lengths), len(lengths))


@given(st.integers(0, 3_000_000_000))
def test_a_time_is_in_the_first_bucket_that_holds_it(ns: int) -> None:
    found = Histogram(metrics_tally.TIME_BUCKETS)
    found.observe(ns)
    at = found.counts.index(1)
    below = metrics_tally.TIME_BUCKETS[at - 1] if at else -1
    above = (*metrics_tally.TIME_BUCKETS, 1 << 62)[at]
    assert below < ns <= above


def test_buckets_reach_from_50_us_to_a_second() -> None:
    assert metrics_tally.TIME_BUCKETS[0] == 50_000
    assert metrics_tally.TIME_BUCKETS[-1] == 1_000_000_000
    assert list(metrics_tally.TIME_BUCKETS) == sorted(set(metrics_tally.TIME_BUCKETS))


# ---------------------------------------------------------------- memory


def hostile() -> Iterator[Row]:
    """Threads without end; then cycles without end, and one cycle that never ends."""
    for n in range(3_000):
        yield row("verify", n, n + 1, n, thread=n)
    for n in range(3_000):
        yield row("verify", 10 * n, 10 * n + 5, n, thread=-1)
        yield row("draft", 10 * n, 10 * n + 5, 1, thread=-2)


def test_what_is_kept_is_bounded_whatever_comes() -> None:
    tally = Tally()
    tally.take(hostile())
    threads = tally._threads.values()
    assert len(threads) <= metrics_tally.MOST_THREADS
    assert max(len(thread.starts) for thread in threads) <= metrics_tally.MOST_STARTS
    inside = [len(thread.open.inside) for thread in threads if thread.open is not None]
    assert max(inside) <= metrics_tally.MOST_RANGES
