"""When a verdict is withheld, and what the report still gives."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers.report import Report
from specscope.dashboards.json_report import json_text
from specscope.dashboards.terminal import plain_report
from tests.analyzers.cases_ranges import share_trace
from tests.build import GEMM, Timeline


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


def two_ranks(folder: Path, one_rank: Timeline, batches: tuple[int, int]) -> Report:
    """Two ranks of one capture that ran alike, at those batches."""
    for rank, batch in enumerate(batches):
        text = one_rank.to_json("torch").decode().replace("|b=1", f"|b={batch}")
        events = json.loads(text)
        info = events.get("distributedInfo", {}) | {"rank": rank, "world_size": 2}
        # A copy of a recording is no second rank.
        for event in events["traceEvents"]:
            if gpu(event) and rank:
                event["dur"] = float(event["dur"]) + 0.1
        (folder / f"rank{rank}.trace.json").write_text(
            json.dumps(events | {"distributedInfo": info})
        )
    return specscope.analyze(specscope.load(folder, cache=False))


def decode_trace() -> Timeline:
    t = Timeline()
    for c in t.cycles(6, every=1000):
        c.mark(f"specscope:decode|c={c.i}|b=1", 1, 900)
        c.launch(2, 4, GEMM, 6, 930 + c.i)
    return t


def texts(report: Report) -> str:
    """All that a report says in words and figures."""
    tree = json_text(report)
    return "\n".join([plain_report(report), tree, *report.verdict.refused])


def test_ranks_at_different_batches_are_refused_for_that(tmp_path: Path) -> None:
    """Each has enough cycles: that there were none would contradict the table."""
    report = two_ranks(tmp_path, share_trace(980), (1, 8))
    assert report.verdict.refused == (
        "rank 0 at batch 1, rank 1 at batch 8: the ranks ran different batches; give the ranks of "
        "one replica",
    )
    assert "0 to 5 whole cycles of batch 1 a rank" in plain_report(report)


def test_ranks_at_one_batch_are_not_refused(tmp_path: Path) -> None:
    assert two_ranks(tmp_path, share_trace(980), (8, 8)).verdict.refused == ()


@pytest.mark.parametrize("one_rank", [share_trace(980), decode_trace()])
@pytest.mark.parametrize("batches", [(1, 8), (8, 1), (8, 8)])
def test_no_figure_of_nothing_reaches_a_text(
    tmp_path: Path, one_rank: Timeline, batches: tuple[int, int]
) -> None:
    report = two_ranks(tmp_path, one_rank, batches)
    assert not re.search(r"\bnan\b", texts(report), re.IGNORECASE)


def test_steps_at_different_batches_give_the_median_of_one_batch(tmp_path: Path) -> None:
    report = two_ranks(tmp_path, decode_trace(), (8, 1))
    assert report.verdict.headline == (
        "No speculation in this trace: 5 decode steps, median 1.00 ms; rank 0 at batch 8, rank 1 "
        "at batch 1: the ranks ran different batches"
    )
