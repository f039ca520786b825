"""Tables as Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from specscope.dashboards.parquet import write_tables
from specscope.dashboards.writing import write_text
from specscope.traces.errors import UsageError
from tests.dashboards import reports

# Design: one file a table.
TABLES = ("ops", "calls", "ranges", "collectives", "sources", "losses")
OWN_TABLES = ("stages", "cycles", "segments", "parts")


@pytest.mark.parametrize("name", ["two_cycles_give_figures_and_no_verdict", "plain"])
def test_every_table_has_its_file_also_when_the_verdict_is_withheld(
    name: str, tmp_path: Path
) -> None:
    report = reports.bundled() if name == "plain" else reports.drawn(name)
    write_tables(report, tmp_path / "new" / "folder")
    for table in (*TABLES, *OWN_TABLES):
        read = pq.read_table(tmp_path / "new" / "folder" / f"{table}.parquet")
        assert read.num_rows == report.tables[table].num_rows


def test_the_parts_of_a_cycle_sum_to_its_length(tmp_path: Path) -> None:
    write_tables(reports.bundled(), tmp_path)
    parts = pq.read_table(tmp_path / "parts.parquet").to_pandas()
    cycles = pq.read_table(tmp_path / "cycles.parquet").to_pandas().set_index(["rank", "cycle"])
    sums = parts.groupby(["rank", "cycle"])["ns"].sum()
    assert (sums == cycles["end_ns"] - cycles["start_ns"]).all()


def test_a_trace_without_anything_still_gives_files(tmp_path: Path) -> None:
    t = reports.Timeline()
    t.mark("nothing", 1, 2)
    write_tables(reports.of(t), tmp_path)
    assert (tmp_path / "parts.parquet").is_file()


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    write_tables(reports.bundled(), tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".parquet"]


def test_a_file_in_place_of_the_folder_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="cannot write into"):
        write_tables(reports.bundled(), file)


def test_a_document_replaces_the_old_one_and_keeps_it_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_text(path, "old")
    write_text(path, "new")
    assert path.read_text() == "new"
    with pytest.raises(UsageError, match="it is a folder"):
        write_text(tmp_path, "x")
    with pytest.raises(UsageError, match="cannot write"):
        write_text(tmp_path / "none" / "report.md", "x")


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_text(Path("/dev/null"), "x")
    assert not Path("/dev/null").is_file()
