"""The short ways of hooks say what the long one says."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specscope.profiler import attach, emit_torch, ranges, roles, wrappers
from specscope.profiler.attach import install
from tests.profiler.conftest import Engine

# What a scheduler sends through: cycles, prefills, idle batches, a cycle that fails.
BATCHES = st.lists(st.sampled_from(["DECODE", "DECODE", "EXTEND", "IDLE", "BROKEN"]), max_size=12)


class Cuda:
    """A GPU that captures nothing and whose events pass at once."""

    def is_current_stream_capturing(self) -> bool:
        return False

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = 0

        def record(self) -> None:
            self.at += 1

        def query(self) -> bool:
            return True

        def elapsed_time(self, other: Cuda.Event) -> float:
            return 1.0


def rows(engine: Engine, folder: Path, modes: list[str], *, every: int = 0) -> list[Any]:
    """What the log holds of the batches, times taken out, in the order of their ends."""
    install(folder)
    ranges.configure(ranges.Config(log=folder, events_every=every, nvtx="off"))
    ranges.enable()
    worker, results = engine.eagle.EAGLEWorkerV2(), []
    processor = engine(
        "sglang.srt.managers.scheduler_components.batch_result_processor"
    ).SchedulerBatchResultProcessor()
    for index, mode in enumerate(modes):
        batch = engine.eagle.Batch(mode, size=1 + index % 3)
        with contextlib.suppress(RuntimeError):
            results.append((worker.forward_batch_generation(batch), batch))
        if len(results) > 1:  # one turn late, as the overlapping scheduler does
            processor._resolve_spec_v2_tokens(*results.pop(0))
    attachment = attach.current()
    assert attachment is not None
    assert not any(hook["faults"] for hook in attachment.report()["hooks"])
    attachment.detach()
    ranges.shutdown()
    assert roles.JOB.here.stages == []
    assert roles.JOB.here.depth == 0
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.arrows")):
        with path.open("rb") as file:
            found += pa.ipc.open_stream(file).read_all().to_pylist()
    found.sort(key=lambda row: (row["end_ns"], row["start_ns"]))
    keys = ("row", "stage", "cycle", "draft_step", "batch", "k", "accept_lengths")
    return [tuple(row[key] for key in keys) for row in found]


@pytest.mark.parametrize("every", [0, 3])
@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(modes=BATCHES)
def test_the_log_of_the_short_ways_is_that_of_the_long_one(
    engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    every: int,
    modes: list[str],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(emit_torch.CUDA, "module", Cuda())
        short = rows(engine, tmp_path_factory.mktemp("short"), modes, every=every)
        patch.setattr(wrappers, "_SHORT", {})
        long = rows(engine, tmp_path_factory.mktemp("long"), modes, every=every)
    assert short == long
    assert sum(row[0] == "cycle" for row in short) >= modes.count("DECODE")


def test_a_cycle_that_only_the_log_hears_takes_the_short_way(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    whole = wrappers._whole
    monkeypatch.setattr(
        wrappers, "_whole", lambda hook, *rest: taken.append(hook.target.name) or whole(hook, *rest)
    )
    rows(engine, tmp_path, ["DECODE"] * 3)
    assert taken == []


def test_a_hook_knows_what_it_has_cost(engine: Engine, tmp_path: Path) -> None:
    attachment = install(tmp_path)
    worker = engine.eagle.EAGLEWorkerV2()
    for _ in range(3 * wrappers.TIMED_EVERY):
        worker.forward_batch_generation(engine.eagle.Batch())
    fired = [hook for hook in attachment.report()["hooks"] if hook["fired"]]
    assert len(fired) == 6
    for hook in fired:
        assert 0 < hook["own_ns"] < hook["fired"] * 10_000_000
    assert attachment.own_ns() == sum(hook["own_ns"] for hook in fired)
    for hook in attachment.entries:
        hook.hook.timed_ns = 0  # an estimate may fall; a counter must not
    assert attachment.own_ns() > 0
