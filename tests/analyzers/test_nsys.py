"""Exports of Nsight Systems are analysed as traces of the torch profiler are."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import specscope
from specscope.analyzers import activities
from specscope.analyzers import rank as ranks
from specscope.analyzers.report import Report
from specscope.analyzers.verdict import Verdict
from specscope.scrub_cli import scrub_command
from specscope.traces.run import RankTables
from tests import nsys_drawing
from tests.analyzers import cases_ranges, cases_sglang, cases_trtllm, cases_vllm
from tests.analyzers.case import CASES
from tests.shared import shared_path
from tests.traces.nsys_files import recorded

EXPECTED: dict[str, Any] = json.loads(
    shared_path("traces", "nsight", "synthetic_expected.json").read_text()
)
# Importing a module of cases registers what it draws.
assert all((cases_ranges, cases_sglang, cases_trtllm, cases_vllm))
OWN = ("own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1")


def report(*parts: str) -> Report:
    return specscope.analyze(specscope.load(shared_path("traces", *parts), cache=False))


def work_ns(found: Report, rank: int, stage: str) -> float:
    row = found.share(stage, rank)
    assert row is not None
    return row.work_ns


@pytest.mark.parametrize("mode", ["node", "trace"])
@pytest.mark.parametrize("rank", [0, 1])
def test_work_a_cycle_is_the_expected_one_to_the_nanosecond(mode: str, rank: int) -> None:
    found = report("nsight", f"synthetic_graph_{mode}.sqlite")
    wanted = EXPECTED["node_mode_per_cycle_ns" if mode == "node" else "graph_mode_per_cycle_ns"]
    assert work_ns(found, rank, "draft") == wanted["draft_kernels"]
    verify = wanted["verify_kernels" if mode == "node" else "verify_graph_trace"]
    assert work_ns(found, rank, "verify_only") == verify
    assert work_ns(found, rank, "accept") == wanted["accept_memcpy"]
    row = found.share("verify_only", rank)
    assert row is not None
    if mode == "node":
        assert row.collective_ns == wanted["verify_allreduce"]
        assert row.busy_share is not None
        share = EXPECTED["node_mode_verify_share_of_gpu_busy"]
        assert row.busy_share.value == pytest.approx(share, abs=1e-12)
    else:
        assert not row.collectives_known


def test_closed_ranges_are_three_whole_cycles_two_so_there_are_figures_and_no_verdict() -> None:
    found = report("nsight", "synthetic_graph_node.sqlite")
    for rank in found.run.ranks:
        closed = [
            row
            for row in rank.ranges.to_pylist()
            if row["name"] == "cycle" and row["end_ns"] < 40_000_000
        ]
        assert len(closed) == EXPECTED["closed_cycles_per_rank"]
    assert [row.count for row in found.cycles] == [2, 2]
    assert found.shares
    assert found.verdict.refused == ("2 whole speculation cycles, 3 are needed",)


def test_a_replay_of_one_span_is_work_whose_split_is_refused_and_the_switch_named() -> None:
    found = report("nsight", "synthetic_graph_trace.sqlite")
    (note,) = [note for note in found.warnings if note.code == "graph_spans"]
    assert "6 graph replays" in note.text
    assert "kernels not visible" in note.text
    assert "--cuda-graph-trace=node" in note.mend
    spans = [row for row in found.activities if row.activity == "graph"]
    assert spans


def test_a_missing_rank_is_named() -> None:
    found = report("nsight", "synthetic_rank1_missing.sqlite")
    assert {"ranks_missing", "ranks_without_cuda", "one_rank"} <= {n.code for n in found.warnings}


@pytest.mark.parametrize(
    ("stage", "shares"),
    [("verify", (73.2, 75.4)), ("draft", (16.9, 14.9)), ("draft_extend", (4.4, 4.5))],
)
def test_a_real_server_recorded_node_by_node(stage: str, shares: tuple[float, float]) -> None:
    found = report(*OWN, "node.sqlite")
    for rank, share in enumerate(shares):
        row = found.share(stage, rank)
        assert row is not None
        assert 100 * row.cycle_share.value == pytest.approx(share, abs=0.05)
    assert [row.count for row in found.cycles] == [4, 4]
    assert not found.verdict.refused
    assert all(one.linked_ops == one.ops for one in found.coverage)


def test_the_bundled_recording_is_read_as_the_whole_one() -> None:
    bundled = Path(__file__).resolve().parents[2] / "examples" / "tp2-8b-eagle3-nsight"
    a = specscope.analyze(specscope.load(bundled, cache=False))
    b = report(*OWN, "node.sqlite")
    assert a.tables["parts"].to_pylist() == b.tables["parts"].to_pylist()


def test_without_ranges_the_structure_of_the_launches_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "bare.sqlite"
    path.write_bytes(shared_path("traces", *OWN, "node.sqlite").read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE NVTX_EVENTS")
    connection.close()
    bare = specscope.analyze(specscope.load(path, cache=False))
    marked = report(*OWN, "node.sqlite")
    for stage in ("draft", "verify", "draft_extend"):
        for rank in (0, 1):
            a, b = bare.share(stage, rank), marked.share(stage, rank)
            assert a is not None
            assert b is not None
            assert 100 * a.cycle_share.value == pytest.approx(100 * b.cycle_share.value, abs=0.5)
    assert bare.verdict.confidence == "low"
    assert any(note.code == "no_ranges" for note in bare.warnings)


def test_the_last_open_cycle_of_a_real_server_lost_its_kernels_and_is_named() -> None:
    found = report(*OWN, "node.sqlite")
    (note,) = [note for note in found.warnings if note.code == "cut_replays"]
    # 5 kernels and a copy.
    assert note.text.startswith(
        "Rank 1: the graph launches behind its last whole cycle hold 6, 0, 0"
    )


def test_graphs_that_were_not_recorded_are_no_idle_time_but_a_refusal() -> None:
    found = report(*OWN, "graph.sqlite")
    verdict: Verdict = found.verdict
    assert len(verdict.refused) == 2
    for rank, text in enumerate(verdict.refused):
        assert text.startswith(f"rank {rank}: 15 graph launches and no op of theirs")
        assert "--cuda-graph-trace=node" in text
    # A careless reading gives verify 32 %: no share is given at all.
    assert found.shares == ()
    assert found.idle == ()
    gaps = [row for row in found.tables["segments"].to_pylist() if row["state"] == "idle"]
    assert {row["what"] for row in gaps} == {"unknown"}
    assert [row.count for row in found.cycles] == [4, 4]


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE coalesce(graphNodeId, 0) != 0",
            "graph launches and no op of theirs",
        ),
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "launches and not one kernel on record"),
        (
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 5 = 0",
            "launches inside the counted cycles have no GPU row",
        ),
        (
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE coalesce(graphNodeId, 0) != 0 "
            "AND rowid % 50 = 0",
            "GPU rows are missing",
        ),
    ],
    ids=["of graphs, copies left", "all of them", "every fifth", "some of graphs"],
)
def test_lost_kernels_are_no_idle_time(lost: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "lost.sqlite"
    path.write_bytes(shared_path("traces", *OWN, "node.sqlite").read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute(lost)
    connection.close()
    found = specscope.analyze(specscope.load(path, cache=False))
    assert any(reason in text for text in found.verdict.refused)
    assert found.shares == ()
    assert found.idle == ()


def test_ops_have_their_launch_in_the_tables_where_no_stage_is_found() -> None:
    found = report("nsight", "torchrun_2gpu_nccl_s3.25.0.sqlite")
    ops = found.tables["ops"].to_pylist()
    kernels = [row for row in ops if row["kind"] == "kernel"]
    assert sum(row["call_id"] is not None for row in kernels) == 3_986
    assert sum(row["activity"] == "collective" for row in kernels) == 66


def test_no_ranges_is_said_and_kernels_are_still_counted() -> None:
    found = specscope.analyze(
        specscope.load(shared_path("cases", "q04_nsys_no_nvtx.sqlite"), cache=False)
    )
    (reason,) = found.verdict.refused
    assert reason.startswith(
        "no ranges in this capture (NVTX_EVENTS missing): no stages, no cycles"
    )
    assert reason.endswith("7 kernels, 243,375 ns in all")


def test_a_graph_span_is_verify_work_and_no_idle() -> None:
    found = specscope.analyze(
        specscope.load(shared_path("cases", "q03_nsys_graph_level.sqlite"), cache=False)
    )
    (op,) = [row for row in found.run.ranks[0].ops.to_pylist() if row["kind"] == "graph"]
    assert [op["start_ns"], op["end_ns"]] == [1_077_000, 1_183_000]
    (part,) = [row for row in found.tables["parts"].to_pylist() if row["what"] == "graph"]
    assert (part["stage"], part["state"], part["ns"]) == ("verify", "work", 106_000)


# What a range launched on the GPU, by plain SQL over all ranges and calls, beside the links.

PROJECTION = """
SELECT n.start, n.globalTid, count(*), sum(k.end - k.start), min(k.start), max(k.end)
FROM NVTX_EVENTS n
JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
  ON r.globalTid = n.globalTid AND r.start >= n.start AND r.start < n.end
JOIN CUPTI_ACTIVITY_KIND_KERNEL k
  ON k.correlationId = r.correlationId AND k.globalPid >> 24 = r.globalTid >> 24
 AND k.start >= r.start
WHERE n.eventType IN (59, 60) AND n.end IS NOT NULL
GROUP BY n.rowid
"""

WITH_NVTX = [
    ("nsight", "torchrun_2gpu_nccl_s3.25.0.sqlite"),
    ("nsight", "h100_2proc_1s_s3.25.0.sqlite"),
    ("nsight", "layers_nvtx_1gpu_s3.16.1.sqlite"),
    ("nsight", "synthetic_graph_node.sqlite"),
    ("nsight", "synthetic_graph_trace.sqlite"),
    (*OWN, "node.sqlite"),
    (*OWN, "graph.sqlite"),
]


def by_sql(path: Path) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    """(start, thread) of a range: kernels, their sum, first start and last end."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as connection:
        # The samples have no index; the join would take minutes without.
        memory = sqlite3.connect(":memory:")
        connection.backup(memory)
    memory.execute("CREATE INDEX r ON CUPTI_ACTIVITY_KIND_RUNTIME (globalTid, start)")
    memory.execute("CREATE INDEX k ON CUPTI_ACTIVITY_KIND_KERNEL (correlationId)")
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for start, thread, *figures in memory.execute(PROJECTION):
        found.setdefault((start, thread & ((1 << 48) - 1)), []).append(tuple(figures))
    memory.close()
    return found


def by_links(tables: RankTables) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    """The same from our tables: calls by containment, kernels by link."""
    one = ranks.prepare(tables, activities.load_rules())
    kernels = np.flatnonzero((one.ops.kind == 0) & (one.ops.call >= 0))
    launch = one.ops.call[kernels]
    order = np.argsort(one.calls.start[launch], kind="stable")
    kernels, launch = kernels[order], launch[order]
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for thread, (pid, tid) in enumerate(one.calls.threads):
        mine = kernels[one.calls.thread[launch] == thread]
        at = one.calls.start[one.ops.call[mine]]
        for row in np.flatnonzero(one.ranges.thread == thread).tolist():
            low, high = np.searchsorted(at, (one.ranges.start[row], one.ranges.end[row]))
            inside = mine[low:high]
            if len(inside):
                start, end = one.ops.start[inside], one.ops.end[inside]
                figures = (len(inside), int((end - start).sum()), int(start.min()), int(end.max()))
                key = (int(one.ranges.start[row]), (pid << 24) | tid)
                found.setdefault(key, []).append(figures)
    return found


@pytest.mark.parametrize("parts", WITH_NVTX, ids=lambda parts: parts[-1])
def test_kernels_of_each_range_equal_a_projection_in_sql(parts: tuple[str, ...]) -> None:
    wanted = by_sql(shared_path("traces", *parts))
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for tables in recorded(*parts):
        still_open = {
            row["range_id"] for row in tables.range_args.to_pylist() if row["form"] == "open"
        }
        keep = [number not in still_open for number in range(tables.ranges.num_rows)]
        closed = RankTables(**{**vars(tables), "ranges": tables.ranges.filter(keep)})
        found |= by_links(closed)
    assert {key: sorted(rows) for key, rows in found.items()} == {
        key: sorted(rows) for key, rows in wanted.items()
    }
    assert wanted


# Drawn traces, as both profilers would record them.


def has_frames(name: str) -> bool:
    return any(event["cat"] == "python_function" for event in CASES[name]().trace.events)


@pytest.mark.parametrize("name", [name for name in CASES if not has_frames(name)])
def test_a_drawn_trace_reads_alike_from_both_profilers(name: str, tmp_path: Path) -> None:
    drawing = CASES[name]().trace
    kineto = tmp_path / "drawn.trace.json"
    kineto.write_bytes(drawing.to_json())
    nsys = nsys_drawing.write(tmp_path / "drawn.sqlite", drawing)
    a, b = (specscope.analyze(specscope.load(path, cache=False)) for path in (kineto, nsys))
    for table in ("cycles", "parts"):
        assert a.tables[table].to_pylist() == b.tables[table].to_pylist()
    assert a.verdict.evidence == b.verdict.evidence
    assert len(a.verdict.refused) == len(b.verdict.refused)


@pytest.mark.parametrize(
    "parts",
    [
        ("traces", *OWN, "node.sqlite"),
        ("traces", "nsight", "synthetic_graph_node.sqlite"),
        ("cases", "q05_nsys_start_end.sqlite"),
    ],
    ids=lambda parts: parts[-1],
)
def test_a_scrubbed_export_gives_the_same_figures(parts: tuple[str, ...], tmp_path: Path) -> None:
    source, copy = shared_path(*parts), tmp_path / parts[-1]
    done = CliRunner().invoke(scrub_command, [str(source), str(copy)])
    assert done.exit_code == 0, done.output
    a, b = (specscope.analyze(specscope.load(path, cache=False)) for path in (source, copy))
    for table in ("ops", "calls", "ranges", "cycles", "parts"):
        assert a.tables[table].to_pylist() == b.tables[table].to_pylist(), table
