"""Every recorded export gives the counts that its README names, and its traps are seen."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import specscope
from specscope.analyzers import activities, links
from specscope.analyzers import rank as ranks
from specscope.traces import nsys_names as names
from specscope.traces import nsys_sqlite, schema
from specscope.traces.errors import UsageError
from specscope.traces.run import RankTables
from tests.shared import NOT_INSTALLED, shared_path
from tests.traces.nsys_files import recorded

OWN = ("own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1")
NSIGHT = [
    path.relative_to(shared_path("traces")).as_posix()
    for folder in ("nsight", "nsight/twin_cpu", "own/nsys-tp2-8b-eagle3-k3-nvlink-bs1")
    for path in sorted(shared_path("traces", *folder.split("/")).glob("*.sqlite"))
]


def linked(tables: RankTables) -> links.Ops:
    return ranks.prepare(tables, activities.load_rules()).ops


def kernels(tables: RankTables, *, unlinked: bool = False) -> int:
    ops = linked(tables)
    rows = ops.kind == links.KERNEL
    return int((rows & (ops.call < 0)).sum()) if unlinked else int(rows.sum())


def notes(name: str) -> dict[str, str]:
    run = specscope.load(shared_path("traces", "nsight", name), cache=False)
    return {note.code: f"{note.text}; {note.mend}" for note in run.notes}


def query(name: str, text: str) -> list[tuple[int, ...]]:
    path = shared_path("traces", *name.split("/"))
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as connection:
        return connection.execute(text).fetchall()


@pytest.mark.parametrize("name", NSIGHT)
def test_every_row_of_gpu_work_calls_and_ranges_is_in_a_table(name: str) -> None:
    """Counted by SQL: rows of ranks are in their tables, rows of other processes in `dropped`."""
    tables = {row[0] for row in query(name, "SELECT name FROM sqlite_master WHERE type='table'")}
    found = recorded(*name.split("/"))
    dropped = json.loads(found[0].sources["dropped"][0].as_py())
    wanted = {
        "ops": ["KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"],
        "calls": ["RUNTIME"],
    }
    for table, kinds in wanted.items():
        there = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in kinds]
        rows = sum(query(name, f"SELECT count(*) FROM {t}")[0][0] for t in there if t in tables)
        ours = sum(getattr(one, table).num_rows for one in found)
        assert ours + dropped.get(f"{table} of other processes", 0) == rows
    if "NVTX_EVENTS" in tables:
        counts = dict(query(name, "SELECT eventType, count(*) FROM NVTX_EVENTS GROUP BY 1"))
        ours = sum(one.ranges.num_rows for one in found)
        assert ours + dropped.get("ranges of other processes", 0) == sum(
            counts.get(kind, 0) for kind in (59, 60, 70, 71)
        )
        marks = sum(one.marks.num_rows for one in found)
        assert marks + dropped.get("marks of other processes", 0) == counts.get(34, 0)
        rest = {
            f"NVTX_EVENTS type {kind}": n for kind, n in counts.items() if kind in (33, 39, 75, 76)
        }
        assert {key: n for key, n in dropped.items() if "type" in key} == rest


@pytest.mark.parametrize("name", NSIGHT)
def test_pages_and_sql_give_the_same_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_pages = recorded(*name.split("/"))
    monkeypatch.setattr(nsys_sqlite, "read_pages", None)
    by_sql = recorded(*name.split("/"))
    for a, b in zip(by_pages, by_sql, strict=True):
        assert a.facts == b.facts
        for table in schema.TABLES:
            assert getattr(a, table).equals(getattr(b, table)), table


def test_tables_of_recordings_are_read_by_pages() -> None:
    """Else the native reader would be slow without a word."""
    if nsys_sqlite.read_pages is None:
        NOT_INSTALLED.append("specscope.traces._pages")
        pytest.skip("the native reader was not built")
    store = nsys_sqlite.SqliteStore(shared_path("traces", *OWN, "node.sqlite"))
    for table, columns in ((names.KERNELS, names.WORK), (names.CALLS, names.OF_CALLS)):
        assert store._by_pages(table, columns, (), None) is not None
    assert store._by_pages(names.RANGES, names.OF_RANGES, ("text",), names.OPERATORS) is not None
    store.close()


def test_two_ranks_of_torchrun_are_joined_within_their_process_only() -> None:
    name = "torchrun_2gpu_nccl_s3.25.0.sqlite"
    found = recorded("nsight", name)
    assert [(one.rank, one.facts["pid"]) for one in found] == [(0, 144), (1, 145)]
    assert sum(map(kernels, found)) == 4_010
    assert sum(kernels(one, unlinked=True) for one in found) == 24
    names = [text for one in found for text in one.ops["name"].to_pylist()]
    assert sum("SendRecv" in text for text in names) == 66
    ids = []
    for one in found:
        rows = one.ops.filter(pc.equal(one.ops["kind"].cast("string"), "kernel"))
        ids.append(set(rows["correlation"].to_pylist()))
    assert len(ids[0] & ids[1]) == 78
    for one in found:
        prepared = ranks.prepare(one, activities.load_rules())
        pids = {pid for pid, _ in prepared.calls.threads}
        assert pids == {one.facts["pid"]}


def test_nccl_ranges_are_told_by_their_names_where_the_domain_row_is_lost() -> None:
    found = recorded("nsight", "torchrun_2gpu_nccl_s3.25.0.sqlite")
    for one in found:
        of = {str(name) for name in one.ranges["domain"].to_pylist() if name is not None}
        assert of == {"NCCL"}
        nccl = one.ranges.filter(pc.is_valid(one.ranges["domain"]))
        assert all(name.startswith("nccl") for name in nccl["name"].to_pylist())


def test_payloads_that_were_not_exported_are_named() -> None:
    found = notes("torchrun_2gpu_nccl_s3.25.0.sqlite")
    assert "--include-blobs=true" in found["payloads_not_exported"]


def test_operators_of_torch_are_one_name_each() -> None:
    (first, _) = recorded("nsight", "torchrun_2gpu_nccl_s3.25.0.sqlite")
    operators = first.ranges.filter(pc.equal(first.ranges["kind"].cast("string"), "operator"))
    names = set(operators["name"].to_pylist())
    assert operators.num_rows == 9_219
    assert "aten::copy_" in names
    assert not any("op_id" in name for name in names)


def test_launches_before_the_cut_leave_kernels_unlinked_and_no_verdict() -> None:
    path = shared_path("traces", "nsight", "h100_2proc_1s_s3.25.0.sqlite")
    found = recorded("nsight", path.name)
    assert sum(map(kernels, found)) == 3_442
    assert sum(kernels(one, unlinked=True) for one in found) == 1_810
    report = specscope.analyze(specscope.load(path, cache=False))
    assert report.verdict.refused
    (note,) = [note for note in report.warnings if note.code == "unlinked_ops"]
    assert "1,810 of 3,442 kernels" in note.text
    assert any(note.code == "trimmed" for note in report.warnings)


def test_a_driver_newer_than_nsys_is_named() -> None:
    found = notes("no_cuda_driver_newer_s3.16.1.sqlite")
    assert (
        "the CUDA driver (13.1) is newer than this Nsight Systems knows (12.8)"
        in found["driver_newer"]
    )
    assert "newer Nsight Systems" in found["driver_newer"]
    assert "no CUDA rows" in found["no_cuda"]
    assert "CUPTI_ERROR" in found["nsys_diagnostic"]


def test_calls_without_gpu_rows_are_named() -> None:
    found = notes("wsl_no_kernels_nvtx_domains_s3.7.2.sqlite")
    assert found["no_gpu_rows"].startswith("13,283 CUDA calls and not one row of GPU work")


@pytest.mark.parametrize("version", ["3.0.0", "3.7.2"])
def test_ranges_that_a_newer_nvtx_lost_are_named(version: str) -> None:
    found = notes(f"all_tables_empty_s{version}.sqlite")
    assert "nvtx from 0.2.12 on records nothing" in found["nvtx_lost"]
    assert "0.2.11" in found["nvtx_lost"]


def test_domains_of_a_process_get_their_names() -> None:
    (one,) = recorded("nsight", "wsl_no_kernels_nvtx_domains_s3.7.2.sqlite")
    domains = one.ranges["domain"].to_pylist()
    names = one.ranges["name"].to_pylist()
    by = {domain: sum(of == domain for of in domains) for domain in set(domains)}
    # By SQL: 8 push-pop ranges in domain 2, 822 in domain 1 and 7 in the default one.
    assert sorted(by.values()) == [7, 8, 822]
    assert {d for d, n in zip(domains, names, strict=True) if n.startswith("myelin")} <= set(by)
    assert one.range_args.num_rows == 829
    assert set(one.range_args["form"].to_pylist()) == {"start_end"}


def test_both_names_of_the_table_of_settings_are_read() -> None:
    for name, version in (
        ("oldmeta_4gpu_s3.1.7.sqlite", "3.1.7"),
        ("vecadd_wsl_s3.24.0.sqlite", "3.24.0"),
    ):
        (one,) = recorded("nsight", name)
        assert one.facts["versions"]["nsys_schema"] == version
        assert one.facts["devices"]


def test_a_process_without_cuda_rows_is_a_missing_rank() -> None:
    path = shared_path("traces", "nsight", "synthetic_rank1_missing.sqlite")
    found = notes(path.name)
    assert found["ranks_without_cuda"].startswith("1 of 2 ranks have CUDA rows: process 5002")
    assert "missing: 1" in found["ranks_missing"]


def test_an_open_range_lasts_until_the_recording_ends() -> None:
    (one, _) = recorded("nsight", "synthetic_graph_node.sqlite")
    rare = {row["range_id"]: row for row in one.range_args.to_pylist()}
    (left,) = [key for key, row in rare.items() if row["form"] == "open"]
    assert one.ranges["name"][left].as_py() == "cycle"
    assert one.ranges["end_ns"][left].as_py() == 40_000_000
    assert one.facts["open_ranges"] == 1


def test_parquet_and_sqlite_of_one_report_are_equal_row_for_row() -> None:
    (a,) = recorded("nsight", "twin_cpu", "twin.sqlite")
    (b,) = recorded("nsight", "twin_cpu", "twin_pqtdir")
    for table in ("ops", "calls", "ranges", "range_args", "marks", "tracks", "losses"):
        assert getattr(a, table).to_pylist() == getattr(b, table).to_pylist(), table
    assert a.ranges.num_rows == 276
    for fact in ("clock_base_ns", "pid", "rank", "open_ranges", "events"):
        assert a.facts[fact] == b.facts[fact]


def twins() -> list[tuple[RankTables, RankTables]]:
    (nsys,) = recorded("nsight", "twin_cpu", "twin.sqlite")
    (kineto,) = specscope.load(
        shared_path("traces", "nsight", "twin_cpu", "twin.kineto.json"), cache=False
    ).ranks
    return [(nsys, kineto)]


def sequences(one: RankTables, kind: str) -> dict[int, list[tuple[str, int]]]:
    """Per thread the names and absolute starts of the ranges, in order."""
    rows = one.ranges.filter(pc.equal(one.ranges["kind"].cast("string"), kind))
    base = one.facts["clock_base_ns"]
    found: dict[int, list[tuple[str, int]]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["start_ns"], -row["end_ns"])):
        found.setdefault(row["tid"], []).append((row["name"], base + row["start_ns"]))
    return found


def test_ranges_of_both_profilers_are_the_same_ones_264_of_264() -> None:
    ((nsys, kineto),) = twins()
    theirs = sequences(kineto, "annotation")
    ours = sequences(nsys, "nvtx")
    apart = []
    matched = 0
    for thread, wanted in theirs.items():
        # Nsight also has what came before the torch profiler was switched on.
        mine = ours[thread][-len(wanted) :]
        assert [name for name, _ in mine] == [name for name, _ in wanted]
        matched += len(wanted)
        apart += [b - a for (_, a), (_, b) in zip(mine, wanted, strict=True)]
    assert matched == 264
    # record_function is entered before the NVTX push; both clocks are the same one.
    assert np.median(apart) == pytest.approx(-13_100, abs=200)
    assert np.mean(np.abs(apart) < 1_000_000) >= 0.95


def test_both_recordings_of_one_run_are_compared_and_one_is_analysed() -> None:
    folder = shared_path("traces", "nsight", "twin_cpu")
    for twin in ("twin.sqlite", "twin_pqtdir"):
        run = specscope.load([folder / "twin.kineto.json", folder / twin], cache=False)
        assert [one.facts["reader"] in ("native", "pure") for one in run.ranks] == [True]
        (note,) = [note for note in run.notes if note.code == "both_profilers"]
        assert "264 of 264 annotations are NVTX ranges of" in note.text
        assert "in the median they begin 13.0 us earlier here" in note.text


def test_recordings_of_different_runs_are_refused_together() -> None:
    files = [
        shared_path("traces", "nsight", "twin_cpu", "twin.kineto.json"),
        shared_path("traces", "nsight", "torchrun_2gpu_nccl_s3.25.0.sqlite"),
    ]
    with pytest.raises(UsageError, match=r"0 of 264 annotations .* not one run"):
        specscope.load(files, cache=False)


@pytest.mark.parametrize("stage", ["rank0.verify", "rank1.verify", "rank1.draft"])
def test_host_times_of_a_stage_agree_within_a_percent(stage: str) -> None:
    """`rank0.draft` is too short for it: 12 ranges of 0.17 ms, and record_function adds 20 us."""
    ((nsys, kineto),) = twins()
    sums = [
        sum(
            row["end_ns"] - row["start_ns"]
            for row in tables.ranges.to_pylist()
            if row["name"] == stage
        )
        for tables in (nsys, kineto)
    ]
    assert sums[0] == pytest.approx(sums[1], rel=0.01)


def test_a_real_server_is_two_ranks_and_nothing_is_unlinked() -> None:
    found = recorded("own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1", "node.sqlite")
    assert [(one.rank, one.facts["pid"]) for one in found] == [(0, 3371), (1, 3372)]
    assert [kernels(one) for one in found] == [3_501, 2_817]
    assert all((linked(one).call >= 0).all() for one in found)
    assert {one.facts["producer"] for one in found} == {"sglang"}


def test_nothing_is_written_beside_the_export(tmp_path: Path) -> None:
    source = shared_path("traces", "nsight", "vecadd_wsl_s3.24.0.sqlite")
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes())
    tmp_path.chmod(0o555)
    try:
        specscope.load(copy)
        assert [path.name for path in tmp_path.iterdir()] == [source.name]
    finally:
        tmp_path.chmod(0o755)
