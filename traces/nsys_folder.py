"""The Parquet and Arrow exports of Nsight Systems: a folder with one file a table.

Files are read batch by batch and only the named columns. `TABLE.arrow` holds an Arrow stream;
types differ from the SQLite export (unsigned and narrow integers), the values do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from . import nsys_names as names
from . import sniff
from .errors import TraceFormatError
from .events import ABSENT
from .nsys_store import Columns, Cut, Ints, absent, coded

_AGAIN: Final = "export it again (nsys export --type=parquetdir)"
_BATCH_ROWS: Final = 1 << 16
# Ending of the files and what the format is called.
ENDINGS: Final = {".parquet": "nsys-parquet", ".arrow": "nsys-arrow"}


class FolderStore:
    """See `nsys_store.Store`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ending = next(ending for ending in ENDINGS if any(folder.glob(f"*{ending}")))
        self.format = ENDINGS[self._ending]
        self._files = {
            names.canonical(file.stem): file for file in sorted(folder.glob(f"*{self._ending}"))
        }
        self._schemas: dict[str, pa.Schema] = {}

    def tables(self) -> frozenset[str]:
        """Names of the tables that are there."""
        return frozenset(self._files)

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return tuple(self._schema(table).names) if table in self._files else ()

    def rows(self, table: str) -> int:
        """Number of rows."""
        if table not in self._files:
            return 0
        return sum(batch.num_rows for batch in self._batches(table, self.columns(table)[:1]))

    def read(
        self,
        table: str,
        ints: Sequence[str] = (),
        texts: Sequence[str] = (),
        floats: Sequence[str] = (),
        cut: Cut | None = None,
    ) -> Columns:
        """The named columns, in the order of the rows in the file."""
        here = self.columns(table)
        wanted = [name for name in dict.fromkeys((*ints, *texts, *floats)) if name in here]
        found = self._table(table, wanted) if wanted else None
        rows = self.rows(table) if found is None else found.num_rows
        out = Columns(rows)
        for name in ints:
            column = _column(found, name)
            out.ints[name] = absent(rows) if column is None else self._integers(table, column)
        for name in texts:
            column = _column(found, name)
            values = [None] * rows if column is None else column.to_pylist()
            out.texts[name] = coded([None if v is None else str(v) for v in values], cut)
        for name in floats:
            column = _column(found, name)
            values = [None] * rows if column is None else column.to_pylist()
            out.floats[name] = np.array([np.nan if v is None else v for v in values], np.float64)
        return out

    def _table(self, table: str, columns: Sequence[str]) -> pa.Table:
        fields = pa.schema([self._schema(table).field(name) for name in columns])
        return pa.Table.from_batches(list(self._batches(table, columns)), fields)

    def close(self) -> None:
        """Nothing stays open."""

    def _schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            file = self._files[table]
            try:
                if self._ending == ".parquet":
                    with pq.ParquetFile(file) as parquet:
                        self._schemas[table] = parquet.schema_arrow
                else:
                    with pa.OSFile(str(file)) as raw, pa.ipc.open_stream(raw) as stream:
                        self._schemas[table] = stream.schema
            except (pa.ArrowException, ValueError) as error:
                raise self._damaged(file, error) from error
        return self._schemas[table]

    def _batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        file = self._files[table]
        try:
            if self._ending == ".parquet":
                with pq.ParquetFile(file) as parquet:
                    yield from parquet.iter_batches(_BATCH_ROWS, columns=list(columns))
                return
            with pa.memory_map(str(file)) as raw, pa.ipc.open_stream(raw) as stream:
                for batch in stream:
                    yield batch.select(list(columns))
        except (pa.ArrowException, ValueError) as error:
            raise self._damaged(file, error) from error

    def _integers(self, table: str, column: pa.ChunkedArray) -> Ints:
        if pa.types.is_null(column.type):
            return absent(len(column))
        if not pa.types.is_integer(column.type) and not pa.types.is_boolean(column.type):
            what = f"no sound Nsight Systems export: a column of {table} is of type {column.type}"
            raise sniff.refusal(self._folder.name, f"{what} where integers belong", _AGAIN)
        array = column.combine_chunks()
        missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        filled = array.fill_null(0) if array.null_count else array
        if pa.types.is_boolean(array.type):
            filled = filled.cast(pa.int64())
        # Unsigned numbers beyond 63 bits become what SQLite shows: their signed twins.
        values = np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)
        if array.null_count:
            values[missing] = ABSENT
        return values

    def _damaged(self, file: Path, error: Exception) -> TraceFormatError:
        reason = sniff.printable(str(error).splitlines()[0] if str(error) else "", 120)
        title = f"{self._folder.name}/{file.name}"
        return sniff.refusal(title, f"a damaged file of an export ({reason})", _AGAIN)


def _column(table: pa.Table | None, name: str) -> pa.ChunkedArray | None:
    return table[name] if table is not None and name in table.column_names else None


def is_export(folder: Path) -> bool:
    """Do the files of a folder look like an export: upper-case tables that nsys makes?"""
    marks = ("META_DATA_EXPORT", "EXPORT_META_DATA", "StringIds", "TARGET_INFO_SESSION_START_TIME")
    return any((folder / f"{mark}{ending}").is_file() for mark in marks for ending in ENDINGS)
