"""Copies of Nsight Systems exports: nothing planted stays, and every row and time does."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.scrub import scrub
from tests.shared import shared_path
from tests.traces import planted
from tests.traces.planted import ADDRESS, ALL, ENVIRONMENT, HOME, HOST, SECRET, TEXT, TOKEN, USER

STRINGS = {
    1: "gemm_kernel",
    2: "void gemm_kernel<128>(float*)",
    3: "cudaLaunchKernel_v7000",
    4: "verify",
    5: f"python {HOME}/serve.py",
    6: "\0".join(f"{name}={value}" for name, value in ENVIRONMENT.items()),
    7: f"output of the program {TEXT}",
    8: f"step {TOKEN}",
    9: f"my_kernel_{SECRET}",
    10: '{"user": "' + USER + '"}',
    11: f"{HOME}/serve.log",
}
# Table: its columns and rows; references of strings as nsys writes them.
TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        'start INTEGER NOT NULL, "end" INTEGER, correlationId INTEGER, globalPid INTEGER, '
        "demangledName INTEGER, -- REFERENCES StringIds(id) -- Kernel\nshortName INTEGER",
        [(10, 20, 5, 281531079720960, 2, 1), (30, 40, 6, 281531079720960, 2, 9)],
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        'start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER',
        [(5, 7, 281531079724304, 5, 3)],
    ),
    "NVTX_EVENTS": (
        'start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, '
        "textId INTEGER, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT",
        [
            (1, 9, 59, None, 281531079724304, 4, 10, None, None),
            (2, 3, 59, f"range of {TEXT}", 281531079724304, None, None, TEXT, b"\1\0\0\0\0"),
            (3, 4, 59, "specscope:verify|c=3", 281531079724304, 8, None, None, TOKEN.encode()),
        ],
    ),
    "PROCESSES": ("globalPid INTEGER, pid INTEGER, name TEXT", [(1, 2, f"{HOME}/bin/python")]),
    "ThreadNames": ("nameId INTEGER, priority INTEGER, globalTid INTEGER", [(5, 0, 7)]),
    "ProcessStreams": (
        "globalPid INTEGER, filenameId INTEGER, contentId INTEGER", [(1, 11, 7)],
    ),
    "ANALYSIS_FILE": (
        "id INTEGER, filename TEXT, contentId INTEGER, globalPid INTEGER",
        [(1, f"{HOME}/nsys.cfg", 7, 1)],
    ),
    "DIAGNOSTIC_EVENT": ("timestamp INTEGER, severity INTEGER, text TEXT", [(1, 2, TEXT)]),
    "META_DATA_CAPTURE": (
        "name TEXT NOT NULL, value TEXT",
        [
            *(("PROCESS_0:ENVIRONMENT_VARIABLE", f"{k}={v}") for k, v in ENVIRONMENT.items()),
            ("PROCESS_0:COMMAND", f"{HOME}/bin/python"),
            ("PROCESS_0:ARGUMENT_0", "serve.py"),
            ("PROCESS_0:ARGUMENT_10", "tail"),
            ("PROCESS_0:ARGUMENT_1", "--api-key"),
            ("PROCESS_0:ARGUMENT_2", "behind-the-option"),
            ("PROCESS_0:ARGUMENT_3", f"--model={HOME}/models/llama"),
            ("PROCESS_0:WORKING_DIR", HOME),
            ("DEVICE_DISPLAY_NAME", HOST),
            ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ],
    ),
    "META_DATA_EXPORT": (
        "name TEXT NOT NULL, value TEXT",
        [
            ("EXPORT_SCHEMA_VERSION", "3.25.0"),
            ("EXPORT_HOST", HOST),
            ("EXPORT_USER", USER),
            ("EXPORT_PARAM_INPUT_PATH_ABS", f"{HOME}/r.nsys-rep"),
            ("EXPORT_PARAM_TIME_SHIFT", None),
        ],
    ),
    "TARGET_INFO_SYSTEM_ENV": (
        "globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT",
        [(1, HOST, "CpuCores", 1, "2"), (1, HOST, "Hostname", 2, HOST)],
    ),
    "TARGET_INFO_GPU": (
        "id INTEGER, name TEXT, uuid TEXT",
        [(0, "NVIDIA H200", "GPU-7f3d2c1b-0a9f-4e8d-9c7b-6a5f4e3d2c1b")],
    ),
    "TARGET_INFO_NIC_INFO": ("name TEXT, state INTEGER", [(f"mlx5 {ADDRESS}", TEXT)]),
    "SOMETHING_NEW": ("note TEXT, more INTEGER, raw BLOB", [(TEXT, TEXT, SECRET.encode() * 9)]),
}  # fmt: skip


def sqlite(path: Path) -> Path:
    """An export with something planted in every table."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
        for name, (columns, rows) in TABLES.items():
            database.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        database.execute("CREATE INDEX by_start ON NVTX_EVENTS (start)")
        # A page that held something and is free now.
        database.execute("CREATE TABLE gone (text TEXT)")
        database.execute("INSERT INTO gone VALUES (?)", (TOKEN * 500,))
        database.execute("DROP TABLE gone")
    database.close()
    return path


# What a column of Parquet or Arrow, which has one type, holds in place of it.
PLAIN: dict[str, list[tuple[Any, ...]]] = {
    "SOMETHING_NEW": [(TEXT, 1, SECRET.encode() * 9)],
    "NVTX_EVENTS": [(*row[:8], row[8] or b"") for row in TABLES["NVTX_EVENTS"][1]],
    "TARGET_INFO_NIC_INFO": [(f"mlx5 {ADDRESS}", 1)],
}


def arrow_table(name: str) -> pa.Table:
    columns, rows = TABLES[name]
    names = re.findall(r'"?(\w+)"? (?:INTEGER|TEXT|BLOB)', columns)
    values = zip(*PLAIN.get(name, rows), strict=True)
    return pa.table(dict(zip(names, map(list, values), strict=True)))


def folder(place: Path, ending: str) -> Path:
    """The same export as a folder of tables."""
    place.mkdir()
    ids = pa.array(list(STRINGS), pa.int32())
    tables = {name: arrow_table(name) for name in TABLES}
    tables["StringIds"] = pa.table({"id": ids, "value": list(STRINGS.values())})
    for name, found in tables.items():
        table = found.replace_schema_metadata({"table_name": name, "note": TEXT})
        if ending == "parquet":
            pq.write_table(table, place / f"{name}.parquet", compression="none", row_group_size=2)
        else:
            with pa.ipc.new_stream(place / f"{name}.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
    return place


def rows_of(path: Path, name: str) -> list[Any]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        found = database.execute(f'SELECT * FROM "{name}"').fetchall()
    database.close()
    return found


def test_nothing_planted_in_a_database_stays(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "r.sqlite")
    assert planted.found_in(path) == set(ALL)
    out = tmp_path / "copy.sqlite"
    done = scrub(path, out)
    assert planted.found_in(out) == set()
    assert b"behind-the-option" not in out.read_bytes()
    assert b"7f3d2c1b" not in out.read_bytes()
    assert done.counts["environment"] == len(ENVIRONMENT)
    assert done.counts["rows left out"] == 3
    assert done.counts["payloads emptied"] == 2


def test_what_is_no_secret_stays_in_a_database(tmp_path: Path) -> None:
    path, out = sqlite(tmp_path / "r.sqlite"), tmp_path / "copy.sqlite"
    scrub(path, out)
    assert rows_of(out, "CUPTI_ACTIVITY_KIND_KERNEL") == rows_of(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    strings = dict(rows_of(out, "StringIds"))
    assert sorted(strings) == [1, 2, 3, 4, 5, 8, 9, 10]
    assert {key: strings[key] for key in (1, 2, 3, 4)} == {
        key: STRINGS[key] for key in (1, 2, 3, 4)
    }
    assert strings[5] == "python /p/serve.py"
    nvtx = rows_of(out, "NVTX_EVENTS")
    assert nvtx[2][3] == "specscope:verify|c=3"
    assert [row[:3] for row in nvtx] == [row[:3] for row in rows_of(path, "NVTX_EVENTS")]
    assert nvtx[1][8] == b"\1\0\0\0\0"
    capture = rows_of(out, "META_DATA_CAPTURE")
    assert ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node") in capture
    assert ("PROCESS_0:ARGUMENT_2", "***") in capture
    assert ("PROCESS_0:ARGUMENT_3", "--model=/p/llama") in capture
    assert rows_of(out, "TARGET_INFO_SYSTEM_ENV") == [(1, "host1", "CpuCores", 1, "2")]
    assert dict(rows_of(out, "META_DATA_EXPORT"))["EXPORT_PARAM_TIME_SHIFT"] is None
    with sqlite3.connect(out) as database:
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT name FROM sqlite_master WHERE type='index'").fetchall() == [
            ("by_start",)
        ]
    database.close()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_nothing_planted_in_a_folder_of_tables_stays(ending: str, tmp_path: Path) -> None:
    place, out = folder(tmp_path / "r", ending), tmp_path / "copy"
    assert planted.found_in(place) == set(ALL)
    scrub(place, out)
    assert planted.found_in(out) == set()
    assert {path.name for path in out.iterdir()} == {path.name for path in place.iterdir()}
    assert not any(b"behind-the-option" in path.read_bytes() for path in out.iterdir())


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    return pa.ipc.open_stream(path.read_bytes()).read_all()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_what_is_no_secret_stays_in_a_folder_of_tables(ending: str, tmp_path: Path) -> None:
    place, out = folder(tmp_path / "r", ending), tmp_path / "copy"
    scrub(place, out)
    for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "ThreadNames"):
        before, after = (read(where / f"{name}.{ending}") for where in (place, out))
        assert before.equals(after)
        assert after.schema.types == before.schema.types
    strings = read(out / f"StringIds.{ending}")
    assert sorted(strings["id"].to_pylist()) == [1, 2, 3, 4, 5, 8, 9, 10]
    assert strings.schema.field("id").type == pa.int32()
    assert strings.schema.metadata == {b"table_name": b"StringIds"} or ending == "parquet"


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_folder_of_tables_says_what_a_database_says(ending: str, tmp_path: Path) -> None:
    scrub(sqlite(tmp_path / "r.sqlite"), tmp_path / "copy.sqlite")
    scrub(folder(tmp_path / "r", ending), tmp_path / "copy")
    for name in ("StringIds", "PROCESSES", "DIAGNOSTIC_EVENT", "META_DATA_CAPTURE"):
        table = read(tmp_path / "copy" / f"{name}.{ending}")
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert rows == rows_of(tmp_path / "copy.sqlite", name)


def test_the_source_is_neither_written_nor_accompanied(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    path = sqlite(place / "r.sqlite")
    before = path.read_bytes(), path.stat().st_mtime_ns
    scrub(path, tmp_path / "copy.sqlite")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [child.name for child in place.iterdir()] == ["r.sqlite"]
    assert {child.name for child in tmp_path.iterdir()} == {"in", "copy.sqlite"}


def test_a_database_that_is_written_to_is_refused(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "r.sqlite")
    (tmp_path / "r.sqlite-wal").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"r\.sqlite-wal beside it"):
        scrub(path, tmp_path / "copy.sqlite")


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a)")
    database.close()
    with pytest.raises(TraceFormatError, match="no export of Nsight Systems"):
        scrub(path, tmp_path / "copy.sqlite")


def test_a_database_cut_anywhere_is_one_line_and_no_copy(tmp_path: Path) -> None:
    whole = sqlite(tmp_path / "r.sqlite").read_bytes()
    cut, out = tmp_path / "cut.sqlite", tmp_path / "copy.sqlite"
    refused = 0
    for length in range(100, len(whole) - 4096, 4096):
        cut.write_bytes(whole[:length])
        try:
            scrub(cut, out)
        except SpecscopeError as error:
            assert "\n" not in str(error)
            assert not out.exists()
            refused += 1
        else:
            out.unlink()
    assert refused > 3
    assert {path.name for path in tmp_path.iterdir()} == {"r.sqlite", "cut.sqlite"}


def test_texts_of_another_encoding_are_masked(tmp_path: Path) -> None:
    path, out = tmp_path / "r.sqlite", tmp_path / "copy.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA encoding = 'UTF-16le'")
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, text TEXT, textId INTEGER)")
        database.execute("INSERT INTO NVTX_EVENTS VALUES (1, ?, 1)", (f"größe {TOKEN}",))
        database.execute("INSERT INTO StringIds VALUES (1, ?)", (f"a {TOKEN}",))
    database.close()
    scrub(path, out)
    assert rows_of(out, "NVTX_EVENTS") == [(1, "größe ***", 1)]
    assert rows_of(out, "StringIds") == [(1, "a ***")]
    assert TOKEN.encode("utf-16-le") not in out.read_bytes()


def test_a_text_that_is_not_utf8_is_copied(tmp_path: Path) -> None:
    path, out = sqlite(tmp_path / "r.sqlite"), tmp_path / "copy.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO NVTX_EVENTS (start, text) VALUES (9, CAST(? AS TEXT))", (b"a\xff\xfeb",)
        )
    database.close()
    scrub(path, out)
    assert rows_of(out, "NVTX_EVENTS")[3][3] == "a\ufffd\ufffdb"


def test_a_comment_of_the_schema_can_hold_nothing(tmp_path: Path) -> None:
    path, out = sqlite(tmp_path / "r.sqlite"), tmp_path / "copy.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE noted (a INTEGER -- {TOKEN}\n)")
    database.close()
    scrub(path, out)
    assert planted.found_in(out) == set()
    assert rows_of(out, "noted") == []


SAMPLES = [
    "all_tables_empty_s3.0.0.sqlite",
    "all_tables_empty_s3.7.2.sqlite",
    "h100_2proc_1s_s3.25.0.sqlite",
    "layers_nvtx_1gpu_s3.16.1.sqlite",
    "no_cuda_driver_newer_s3.16.1.sqlite",
    "oldmeta_4gpu_s3.1.7.sqlite",
    "synthetic_graph_node.sqlite",
    "synthetic_graph_trace.sqlite",
    "tiny_diag_s3.24.14.sqlite",
    "torchrun_2gpu_nccl_s3.25.0.sqlite",
    "vecadd_wsl_s3.24.0.sqlite",
    "wsl_no_kernels_nvtx_domains_s3.7.2.sqlite",
    "twin_cpu/twin.sqlite",
]
# What may differ in a sample that was cleaned already.
CHANGED = {"StringIds", "ProcessStreams", "ANALYSIS_FILE", "META_DATA_CAPTURE", "META_DATA_EXPORT"}
CHANGED |= {"TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "EXPORT_META_DATA"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_keeps_its_tables_rows_and_names(name: str, tmp_path: Path) -> None:
    path, out = shared_path("traces", "nsight", *name.split("/")), tmp_path / "copy.sqlite"
    scrub(path, out)
    tables = [row[1] for row in rows_of(path, "sqlite_master") if row[0] == "table"]
    assert tables == [row[1] for row in rows_of(out, "sqlite_master") if row[0] == "table"]
    for table in tables:
        before, after = rows_of(path, table), rows_of(out, table)
        if table not in CHANGED:
            assert after == before, table
        elif table == "StringIds":
            assert set(after) <= set(before)
        elif table not in ("ProcessStreams", "ANALYSIS_FILE"):
            assert len(after) == len(before)


def test_the_folder_of_the_twin_keeps_its_rows(tmp_path: Path) -> None:
    path = shared_path("traces", "nsight", "twin_cpu", "twin_pqtdir")
    scrub(path, tmp_path / "copy")
    for file in path.glob("*.parquet"):
        before, after = read(file), read(tmp_path / "copy" / file.name)
        assert before.schema.types == after.schema.types
        if file.stem not in CHANGED:
            assert before.to_pylist() == after.to_pylist(), file.stem


def test_an_export_of_a_server_is_copied_whole(tmp_path: Path) -> None:
    source = shared_path("traces", "own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1", "node.sqlite")
    copy = tmp_path / "in.sqlite"
    shutil.copy(source, copy)
    scrub(copy, tmp_path / "out.sqlite")
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUDA_GRAPH_EVENTS", "PROCESSES"):
        assert rows_of(copy, table) == rows_of(tmp_path / "out.sqlite", table)


@pytest.mark.parametrize("ending", ["sqlite", "parquet", "arrow"])
def test_no_damage_ends_in_more_than_one_line_or_lets_a_token_through(
    ending: str, tmp_path: Path
) -> None:
    draw = random.Random(4)
    whole = tmp_path / f"r.{ending}"
    source, out = tmp_path / "damaged", tmp_path / "copy"
    sqlite(whole) if ending == "sqlite" else folder(whole, ending)
    refused = copied = 0
    for _ in range(40):
        for path in (source, out):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, source)
        target = draw.choice(sorted(source.iterdir())) if source.is_dir() else source
        raw = bytearray(target.read_bytes())
        for _ in range(draw.choice([1, 2, 20])):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        target.write_bytes(raw[: draw.choice([len(raw), len(raw), draw.randrange(len(raw))])])
        try:
            scrub(source, out)
        except SpecscopeError as error:
            assert "\n" not in str(error)
            assert not out.exists()
            refused += 1
            continue
        copied += 1
        for path in out.rglob("*") if out.is_dir() else [out]:
            assert not re.search(rb"(?<![A-Za-z0-9])" + TOKEN.encode(), path.read_bytes())
    assert refused > 3
    assert copied > 3
