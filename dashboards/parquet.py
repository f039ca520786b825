"""The tables of a report as Parquet files, one a table: `DIR/parts.parquet` and so on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from specscope.analyzers.report import Report
from specscope.dashboards.writing import make_folder, replace_file


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
