"""The benchmarks: what the generator writes is one valid server run.

`benchmarks/run.py --quick` is a step of its own in CI.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import specscope
from tests.shared import shared_path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


generate = module("generate")
RECORDINGS = ["tp2-70b-eagle3-k3-nvlink-bs1", "tp2-8b-eagle3-k3-nvlink-bs1-stack"]


def recording(name: str) -> Path:
    return shared_path("traces", "own", name, "rank0.trace.json.gz")


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_large_trace_is_one_run_with_the_cycles_of_its_recording(
    name: str, tmp_path: Path
) -> None:
    target = tmp_path / "large.json"
    count = generate.generate(recording(name), target, 30_000_000)
    assert abs(target.stat().st_size - 30_000_000) < 300_000
    large = specscope.load(target, cache=False)
    (rank,) = large.ranks
    assert rank.facts["events"] == count
    assert rank.losses.num_rows == 0
    small = specscope.load(recording(name), cache=False)
    found, expected = specscope.analyze(large), specscope.analyze(small)
    lead, of = (next(row for row in report.cycles if row.leads) for report in (found, expected))
    assert lead.median_ns == pytest.approx(of.median_ns, rel=0.06)
    assert lead.count > of.count
    assert lead.outliers <= 1
    for share, other in zip(found.shares, expected.shares, strict=True):
        assert share.stage == other.stage
        assert share.cycle_share.value == pytest.approx(other.cycle_share.value, abs=0.03)


def events_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    text = gzip.decompress(text) if path.suffix == ".gz" else text
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def longest_overlap(events: list[dict[str, Any]]) -> float:
    """Microseconds by which an op reaches into the next one of its stream."""
    streams: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy"):
            op = (event["ts"], event["ts"] + event["dur"])
            streams.setdefault(event["tid"], []).append(op)
    pairs = [pair for ops in streams.values() for pair in pairwise(sorted(ops))]
    return max(op[1] - following[0] for op, following in pairs)


def test_ids_stay_unique_and_streams_stay_apart(tmp_path: Path) -> None:
    target = tmp_path / "large.json"
    generate.generate(recording(RECORDINGS[0]), target, 30_000_000)
    events = events_of(target)
    calls = [e["args"]["correlation"] for e in events if e.get("cat", "").startswith("cuda_")]
    assert len(set(calls)) == len(calls)
    flows = [e["id"] for e in events if e.get("ph") == "s"]
    assert len(set(flows)) == len(flows)
    assert set(flows) <= set(calls)
    recorded = longest_overlap(events_of(recording(RECORDINGS[0])))
    assert longest_overlap(events) == pytest.approx(recorded, abs=0.01)


@pytest.mark.parametrize("layout", ["compact", "indent"])
def test_a_layout_changes_blanks_only(layout: str, tmp_path: Path) -> None:
    own, other = tmp_path / "own.json", tmp_path / "other.json"
    generate.generate(recording(RECORDINGS[0]), own, 40_000_000)
    generate.generate(recording(RECORDINGS[0]), other, 40_000_000, layout=layout)
    first, second = own.read_text(), other.read_text()
    shorter = min(len(events_of(own)), len(events_of(other)))
    assert first[:2000] == second[:2000]
    assert events_of(own)[: shorter // 2] == events_of(other)[: shorter // 2]
    assert '"dur": 0.800' in first
    assert ('"dur":0.800' if layout == "compact" else '"dur": 0.800') in second


def test_ranks_are_files_of_one_run(tmp_path: Path) -> None:
    sources = [recording(RECORDINGS[0]), recording(RECORDINGS[0])]
    sources[1] = sources[1].with_name("rank1.trace.json.gz")
    arguments = [str(tmp_path / "run"), "--size", "6M", "--ranks", "3", "--gz", "1"]
    for source in sources:
        arguments += ["--source", str(source)]
    assert generate.main(arguments) == 0
    run = specscope.load(tmp_path / "run", cache=False)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2]
    assert {rank.facts["world_size"] for rank in run.ranks} == {3}
    assert [rank.ops["device"][0].as_py() for rank in run.ranks] == [0, 1, 2]
