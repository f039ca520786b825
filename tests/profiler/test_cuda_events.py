"""CUDA events at stage borders, with a GPU that is drawn: no CUDA is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specscope
from specscope.profiler import emit_torch, ranges
from specscope.profiler.cuda_events import MOST_PENDING, Sampler
from specscope.profiler.cycle_log_rows import CYCLE_ROW, Row


class Gpu:
    """A stream: the host puts work on it, events pass when it gets there."""

    def __init__(self) -> None:
        self.host_us = 0.0
        self.busy_until_us = 0.0
        self.stuck = False
        self.records = 0
        self.queries = 0
        self.capturing = False
        self.broken = False
        # as torch.cuda
        self._initialized = True

    def work(self, us: float) -> None:
        self.busy_until_us = max(self.busy_until_us, self.host_us) + us

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def is_initialized(self) -> bool:
        return True

    def Event(self, enable_timing: bool = False) -> Event:  # noqa: N802
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.at_us = 0.0

    def record(self) -> None:
        if self._gpu.broken:
            raise RuntimeError("CUDA error")
        self._gpu.records += 1
        self.at_us = max(self._gpu.busy_until_us, self._gpu.host_us)

    def query(self) -> bool:
        self._gpu.queries += 1
        return not self._gpu.stuck and self._gpu.host_us >= self.at_us

    def elapsed_time(self, other: Event) -> float:
        return (other.at_us - self.at_us) / 1000


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def rows() -> list[Row]:
    return []


@pytest.fixture
def sampler(gpu: Gpu, rows: list[Row]) -> Sampler:
    return Sampler(2, lambda: gpu.Event(enable_timing=True), rows.append, thread=1)


def stage(sampler: Sampler, gpu: Gpu, name: str, cycle: int, work_us: float) -> None:
    """The host launches in 20 us what takes the GPU `work_us`."""
    start = round(gpu.host_us * 1000)
    opened = sampler.enter(cycle, start)
    gpu.host_us += 20
    gpu.work(work_us)
    end = round(gpu.host_us * 1000)
    row = Row.of(name, (cycle, *[None] * 6), start, end, 1)
    if opened is not None:
        sampler.leave(opened, row, end)
    gpu.host_us += 10


def cycle(sampler: Sampler, gpu: Gpu, number: int) -> None:
    stage(sampler, gpu, "draft", number, 200)
    stage(sampler, gpu, "verify", number, 700)
    gpu.host_us = gpu.busy_until_us + 100


def test_spans_of_the_gpu_are_told_apart_from_those_of_the_host(
    sampler: Sampler, gpu: Gpu, rows: list[Row]
) -> None:
    for number in range(4):
        cycle(sampler, gpu, number)
    first = [row for row in rows if row.cycle == 0]
    assert [(row.row, row.gpu_start_ns, row.gpu_end_ns) for row in first] == [
        (CYCLE_ROW, 0, 1_020_000),
        (0, 0, 220_000),  # the event at the entry passes at once, the work begins 20 us later
        (0, 220_000, 920_000),
    ]
    assert {row.cycle for row in rows} == {0}


def test_cycles_that_are_not_sampled_cost_no_event(sampler: Sampler, gpu: Gpu) -> None:
    cycle(sampler, gpu, 1)
    assert gpu.records == gpu.queries == 0
    cycle(sampler, gpu, 2)
    assert gpu.records == 4
    cycle(sampler, gpu, 3)
    assert gpu.records == 5


def test_events_are_used_again(sampler: Sampler, gpu: Gpu) -> None:
    made = []
    sampler._new_event = lambda: made.append(Event(gpu)) or made[-1]
    for number in range(200):
        cycle(sampler, gpu, number)
    assert len(made) <= 12


@given(every=st.integers(1, 4), lags=st.lists(st.integers(0, 4), min_size=8, max_size=40))
def test_events_that_are_used_again_give_the_spans_of_new_ones(every: int, lags: list[int]) -> None:
    """The GPU lags by some cycles; a pooled event must not be recorded while it is needed."""

    def spans(*, pooled: bool) -> list[Row]:
        gpu, rows = Gpu(), list[Row]()
        sampler = Sampler(every, lambda: gpu.Event(enable_timing=True), rows.append, thread=1)
        for number, lag in enumerate(lags):
            if not pooled:
                sampler._free.clear()
            stage(sampler, gpu, "draft", number, 200 + number)
            stage(sampler, gpu, "verify", number, 700 + number)
            gpu.host_us = max(gpu.host_us, gpu.busy_until_us - 900 * lag) + 50
        return sorted(rows, key=lambda row: (row.cycle or 0, row.start_ns, row.row))

    assert spans(pooled=True) == spans(pooled=False)


def test_borders_that_touch_share_an_event_but_never_hide_a_stage(gpu: Gpu) -> None:
    rows: list[Row] = []
    sampler = Sampler(1, lambda: gpu.Event(enable_timing=True), rows.append, thread=1)
    outer = sampler.enter(0, 0)
    inner = sampler.enter(0, 2_000)
    assert outer is not None
    assert inner is not None
    assert gpu.records == 1
    gpu.work(50)
    sampler.leave(inner, Row.of("draft", (0, *[None] * 6), 2_000, 3_000, 1), 3_000)
    assert gpu.records == 2


def test_a_gpu_that_hangs_costs_gpu_times_and_no_row(gpu: Gpu) -> None:
    rows: list[Row] = []
    sampler = Sampler(1, lambda: gpu.Event(enable_timing=True), rows.append, thread=1)
    gpu.stuck = True
    for number in range(30):
        cycle(sampler, gpu, number)
    sampler.give_up()
    stages = [row for row in rows if row.row != CYCLE_ROW]
    assert len(stages) == 60
    assert all(row.gpu_end_ns is None for row in rows)
    assert sampler.unresolved == 30
    assert MOST_PENDING < 30


def test_a_cycle_whose_next_one_was_not_seen_has_no_gpu_times(
    sampler: Sampler, gpu: Gpu, rows: list[Row]
) -> None:
    for number in (0, 5, 6, 7, 8):
        cycle(sampler, gpu, number)
    timed = {row.cycle for row in rows if row.gpu_end_ns is not None}
    assert timed == {6}
    assert {row.cycle for row in rows} == {0, 6}


@pytest.fixture
def logging_to(tmp_path: Path, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch", object()))  # type: ignore[arg-type]
    monkeypatch.setattr(emit_torch.CUDA, "module", gpu)
    monkeypatch.setattr(ranges, "perf_counter_ns", lambda: round(gpu.host_us * 1000) + 1)
    config = ranges.Config(
        log=tmp_path / "log", nvtx="off", torch=False, events_every=2, rank=0, size=1
    )
    ranges.configure(config)
    ranges.enable()
    yield tmp_path / "log"
    ranges.shutdown()


def serve(gpu: Gpu, cycles: int) -> None:
    """The host is done in 60 us; the GPU drafts for 100 and verifies for 800."""
    for _ in range(cycles):
        with ranges.cycle_range(batch=8, k=3):
            for name, work_us in (("draft", 100), ("verify", 800)):
                with ranges.stage(name):
                    gpu.host_us += 20
                    gpu.work(work_us)
                gpu.host_us += 10
        gpu.host_us = gpu.busy_until_us + 80


def test_shares_of_a_log_are_the_gpus_where_events_are(logging_to: Path, gpu: Gpu) -> None:
    serve(gpu, 40)
    ranges.shutdown()
    report = specscope.analyze(specscope.load(logging_to))
    shares = {row.stage: row.cycle_share.value for row in report.shares if row.rank is None}
    # 1000 us: 20 until the first work, 100 of draft, 800 of verify, 80 until the next cycle.
    assert shares == pytest.approx({"draft": 0.12, "verify": 0.8, "schedule": 0.08}, abs=1e-3)
    assert report.clock == "cuda_events"
    assert "by CUDA events" in report.verdict.sentence
    assert report.verdict.headline.endswith("of the cycle, by the cycle log")
    assert report.verdict.evidence == ("specscope",)
    (note,) = [note for note in report.warnings if note.code == "log_host_times"]
    assert "verify 2.0 %" in note.text
    (row,) = report.cycles
    assert (row.batch, row.median_ns) == (8, 1_000_000)


def test_time_in_which_the_ranges_were_off_is_in_no_cycle(logging_to: Path, gpu: Gpu) -> None:
    for _ in range(20):
        serve(gpu, 5)
        ranges.disable()
        gpu.host_us += 50_000
        ranges.enable()
    ranges.shutdown()
    report = specscope.analyze(specscope.load(logging_to))
    assert report.clock == "cuda_events"
    assert set(
        report.tables["parts"].group_by("cycle").aggregate([("ns", "sum")])["ns_sum"].to_pylist()
    ) == {1_000_000}


def test_no_event_is_recorded_while_a_graph_is_captured(logging_to: Path, gpu: Gpu) -> None:
    gpu.capturing = True
    serve(gpu, 6)
    assert gpu.records == gpu.queries == 0
    gpu.capturing = False
    serve(gpu, 6)
    assert gpu.records > 0
    assert ranges.emitters_report()["errors"] == {}


def test_cuda_that_raises_ends_events_and_keeps_every_row(logging_to: Path, gpu: Gpu) -> None:
    serve(gpu, 4)
    gpu.broken = True
    serve(gpu, 10)
    report = ranges.emitters_report()
    assert report["errors"] == {"events": 1}
    assert not report["cuda_events"]["active"]
    ranges.shutdown()
    log = specscope.load(logging_to).ranks[0].cycle_log
    assert log is not None
    assert log["row"].to_pylist().count("stage") == 2 * 14
