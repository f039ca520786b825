"""The slow reference gives the answers that were worked out for the shared cases."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import reference as ref
from tests.shared import shared_path

EXPECTED: dict[str, Any] = json.loads(shared_path("cases", "expected.json").read_text("utf-8"))

LAUNCH_KINDS = (
    (re.compile(r"GraphLaunch"), "graph_launch"),
    (re.compile(r"Synchronize"), "sync"),
    (re.compile(r"Memcpy"), "copy"),
    (re.compile(r"Memset"), "set"),
    (re.compile(r"Launch"), "launch"),
)
COLLECTIVE = re.compile(r"ncclDevKernel|ncclKernel|cross_device_reduce")
STAGE = re.compile(r"specscope:(?!cycle\b)(?P<stage>\w+)(?:\|c=(?P<cycle>\d+))?")


class Timeline(NamedTuple):
    """What the reference needs of one rank."""

    ops: list[ref.Op]
    calls: list[ref.Call]
    ranges: list[ref.StageRange]


def read(path: Path) -> Timeline:
    """Read a clean case with nothing but the standard library; digits become integers."""
    document = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    ops, calls, ranges = [], [], []
    for event in document["traceEvents"]:
        if event.get("ph") != "X":
            continue
        name, category = event["name"], event.get("cat")
        start = int(event["ts"] * 1000)
        end = start + int(event["dur"] * 1000)
        correlation = event.get("args", {}).get("correlation")
        if category in ("kernel", "gpu_memcpy", "gpu_memset"):
            what = {"gpu_memcpy": "copy", "gpu_memset": "set"}.get(category, "compute")
            if COLLECTIVE.search(name):
                what = "collective"
            stream = event["args"]["stream"]
            ops.append(ref.Op(start, end, stream, correlation, what, name))
        elif category in ("cuda_runtime", "cuda_driver"):
            kind = next((k for pattern, k in LAUNCH_KINDS if pattern.search(name)), "other")
            calls.append(
                ref.Call(start, end, event["tid"], correlation, kind, blocks=kind == "sync")
            )
        elif category == "user_annotation" and (match := STAGE.match(name)):
            cycle = int(match["cycle"]) if match["cycle"] else None
            ranges.append(ref.StageRange(start, end, match["stage"], event["tid"], cycle))
    return Timeline(ops, calls, ranges)


def answer(timeline: Timeline) -> list[dict[str, Any]]:
    """The cycles in the form of expected.json."""
    ops, calls, ranges = timeline
    links = ref.link(ops, calls)
    owners = ref.own(links, calls, ranges)
    cycles = ref.windows(ops, owners, ref.openings(ranges))
    stages = ref.stages(links, owners, ranges)
    parts = ref.parts(ref.partition(ops, links, stages, calls, cycles))
    return [
        {
            "cycle": i,
            "start_ns": start,
            "end_ns": end,
            "cycle_ns": end - start,
            "parts": parts[i],
        }
        for i, (start, end) in enumerate(cycles)
    ]


def without_zeros(cycles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A part of 0 ns may be written or left out."""
    return [
        {**cycle, "parts": {what: ns for what, ns in cycle["parts"].items() if ns}}
        for cycle in cycles
    ]


PARTITIONED = sorted(
    name
    for name, entry in EXPECTED.items()
    if re.match(r"[ar]\d\d_\w+\.json$", name) and "cycles" in entry
)


@pytest.mark.parametrize("name", PARTITIONED)
def test_the_partition_of_a_case_is_the_answer(name: str) -> None:
    assert answer(read(shared_path("cases", name))) == without_zeros(EXPECTED[name]["cycles"])


@pytest.mark.parametrize("name", PARTITIONED)
def test_the_ops_of_a_case_have_the_stages_of_the_answer(name: str) -> None:
    ops, calls, ranges = read(shared_path("cases", name))
    links = ref.link(ops, calls)
    found = ref.stages(links, ref.own(links, calls, ranges), ranges)
    expected = EXPECTED[name]["ops_by_stage"]
    assert {stage: found.count(stage) for stage in found} == expected


def test_the_undamaged_case_gives_its_partition() -> None:
    expected = EXPECTED["b00_good.json"]["partition"]["cycles"]
    assert answer(read(shared_path("cases", "b00_good.json"))) == without_zeros(expected)


@pytest.mark.parametrize("name", ["c01_base.json", "c01_slower.json", "c01_noise.json"])
def test_the_verify_work_of_the_compared_cases_is_the_answer(name: str) -> None:
    cycles = answer(read(shared_path("cases", name)))
    work = [cycle["parts"]["work/verify/compute"] for cycle in cycles]
    assert work == EXPECTED[name]["verify_busy_ns"]
    assert (
        sorted(c["cycle_ns"] for c in cycles)[len(cycles) // 2]
        == (EXPECTED[name]["median_cycle_ns"])
    )


@pytest.mark.parametrize("name", PARTITIONED)
def test_the_parts_of_a_cycle_add_up_to_its_length(name: str) -> None:
    for cycle in answer(read(shared_path("cases", name))):
        assert sum(cycle["parts"].values()) == cycle["cycle_ns"]
