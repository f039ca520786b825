"""The tables of a report as Parquet files, one a table: `DIR/parts.parquet` and so on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from specscope.analyzers.report import Report
from specscope.dashboards.safe_text import clean
from specscope.dashboards.writing import make_folder, replace_file
from specscope.traces.errors import UsageError

_MARK = b"specscope_schema_version"


def refuse_other_tables(folder: Path) -> None:
    """Raise UsageError, in one line, where the folder has a Parquet file of somebody else."""
    for path in sorted(folder.glob("*.parquet")):
        try:
            own = _MARK in (pq.read_schema(path).metadata or {})
        except (OSError, pa.ArrowException):
            own = False
        if not own:
            raise UsageError(
                f"{clean(path, 200)} is there and is no table of specscope, so nothing is written "
                "beside or over it; give --parquet another folder"
            )


def write_tables(report: Report, folder: Path) -> list[str]:
    """Write every table into `folder`; the names of the files.

    Each is written under a temporary name and renamed, so that a reader never sees half a
    table. Raises UsageError, in one line.
    """
    make_folder(folder)
    names = []
    for name, table in report.tables.items():
        file = f"{name}.parquet"
        replace_file(folder / file, partial(pq.write_table, table, compression="zstd"))
        names.append(file)
    return names
