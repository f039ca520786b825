"""The hooks beside torch itself: profiler, compiler, collectives. Skipped without torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import attach, roles
from specscope.profiler.attach import install
from tests.profiler.conftest import Engine, Record
from tests.shared import MISSING

try:
    import torch
except ImportError:
    MISSING.append("torch (not in ../shared: pip install torch)")
    pytest.skip("torch is not installed", allow_module_level=True)


@pytest.fixture
def collectives(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    import torch.distributed as dist

    monkeypatch.setenv(attach.COLLECTIVES, "1")
    attachment = install()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield attachment
    dist.destroy_process_group()


def test_ranges_are_in_the_trace_of_a_profiler_and_only_there(
    engine: Engine, tmp_path: Path
) -> None:
    install()
    worker, batch = engine.eagle.EAGLEWorkerV2(), engine.eagle.Batch()
    worker.forward_batch_generation(batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        worker.forward_batch_generation(batch)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    names = [e["name"] for e in events if str(e.get("name", "")).startswith("specscope:")]
    stages = ("accept", "cycle", "draft", "draft_extend", "verify")
    assert sorted(names) == sorted(f"specscope:{stage}|c=1|b=2|k=3" for stage in stages)


def test_a_hooked_method_in_compiled_code_breaks_no_graph(engine: Engine, record: Record) -> None:
    from torch._dynamo.utils import counters

    install()
    worker = engine("sglang.srt.managers.tp_worker").TpModelWorker()
    batch = engine.eagle.Batch()

    def forward(x: Any) -> Any:
        worker.forward_batch_generation(batch, is_verify=True)
        return x * 2 + 1

    counters.clear()
    compiled = torch.compile(forward, fullgraph=True, backend="eager")
    x = torch.ones(4)
    assert torch.equal(compiled(x), forward(x))
    assert not counters["graph_break"]
    assert record.stages == ["verify"]  # of the call that was not compiled


def test_a_collective_inside_a_stage_carries_its_bytes(collectives: Any, record: Record) -> None:
    import torch.distributed as dist

    x = torch.ones(1000)
    dist.all_reduce(x)
    assert record.stages == []
    roles.JOB.here.cycle = 5
    roles.JOB.here.stages.append("verify")
    dist.all_reduce(x)
    roles.JOB.here.stages.pop()
    assert record.opened == [("verify", {"cycle": 5, "rank": 0, "size": 4000})]


def test_collectives_are_hooked_under_both_their_names_and_come_off(collectives: Any) -> None:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    assert dist.all_reduce is distributed_c10d.all_reduce
    hook = next(e for e in collectives.entries if e.target.name == "all_reduce")
    assert "torch.distributed.all_reduce" in hook.hook.patches[0].rebound
    hooked = dist.all_reduce
    collectives.detach()
    assert dist.all_reduce is distributed_c10d.all_reduce is not hooked
    assert sys.modules["torch.distributed"].all_reduce is dist.all_reduce
