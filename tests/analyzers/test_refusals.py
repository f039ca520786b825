"""When a verdict is withheld, and what the report still gives."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.report import Report
from tests.analyzers.cases_ranges import share_trace


def trace() -> dict[str, Any]:
    """Six cycles with ranges of our own: a verdict is given."""
    loaded: dict[str, Any] = json.loads(share_trace(980).to_json("torch"))
    return loaded


def analyzed(folder: Path, events: dict[str, Any]) -> Report:
    path = folder / "trace.json"
    path.write_text(json.dumps(events))
    return specscope.analyze(specscope.load(path, cache=False))


def gpu(event: dict[str, Any]) -> bool:
    return event.get("cat") == "kernel"


def test_the_trace_itself_gives_a_verdict(tmp_path: Path) -> None:
    report = analyzed(tmp_path, trace())
    assert report.verdict.refused == ()
    assert report.verdict.stage == "verify"


def test_one_correlation_in_two_processes_links_nothing_and_refuses(tmp_path: Path) -> None:
    events = trace()
    launches = [e for e in events["traceEvents"] if e.get("cat") == "cuda_runtime"]
    events["traceEvents"] += [{**e, "pid": 99_999} for e in launches]
    report = analyzed(tmp_path, events)
    assert all(c.linked_ops == 0 for c in report.coverage) or not report.coverage
    assert report.verdict.refused


def test_kernels_on_two_devices_refuse_the_verdict(tmp_path: Path) -> None:
    events = trace()
    kernels = [e for e in events["traceEvents"] if gpu(e)]
    for event in kernels[::2]:
        event["pid"] = 1
        event["args"]["device"] = 1
    report = analyzed(tmp_path, events)
    assert any("devices 0, 1" in reason for reason in report.verdict.refused)
    assert report.share("verify") is not None


def test_an_op_before_its_launch_stays_unlinked_and_is_counted(tmp_path: Path) -> None:
    events = trace()
    kernels = sorted((e for e in events["traceEvents"] if gpu(e)), key=lambda e: float(e["ts"]))
    kernels[3]["ts"] = float(kernels[3]["ts"]) - 500
    report = analyzed(tmp_path, events)
    assert sum(c.ops - c.linked_ops for c in report.coverage) == 1
    assert any(note.code == "unlinked_ops" for note in report.warnings)


def test_graph_launches_without_any_op_say_that_graphs_were_not_recorded(tmp_path: Path) -> None:
    events = trace()
    for event in events["traceEvents"]:
        if event.get("cat") == "cuda_runtime" and event["args"]["correlation"] % 2:
            event["name"] = "cudaGraphLaunch"
    graphs = {
        e["args"]["correlation"]
        for e in events["traceEvents"]
        if e.get("name") == "cudaGraphLaunch"
    }
    events["traceEvents"] = [
        e for e in events["traceEvents"] if not (gpu(e) and e["args"]["correlation"] in graphs)
    ]
    report = analyzed(tmp_path, events)
    assert report.verdict.refused


def test_figures_and_tables_are_given_where_the_verdict_is_withheld(tmp_path: Path) -> None:
    report = analyzed(tmp_path, json.loads(share_trace(980, cycles=3).to_json("torch")))
    assert report.verdict.share is None
    assert report.verdict.refused[0].startswith("2 whole speculation cycles")
    assert report.share("verify") is not None
    assert report.tables["parts"].num_rows
    assert "start_profile" in report.verdict.recapture


def test_an_empty_trace_says_that_no_work_was_recorded(tmp_path: Path) -> None:
    report = analyzed(
        tmp_path,
        {
            "schemaVersion": 1,
            "traceEvents": [
                {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}
            ],
        },
    )
    assert "no work recorded" in report.verdict.sentence


def test_a_rank_without_stages_withholds_the_verdict_and_is_named(tmp_path: Path) -> None:
    whole, bare = trace(), trace()
    bare["distributedInfo"] = {"rank": 1, "world_size": 2}
    whole["distributedInfo"] = {"rank": 0, "world_size": 2}
    bare["traceEvents"] = [e for e in bare["traceEvents"] if e.get("cat") != "user_annotation"]
    for rank, events in enumerate((whole, bare)):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(events))
    report = specscope.analyze(
        specscope.load([tmp_path / "rank0.json", tmp_path / "rank1.json"], cache=False)
    )
    assert any("rank 1" in reason for reason in report.verdict.refused)


def recording(rank: int = 0) -> dict[str, Any]:
    """The bundled 70B recording, as JSON."""
    path = Path(__file__).parents[2] / "examples" / "tp2-70b-eagle3" / f"rank{rank}.trace.json.gz"
    loaded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def graph_rows(events: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """GPU rows of each graph launch, in order of time."""
    launches = {
        e["args"]["correlation"]
        for e in events["traceEvents"]
        if e.get("name") == "cudaGraphLaunch" and e.get("ph") == "X"
    }
    found: dict[int, list[dict[str, Any]]] = {}
    for e in events["traceEvents"]:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            correlation = e["args"]["correlation"]
            if correlation in launches:
                found.setdefault(correlation, []).append(e)
    return {c: sorted(rows, key=lambda e: float(e["ts"])) for c, rows in found.items()}


def without(events: dict[str, Any], lost: list[dict[str, Any]]) -> dict[str, Any]:
    gone = {id(e) for e in lost}
    return {**events, "traceEvents": [e for e in events["traceEvents"] if id(e) not in gone]}


def test_the_whole_recording_has_no_short_replay(tmp_path: Path) -> None:
    report = analyzed(tmp_path, recording())
    assert report.verdict.refused == ()
    assert all(c.short_replays is None for c in report.coverage)


@pytest.mark.parametrize("lose", [1, 50, 300])
def test_rows_lost_inside_one_graph_replay_refuse_the_verdict(tmp_path: Path, lose: int) -> None:
    events = recording()
    rows = sorted(graph_rows(events).values(), key=len)
    verify = [r for r in rows if len(r) == len(rows[-1])]
    report = analyzed(tmp_path, without(events, verify[4][-lose:]))
    assert any("hold fewer ops than others of the same graph" in r for r in report.verdict.refused)
    assert report.share("verify") is not None


def test_rows_lost_at_random_inside_graphs_refuse_the_verdict(tmp_path: Path) -> None:
    events = recording()
    choice = random.Random(5)
    every = [row for rows in graph_rows(events).values() for row in rows]
    report = analyzed(tmp_path, without(events, choice.sample(every, len(every) // 3)))
    assert report.verdict.refused


def test_files_of_two_captures_are_not_averaged(tmp_path: Path) -> None:
    one, other = recording(0), recording(1)
    other["baseTimeNanoseconds"] += 3600 * 10**9
    for rank, events in enumerate((one, other)):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(events))
    report = specscope.analyze(
        specscope.load([tmp_path / "rank0.json", tmp_path / "rank1.json"], cache=False)
    )
    assert any("not one capture" in reason for reason in report.verdict.refused)
    assert report.verdict.share is None


def test_ops_without_launch_calls_are_not_blamed_on_missing_marks(tmp_path: Path) -> None:
    events = recording()
    events["traceEvents"] = [
        e for e in events["traceEvents"] if e.get("cat") not in ("cuda_runtime", "cuda_driver")
    ]
    report = analyzed(tmp_path, events)
    assert (
        "GPU ops can be linked to its launch: no launch call is on record"
        in (report.verdict.refused[0])
    )


def test_a_file_that_ends_early_is_the_first_reason(tmp_path: Path) -> None:
    text = json.dumps(trace(), indent=1)
    path = tmp_path / "cut.json"
    path.write_text(text[: len(text) // 3])
    report = specscope.analyze(specscope.load(path, cache=False))
    assert report.verdict.refused[0] == "the file of rank 0 ends early"


@pytest.mark.parametrize("share", [1.0, 0.01])
def test_events_written_twice_count_once(tmp_path: Path, share: float) -> None:
    events = recording()
    once = analyzed(tmp_path, events)
    rows = [
        e
        for e in events["traceEvents"]
        if e.get("cat") in ("kernel", "gpu_memcpy", "cuda_runtime", "cuda_driver")
    ]
    again = random.Random(3).sample(rows, int(len(rows) * share))
    twice = analyzed(tmp_path, {**events, "traceEvents": [*events["traceEvents"], *again]})
    assert twice.tables["parts"].equals(once.tables["parts"])
    losses = twice.tables["losses"].to_pylist()
    assert sum(row["count"] for row in losses if row["reason"] == "duplicate_event") == len(again)
