"""Exports that are broken, foreign, odd, or hold what nobody may see."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import specscope
from specscope.traces import nsys
from specscope.traces.errors import SpecscopeError, TraceFormatError
from tests.traces.nsys_files import LAUNCH, Row, call, kernel, nvtx, pid, read, strings, write

pytestmark = pytest.mark.usefixtures("reader")


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
