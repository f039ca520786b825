"""A toy loop under a real torch profiler: its file, read back, has the stages of the ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.profiler import grammar, ranges
from tests.shared import needed

torch: Any = needed("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

CYCLES = 12


@pytest.fixture
def on() -> Iterator[None]:
    ranges.configure(ranges.Config(nvtx="off"))
    ranges.enable()
    yield
    ranges.shutdown()


def toy_cycle(number: int) -> None:
    """Draft, verify and accept, as long as they say."""
    with ranges.cycle_range(cycle=number, batch=4, k=2):
        with ranges.stage("draft"):
            for step in range(2):
                with ranges.stage("draft", step=step):
                    time.sleep(0.001)
        with ranges.stage("verify", tokens=12):
            time.sleep(0.007)
        with ranges.stage("accept"):
            time.sleep(0.001)


def recorded(tmp_path: Path, work: Any) -> Path:
    path = tmp_path / "toy-TP-0.trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        work()
    profiler.export_chrome_trace(str(path))
    return path


def annotations(path: Path) -> list[str]:
    table = specscope.load(path, cache=False).ranks[0].ranges
    kinds, names = table["kind"].to_pylist(), table["name"].to_pylist()
    rows = zip(kinds, names, strict=True)
    return [name for kind, name in rows if kind == "annotation" and "specscope" in name]


def test_a_kineto_file_of_the_toy_loop_gives_its_stages(on: None, tmp_path: Path) -> None:
    path = recorded(tmp_path, lambda: [toy_cycle(number) for number in range(CYCLES)])
    report = specscope.analyze(specscope.load(path, cache=False))
    assert report.verdict.evidence == ("specscope",)
    shares = {row.stage: row.cycle_share.value for row in report.shares if row.rank is None}
    assert shares["draft"] == pytest.approx(0.2, abs=0.06)
    assert shares["verify_only"] == pytest.approx(0.7, abs=0.06)
    assert shares["accept"] == pytest.approx(0.1, abs=0.04)
    (row,) = report.cycles
    assert (row.batch, row.kind, row.count) == (4, "speculation", CYCLES - 1)
    cycles = report.tables["cycles"]
    assert cycles["number"].to_pylist() == list(range(CYCLES - 1))
    assert set(cycles["k"].to_pylist()) == {2}


def test_the_names_in_the_file_are_of_the_grammar(on: None, tmp_path: Path) -> None:
    names = annotations(recorded(tmp_path, lambda: toy_cycle(5)))
    assert [grammar.read(name) for name in names] == [
        grammar.RangeName("cycle", cycle=5, batch=4, k=2),
        grammar.RangeName("draft", cycle=5),
        grammar.RangeName("draft", cycle=5, step=0),
        grammar.RangeName("draft", cycle=5, step=1),
        grammar.RangeName("verify", cycle=5, tokens=12),
        grammar.RangeName("accept", cycle=5),
    ]


def test_without_a_profiler_no_annotation_is_made(on: None) -> None:
    assert ranges.stage("verify") is ranges.stage("verify", cycle=1)
    assert not ranges.emitters_report()["torch_profiler"]["profiling"]


def test_a_profiler_that_stops_inside_a_range_hurts_nobody(on: None, tmp_path: Path) -> None:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with ranges.stage("verify"):
        profiler.start()
        with ranges.stage("draft"):
            profiler.stop()
    assert ranges.emitters_report()["errors"] == {}
    names = annotations(recorded(tmp_path, lambda: toy_cycle(1)))
    assert len(names) == 6


def test_an_older_torch_gets_record_function(
    on: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch.autograd, "_record_function_with_args_enter")
    assert len(annotations(recorded(tmp_path, lambda: toy_cycle(1)))) == 6


def test_ranges_add_no_break_to_a_compiled_function_when_they_are_around_it(on: None) -> None:
    torch._dynamo.reset()
    breaks = torch._dynamo.utils.counters["graph_break"]
    before = sum(breaks.values())

    @torch.compile(backend="eager")
    def forward(x: Any) -> Any:
        return x * 2 + 1

    @ranges.stage("verify")
    def verify(x: Any) -> Any:
        return forward(x)

    assert verify(torch.ones(3)).tolist() == [3, 3, 3]
    assert sum(breaks.values()) == before
