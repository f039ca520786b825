"""Exports drawn table by table: what each column means, and what is refused in one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import specscope
from specscope.traces import nsys, nsys_sqlite
from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.nsys_sqlite import SqliteStore
from tests.shared import NOT_INSTALLED
from tests.traces.nsys_files import Row, call, kernel, nvtx, pid, read, strings, tid, write


@pytest.fixture(autouse=True, params=["pages", "sql"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test once with the native reader of pages, and once without."""
    if request.param == "sql":
        monkeypatch.setattr(nsys_sqlite, "read_pages", None)
    elif nsys_sqlite.read_pages is None:
        NOT_INSTALLED.append("specscope.traces._pages")
        pytest.skip("the native reader was not built")


LAUNCH = {
    "StringIds": strings("cudaLaunchKernel_v7000", "gemm"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": [call(100, 110, 1, 1)],
    "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(120, 150, 1, 2)],
}


def ranges_of(tmp_path: Path, *rows: Row, **tables: Any) -> list[dict[str, Any]]:
    (one,) = read(write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": rows, **tables}))
    found: list[dict[str, Any]] = one.ranges.to_pylist()
    return found


# What the columns mean.


def test_a_kernel_and_its_launch_are_rows_with_every_column(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "x.sqlite", LAUNCH))
    (op,), (launch,) = one.ops.to_pylist(), one.calls.to_pylist()
    assert op == {
        "op_id": 0,
        "kind": "kernel",
        "name": "gemm",
        "device": 0,
        "stream": 7,
        "start_ns": 120,
        "end_ns": 150,
        "correlation": 1,
        "call_id": None,
        "graph_node": None,
        "bytes": None,
    }
    assert launch == {
        "call_id": 0,
        "kind": "launch",
        "name": "cudaLaunchKernel",
        "pid": 3000,
        "tid": 3000,
        "start_ns": 100,
        "end_ns": 110,
        "correlation": 1,
    }


def test_copies_and_sets_are_named_as_the_torch_profiler_names_them(tmp_path: Path) -> None:
    work = {"start": 1, "end": 2, "correlationId": 9, "globalPid": pid(), "bytes": 64}
    tables = {
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {**work, "copyKind": 1, "srcKind": 1, "dstKind": 2},
            {**work, "copyKind": 2, "srcKind": 2, "dstKind": 0},
            {**work, "copyKind": 99, "srcKind": None, "dstKind": 3},
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [{**work, "memKind": 2, "value": 0}],
    }
    (one,) = read(write(tmp_path / "x.sqlite", tables))
    assert one.ops["name"].to_pylist() == [
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy unknown (Unknown -> Array)",
        "Memset (Device)",
    ]
    assert one.ops["kind"].to_pylist() == ["copy"] * 3 + ["set"]
    assert one.ops["bytes"].to_pylist() == [64] * 4


def test_a_name_that_is_missing_falls_back_to_the_next_one(tmp_path: Path) -> None:
    rows = [
        kernel(1, 2, 1, None, shortName=1, mangledName=2),  # type: ignore[arg-type]
        kernel(1, 2, 1, None, shortName=None, mangledName=2),  # type: ignore[arg-type]
        kernel(1, 2, 1, 77),
    ]
    tables = {"StringIds": strings("short", "mangled"), "CUPTI_ACTIVITY_KIND_KERNEL": rows}
    (one,) = read(write(tmp_path / "x.sqlite", tables))
    assert one.ops["name"].to_pylist() == ["short", "mangled", ""]


def test_a_range_is_named_by_its_text_else_by_its_string(tmp_path: Path) -> None:
    rows = ranges_of(tmp_path, nvtx(1, 2, "own text", textId=2), nvtx(3, 4, None, textId=2))
    assert [row["name"] for row in rows] == ["own text", "gemm"]


def test_a_range_may_end_on_another_thread(tmp_path: Path) -> None:
    row = nvtx(1, 9, "moved", eventType=60, rangeId=5, endGlobalTid=tid(3007), category=4)
    path = write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [row]})
    (one,) = read(path)
    (rare,) = one.range_args.to_pylist()
    assert (rare["form"], rare["end_pid"], rare["end_tid"]) == ("start_end", 3000, 3007)
    assert rare["category"] == 4


@pytest.mark.parametrize(
    ("column", "value", "place"),
    [
        ("int64Value", -3, "payload_int"),
        ("uint64Value", 3, "payload_int"),
        ("uint32Value", 3, "payload_int"),
        ("int32Value", -3, "payload_int"),
        ("doubleValue", 0.5, "payload_float"),
        ("floatValue", 0.25, "payload_float"),
        ("jsonText", '{"a": 1}', "payload_text"),
    ],
)
def test_payloads_of_every_type_are_kept(
    tmp_path: Path, column: str, value: Any, place: str
) -> None:
    row = nvtx(1, 9, "with payload", **{column: value})
    (one,) = read(
        write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [nvtx(0, 1, "bare"), row]})
    )
    (rare,) = one.range_args.to_pylist()
    assert rare["range_id"] == 1
    assert rare[place] == value


def test_binary_payloads_are_counted_and_said_not_to_be_read(tmp_path: Path) -> None:
    tables = {
        **LAUNCH,
        "NVTX_EVENTS": [nvtx(1, 2, "ncclSend", binaryData=b"\0\xff"), nvtx(3, 4, "bare")],
        "NVTX_PAYLOAD_SCHEMAS": [{"domainId": 1, "schemaId": 1, "name": "send"}],
    }
    run = specscope.load(write(tmp_path / "x.sqlite", tables), cache=False)
    (note,) = [note for note in run.notes if note.code == "payloads_not_read"]
    assert note.text.startswith("1 binary payload")


def test_marks_are_a_table_of_their_own(tmp_path: Path) -> None:
    domain = nvtx(0, None, "engine", eventType=75, domainId=3)
    rows = [nvtx(5, None, "here", eventType=34, domainId=3), domain]
    (one,) = read(write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": rows}))
    (mark,) = one.marks.to_pylist()
    assert (mark["name"], mark["domain"], mark["time_ns"]) == ("here", "engine", 5)
    assert one.ranges.num_rows == 0


def test_a_domain_is_that_of_the_process_that_made_it(tmp_path: Path) -> None:
    rows = [
        nvtx(0, None, "specscope", eventType=75, domainId=1),
        nvtx(0, None, "other", eventType=75, domainId=1, globalTid=tid(4000, 4000)),
        nvtx(1, 2, "verify", domainId=1),
        nvtx(1, 2, "verify", domainId=1, globalTid=tid(4000, 4000)),
    ]
    tables = {**LAUNCH, "NVTX_EVENTS": rows}
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [
        kernel(1, 2, 1, 2),
        kernel(1, 2, 1, 2, globalPid=pid(4000)),
    ]
    a, b = read(write(tmp_path / "x.sqlite", tables))
    assert a.ranges["domain"].to_pylist() == ["specscope"]
    assert b.ranges["domain"].to_pylist() == ["other"]


def test_an_operator_of_torch_is_one_name_however_often_it_runs(tmp_path: Path) -> None:
    rows = ranges_of(
        tmp_path,
        nvtx(1, 2, "aten::mm, op_id = 7"),
        nvtx(3, 4, "aten::mm, seq = 12, op_id = 8, sizes = [[1, 2]]"),
        nvtx(5, 6, "aten::mm, seq = 13"),
        nvtx(7, 8, "a, b"),
    )
    assert [(row["name"], row["kind"]) for row in rows] == [
        *[("aten::mm", "operator")] * 3,
        ("a, b", "nvtx"),
    ]


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [nvtx(1, 2, "x")]})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'61ff62' AS TEXT)")
    connection.close()
    (one,) = read(path)
    assert one.ranges["name"].to_pylist() == ["a\ufffdb"]


def test_unsigned_ids_of_a_parquet_folder_are_those_of_sqlite(tmp_path: Path) -> None:
    """Global ids with the highest bit are negative in SQLite and unsigned in Parquet."""
    high = (0xFE << 56) | (3000 << 24)
    signed = high - (1 << 64)
    row = {"start": 1, "end": 2, "correlationId": 1, "streamId": 7, "globalPid": signed}
    (a,) = read(write(tmp_path / "x.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [row]}))
    folder = tmp_path / "x_pqtdir"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), folder / "StringIds.parquet")
    table = pa.table(
        {**{k: [v] for k, v in row.items()}, "globalPid": pa.array([high], pa.uint64())}
    )
    pq.write_table(table, folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    (b,) = read(folder)
    assert a.facts["pid"] == b.facts["pid"] == 3000
    assert a.ops.to_pylist() == b.ops.to_pylist()


def test_an_arrow_folder_reads_as_the_parquet_one(tmp_path: Path) -> None:
    tables = {
        "StringIds": pa.table(
            {"id": pa.array([1, 2], pa.int32()), "value": ["cudaLaunchKernel", "k"]}
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": pa.Table.from_pylist([dict(call(1, 2, 1, 1))]),
        "CUPTI_ACTIVITY_KIND_KERNEL": pa.Table.from_pylist([dict(kernel(3, 4, 1, 2))]),
    }
    for ending, folder in (("parquet", tmp_path / "x_pqtdir"), ("arrow", tmp_path / "x_arwdir")):
        folder.mkdir()
        for name, table in tables.items():
            if ending == "parquet":
                pq.write_table(table, folder / f"{name}.parquet")
            else:
                with pa.ipc.new_stream(folder / f"{name}.arrow", table.schema) as stream:
                    stream.write_table(table)
    (a,), (b,) = read(tmp_path / "x_pqtdir"), read(tmp_path / "x_arwdir")
    assert a.sources["format"].to_pylist() == ["nsys-parquet"]
    assert b.sources["format"].to_pylist() == ["nsys-arrow"]
    for table in ("ops", "calls", "ranges"):
        assert getattr(a, table).to_pylist() == getattr(b, table).to_pylist()


def test_rows_without_possible_times_are_counted_as_lost(tmp_path: Path) -> None:
    tables = {**LAUNCH, "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(5, 4, 1, 2), kernel(1, 9, 1, 2)]}
    (one,) = read(write(tmp_path / "x.sqlite", tables))
    (loss,) = one.losses.to_pylist()
    assert (loss["count"], loss["reason"]) == (1, "bad_time")
    assert one.ops.num_rows == 1


@pytest.mark.parametrize("rows", [1, 249_999, 250_000, 250_001])
def test_slices_of_a_long_table_are_in_order_and_whole(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE T (a INTEGER, b INTEGER, c INTEGER)")
        connection.executemany(
            "INSERT INTO T VALUES (?, ?, ?)",
            ((-(1 << 63) + 1 + i, None if i % 3 else i, 7) for i in range(rows)),
        )
        connection.execute("DELETE FROM T WHERE a = ?", (-(1 << 63) + 1,))
    connection.close()
    store = SqliteStore(path)
    found = store.read("T", ("a", "b", "c", "d"))
    store.close()
    wanted = range(1, rows)
    assert found["a"].tolist() == [-(1 << 63) + 1 + i for i in wanted]
    absent = -(1 << 63)
    assert found["b"].tolist() == [absent if i % 3 else i for i in wanted]
    assert found["c"].tolist() == [7] * (rows - 1)
    assert found["d"].tolist() == [absent] * (rows - 1)


# Ranks.


def two_ranks(numbers: tuple[int, int] = (0, 1), **tables: list[Row]) -> dict[str, list[Row]]:
    """Two processes with one kernel each, on the devices of these numbers."""
    pids = (3000, 4000)
    return {
        "StringIds": strings("cudaLaunchKernel", "gemm"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1, globalTid=tid(p, p)) for p in pids],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(3, 4, 1, 2, globalPid=pid(p), deviceId=device)
            for p, device in zip(pids, numbers, strict=True)
        ],
        **tables,
    }


@pytest.mark.parametrize(
    ("by", "tables"),
    [
        ("devices", two_ranks((1, 0))),
        (
            "ranges",
            two_ranks(
                NVTX_EVENTS=[
                    nvtx(1, 2, "specscope:verify|c=1|r=1|n=2"),
                    nvtx(1, 2, "specscope:verify|c=1|r=0|n=2", globalTid=tid(4000, 4000)),
                ]
            ),
        ),
        (
            "mpi",
            two_ranks(
                MPI_RANKS=[
                    {"globalTid": tid(), "rank": 1},
                    {"globalTid": tid(4000, 4000), "rank": 0},
                ]
            ),
        ),
        (
            "process names",
            two_ranks(
                PROCESSES=[
                    {"globalPid": pid(), "pid": 3000, "name": "sglang::scheduler_TP1"},
                    {"globalPid": pid(4000), "pid": 4000, "name": "sglang::scheduler_TP0"},
                ]
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ranks_are_numbered_by_what_tells_them(
    tmp_path: Path, by: str, tables: dict[str, list[Row]]
) -> None:
    found = read(write(tmp_path / "x.sqlite", tables))
    assert [(one.rank, one.facts["pid"]) for one in found] == [(0, 4000), (1, 3000)]
    assert found[0].facts["nsys"]["ranks_by"] == by
    assert found[0].facts["world_size"] == 2


def test_ranks_that_nothing_tells_apart_are_numbered_in_order_and_said_to_be(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "x.sqlite", two_ranks((0, 0)))
    run = specscope.load(path, cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000, 4000]
    (note,) = [note for note in run.notes if note.code == "rank_unknown"]
    assert "by order, process 3000 is rank 0, 4000 is rank 1" in note.text


def test_a_process_that_launches_and_has_no_gpu_row_is_a_missing_rank(tmp_path: Path) -> None:
    tables = two_ranks()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"].pop()
    run = specscope.load(write(tmp_path / "x.sqlite", tables), cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000]
    assert {"ranks_without_cuda", "ranks_missing"} <= {note.code for note in run.notes}


def test_other_processes_are_counted_and_no_ranks(tmp_path: Path) -> None:
    quiet = nvtx(1, 2, "tokenize", globalTid=tid(5000, 5000))
    (one,) = read(write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [quiet]}))
    assert '"ranges of other processes": 1' in one.sources["dropped"][0].as_py()


# Several exports.


def session(start: int, stop: int, base: int = 10**18) -> dict[str, list[Row]]:
    return {
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": base}],
        "ANALYSIS_DETAILS": [{"startTime": start, "stopTime": stop}],
    }


def one_rank_each(folder: Path) -> list[Path]:
    return [
        write(
            folder / f"run_{rank}.sqlite",
            {
                **session(0, 1000),
                "StringIds": strings("cudaLaunchKernel", "gemm"),
                "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1, globalTid=tid(p, p))],
                "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(3, 400, 1, 2, globalPid=pid(p))],
            },
        )
        for rank, p in enumerate((3000, 4000))
    ]


def test_exports_of_one_time_are_the_ranks_of_one_run(tmp_path: Path) -> None:
    one_rank_each(tmp_path)
    run = specscope.load(tmp_path, cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000, 4000]


def windows(folder: Path) -> list[Path]:
    return [
        write(
            folder / f"report{number}.sqlite",
            {
                **session(1000 * number, 1000 * number + 900),
                "StringIds": strings("cudaLaunchKernel", "gemm"),
                "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1000 * number + 1, 1000 * number + 2, 1, 1)],
                "CUPTI_ACTIVITY_KIND_KERNEL": [
                    kernel(1000 * number + 3, 1000 * number + 400, 1, 2)
                ],
            },
        )
        for number in (1, 2, 3)
    ]


def test_windows_of_one_process_are_no_ranks_the_newest_is_read(tmp_path: Path) -> None:
    windows(tmp_path)
    run = specscope.load(tmp_path, cache=False)
    (one,) = run.ranks
    assert one.facts["path"].endswith("report3.sqlite")
    assert len([line for line in run.listed if "another window" in line]) == 2


def test_windows_named_together_are_refused(tmp_path: Path) -> None:
    first, second, _ = windows(tmp_path)
    with pytest.raises(UsageError, match="two windows of process 3000, not two ranks"):
        specscope.load([first, second], cache=False)


def test_a_report_that_lies_there_twice_is_read_once(tmp_path: Path) -> None:
    (path, _) = one_rank_each(tmp_path)
    (tmp_path / "run_1.sqlite").unlink()
    (tmp_path / "run_0.nsys-rep").write_bytes(b"report")
    run = specscope.load(tmp_path, cache=False)
    assert [one.facts["path"] for one in run.ranks] == [str(path)]
    assert "run_0.nsys-rep: the same report as run_0.sqlite" in run.listed


# What is refused, in one line.


def broken(folder: Path, how: str) -> Path:
    path = write(folder / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [nvtx(1, 2, "x")] * 500})
    raw = path.read_bytes()
    if how == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    elif how == "cut header":
        path.write_bytes(raw[:60])
    elif how == "damaged":
        path.write_bytes(raw[:4096] + b"\xff" * 8192 + raw[12288:])
    elif how == "wal":
        path.with_name("x.sqlite-wal").write_bytes(b"rows that are not merged")
    elif how == "journal":
        path.with_name("x.sqlite-journal").write_bytes(b"an export that runs")
    elif how == "text":
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'")
        connection.close()
    elif how == "real":
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1.5")
        connection.close()
    elif how == "nvvp":
        path = write(folder / "y.sqlite", {"CUPTI_ACTIVITY_KIND_DRIVER": [], "StringTable": []})
    elif how == "rocpd":
        path = write(folder / "y.sqlite", {"rocpd_op": [{"id": 1}]})
    elif how == "other":
        path = write(folder / "y.sqlite", {"bookmarks": [{"id": 1}]})
    elif how == "lfs":
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    return path


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cut", r"cut short: \d+ bytes of an SQLite database of \d+; copy it again"),
        ("cut header", "cut inside the header of an SQLite database"),
        ("damaged", "a damaged SQLite database"),
        ("wal", "not whole without the write-ahead log x.sqlite-wal"),
        ("journal", "not whole without the rollback journal x.sqlite-journal"),
        ("text", r"CUPTI_ACTIVITY_KIND_KERNEL.start holds 1 x text where integers belong"),
        ("real", r"CUPTI_ACTIVITY_KIND_KERNEL.start holds 1 x real where integers belong"),
        ("nvvp", "NVIDIA Visual Profiler"),
        ("rocpd", "rocpd database"),
        ("other", r"without an export \(tables: bookmarks\)"),
        ("lfs", "Git LFS pointer"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path: Path, how: str, words: str) -> None:
    path = broken(tmp_path, how)
    with pytest.raises(TraceFormatError, match=words) as refused:
        specscope.load(path, cache=False)
    assert "\n" not in str(refused.value)


def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "x_pqtdir"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "value": ["a"]}), folder / "StringIds.parquet")
    (folder / "NVTX_EVENTS.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceFormatError, match=r"x_pqtdir/NVTX_EVENTS.parquet is a damaged file"):
        specscope.load(folder, cache=False)


def test_a_folder_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x ? #%41.sqlite", LAUNCH)  # what an URI would read otherwise
    tmp_path.chmod(0o500)
    try:
        (one,) = specscope.load(path, cache=False).ranks
    finally:
        tmp_path.chmod(0o700)
    assert one.ops.num_rows == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_database_that_another_program_has_locked_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", LAUNCH)
    holder = sqlite3.connect(path)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        (one,) = read(path)
    finally:
        holder.close()
    assert one.ops.num_rows == 1


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"])
@pytest.mark.parametrize("how", ["view", "without rowid", "lower case"])
def test_a_table_may_be_something_like_one(tmp_path: Path, table: str, how: str) -> None:
    tables = {**LAUNCH, "NVTX_EVENTS": [nvtx(1, 2, "x", doubleValue=0.5)]}
    (wanted,) = read(write(tmp_path / "x.sqlite", tables))
    path = write(tmp_path / "y.sqlite", tables)
    with sqlite3.connect(path) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO other")
        if how == "view":
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM other")
        elif how == "lower case":
            connection.execute(f"ALTER TABLE other RENAME TO {table.lower()}")
        else:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(other)")]
            named = ", ".join(f'"{column}"' for column in columns)
            connection.execute(
                f'CREATE TABLE {table} ({named}, PRIMARY KEY ("{columns[0]}")) WITHOUT ROWID'
            )
            connection.execute(f"INSERT INTO {table} SELECT * FROM other")
    connection.close()
    (found,) = read(path)
    for name in ("ops", "calls", "ranges", "range_args"):
        assert getattr(found, name).to_pylist() == getattr(wanted, name).to_pylist()


@pytest.mark.parametrize("end", [(1 << 63) - 1, 1 << 62, 120 + 3_600 * 10**9])
def test_an_impossible_time_takes_over_nothing(tmp_path: Path, end: int) -> None:
    kernels = [kernel(120, 150, 1, 2), kernel(130, end, 1, 2)]
    tables = {
        **LAUNCH,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "NVTX_EVENTS": [nvtx(1, end, "x")] if end > 1 << 60 else [],
    }
    run = specscope.load(write(tmp_path / "x.sqlite", tables), cache=False)
    (one,) = run.ranks
    assert one.ops["end_ns"].to_pylist() == [150]
    assert sum(one.losses["count"].to_pylist()) == (2 if end > 1 << 60 else 1)
    assert one.facts["nsys"]["last_ns"] == 150
    assert not any(note.code == "rank_ends_early" for note in run.notes)


def test_a_worker_of_the_engine_without_any_row_is_a_missing_rank(tmp_path: Path) -> None:
    named = [
        {"globalPid": pid(p), "pid": p, "name": title}
        for p, title in ((3000, "sglang::schedul"), (4000, "sglang::schedul"), (5000, "python3"))
    ]
    path = write(tmp_path / "x.sqlite", {**LAUNCH, "PROCESSES": named})
    run = specscope.load(path, cache=False)
    (note,) = [note for note in run.notes if note.code == "ranks_without_cuda"]
    assert note.text.startswith("1 of 2 ranks have CUDA rows: process 4000")


def test_exports_that_do_not_say_when_they_were_made_overlap_by_their_events(
    tmp_path: Path,
) -> None:
    for rank, path in enumerate(one_rank_each(tmp_path)):
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM ANALYSIS_DETAILS")
        connection.close()
        assert path.name == f"run_{rank}.sqlite"
    assert len(specscope.load(tmp_path, cache=False).ranks) == 2


def test_one_recording_in_two_forms_is_refused_as_two_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", LAUNCH)
    copy = tmp_path / "y.sqlite"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match="are the same recording; give one of them"):
        specscope.load([path, copy], cache=False)


def test_a_blob_among_integers_is_named_and_not_printed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", LAUNCH)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = x'ff00ff736563726574'")
    connection.close()
    with pytest.raises(TraceFormatError, match="holds 1 x blob where integers belong") as refused:
        read(path)
    assert "secret" not in str(refused.value)


def test_an_empty_export_is_one_rank_without_work(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", {"StringIds": [], "META_DATA_EXPORT": []})
    run = specscope.load(path, cache=False)
    assert {"no_work", "no_cuda", "no_ranges"} <= {note.code for note in run.notes}


def test_the_environment_and_the_output_of_the_program_reach_no_table(tmp_path: Path) -> None:
    token = "hf_plantedTokenPlantedToken123456"
    tables: dict[str, list[Row]] = {
        "StringIds": [
            *strings("cudaLaunchKernel", "gemm", f"HF_TOKEN={token}\0HOME=/home/somebody", token),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(3, 4, 1, 2)],
        "META_DATA_CAPTURE": [
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f"HF_TOKEN={token}"},
            {"name": "PROCESS_0:ARGUMENT_1", "value": f"--api-key={token}"},
            {"name": "CAPTURE_EVENT_TYPE", "value": "Cuda"},
        ],
        "ProcessStreams": [{"globalPid": pid(), "filenameId": 3, "contentId": 4}],
        "ANALYSIS_FILE": [{"id": 1, "filename": "out", "contentId": 4, "globalPid": pid()}],
        "DIAGNOSTIC_EVENT": [
            {"severity": 3, "text": f"failed with HF_TOKEN={token} in the environment"}
        ],
    }
    path = write(tmp_path / "x.sqlite", tables)
    run = specscope.load(path, cache=False)
    report = specscope.analyze(run)
    for one in run.ranks:
        for name, value in vars(one).items():
            shown = value.to_pylist() if isinstance(value, pa.Table) else value
            assert token not in repr(shown), name
    assert token not in repr(report.warnings) + repr(run)
    assert any("HF_TOKEN" in note.text for note in run.notes)


def test_what_is_read_is_kept_in_the_cache_without_the_environment(
    tmp_path: Path, private_cache: Path
) -> None:
    token = "hf_plantedTokenPlantedToken123456"
    rows = [nvtx(n, n + 1, f"range {n}") for n in range(20_000)]
    tables = {**LAUNCH, "NVTX_EVENTS": rows}
    tables["StringIds"] = [*LAUNCH["StringIds"], {"id": 3, "value": f"HF_TOKEN={token}"}]
    path = write(tmp_path / "x.sqlite", tables)
    first, second = (specscope.load(path).ranks[0] for _ in range(2))
    assert first.ranges.equals(second.ranges)
    kept = [file.read_bytes() for file in private_cache.rglob("*") if file.is_file()]
    assert kept
    assert not any(token.encode() in raw for raw in kept)


def test_every_way_to_fail_is_one_of_ours(tmp_path: Path) -> None:
    """Random bytes in a sound export: read, or refused in one line; never anything else."""
    import random

    path = write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [nvtx(1, 2, "x")] * 50})
    raw = path.read_bytes()
    chance = random.Random(7)
    read_whole = 0
    for number in range(300):
        damaged = bytearray(raw)
        for _ in range(chance.randint(1, 40)):
            damaged[chance.randrange(100, len(damaged))] = chance.randrange(256)
        other = tmp_path / f"{number}.sqlite"
        other.write_bytes(damaged)
        try:
            nsys.read(other, "x")
            read_whole += 1
        except SpecscopeError as error:
            assert "\n" not in str(error)
        other.unlink()
    assert read_whole < 300
