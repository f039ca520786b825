"""Exports drawn table by table: what each column means."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import specscope
from specscope.traces.nsys_sqlite import SqliteStore
from tests.traces.nsys_files import LAUNCH, Row, call, kernel, nvtx, pid, read, strings, tid, write

pytestmark = pytest.mark.usefixtures("reader")


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
