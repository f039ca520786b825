"""A copy of an Nsight Systems folder of Parquet or Arrow files, a table each, without secrets.

Batch by batch, with the types, the order and the row groups of the source; of the metadata only
what names tables and describes columns stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import scrub_nsight as nsight
from .scrub_words import Level, Scrubber
from .sniff import refusal

ENDINGS: Final = (".parquet", ".arrow")
_BATCH_ROWS: Final = 1 << 16
_METADATA: Final = frozenset({b"table_name", b"field_desc"})


def is_folder(folder: Path) -> bool:
    """Does it hold the tables of an export?"""
    return any(
        (folder / f"{name}{ending}").is_file() for name in nsight.MARKS for ending in ENDINGS
    )


def files(folder: Path) -> list[Path]:
    """Its tables."""
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and path.is_file())


def learn(folder: Path, scrubber: Scrubber) -> None:
    """Learn who is in the export. Raises TraceFormatError, in one line, and OSError."""
    for path in files(folder):
        with _opened(path) as (schema, batches):
            names = schema.names
            if not nsight.is_settings(names) and path.stem != nsight.STRINGS:
                continue
            for batch in batches:
                values = batch.column("value").to_pylist()
                if nsight.is_settings(names):
                    keys = map(str, batch.column("name").to_pylist())
                    nsight.learn_settings(scrubber, list(zip(keys, values, strict=True)))
                for value in values:
                    scrubber.learn(value)
                if "devStateName" in names:
                    for host in batch.column("devStateName").unique().to_pylist():
                        scrubber.learn_host(str(host))


def write(folder: Path, out: Path, scrubber: Scrubber) -> None:
    """Write the copy into the folder `out`. Raises TraceFormatError and OSError."""
    used: dict[int, int] = {}
    paths = files(folder)
    for path in paths:
        if path.stem != nsight.STRINGS:
            _write(path, out / path.name, _Plain(path.stem, scrubber, used))
    for path in paths:
        if path.stem == nsight.STRINGS:
            _write(path, out / path.name, _Strings(scrubber, used))


class _Plain:
    """Masks the batches of one table, and notes which strings they refer to."""

    def __init__(self, table: str, scrubber: Scrubber, used: dict[int, int]):
        self._table = table
        self._scrubber = scrubber
        self._used = used

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch that is written."""
        if self._table in nsight.EMPTIED:
            self._scrubber.counts["rows left out"] += batch.num_rows
            return batch.slice(0, 0)
        names = batch.schema.names
        settings = nsight.is_settings(names)
        keep = None
        columns = []
        if settings:
            keys = [str(key) for key in batch.column("name").to_pylist()]
            found = batch.column("value").to_pylist()
            values = nsight.settings(
                self._scrubber, self._table, list(zip(keys, found, strict=True))
            )
            keep = pa.array([value is not None for value in values])
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if settings and field.name == "value":
                masked = [
                    None if before is None else value
                    for before, value in zip(found, values, strict=True)
                ]
                columns.append(pa.array(masked, field.type))
            elif settings and field.name == "name":
                columns.append(pa.array(map(self._scrubber.range_name, keys), field.type))
            else:
                columns.append(self._masked(field, column))
        for name in nsight.references(self._table, names):
            self._use(name, batch.column(name))
        out = pa.RecordBatch.from_arrays(columns, schema=_schema(batch.schema, self._scrubber))
        return out if keep is None else out.filter(keep)

    def _masked(self, field: pa.Field, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_dictionary(kind):
            values = self._masked(field, column.dictionary)
            # Equal ones become one again: a dictionary has no value twice.
            plain = pa.DictionaryArray.from_arrays(column.indices, values).cast(kind.value_type)
            return plain.dictionary_encode().cast(kind)
        if not _holds_text(kind):
            return column
        masked = [
            nsight.value(self._scrubber, self._table, field.name, value)
            for value in column.to_pylist()
        ]
        if pa.types.is_fixed_size_binary(kind):
            masked = [
                value if value is None else value or bytes(kind.byte_width) for value in masked
            ]
        return pa.array(masked, kind)

    def _use(self, name: str, column: pa.Array) -> None:
        if not pa.types.is_integer(column.type):
            return
        level = nsight.ORDER.index(nsight.level_of(self._table, name))
        for number in pc.unique(column).to_pylist():
            if number is not None:
                self._used[number] = max(level, self._used.get(number, 0))


class _Strings:
    """Keeps the strings that are referred to."""

    def __init__(self, scrubber: Scrubber, used: dict[int, int]):
        self._scrubber = scrubber
        self._used = used

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch that is written."""
        keep, values = [], []
        ids, texts = (batch.column(name).to_pylist() for name in ("id", "value"))
        for number, text in zip(ids, texts, strict=True):
            level: Level | None = nsight.ORDER[self._used[number]] if number in self._used else None
            keep.append(level is not None)
            if level is None:
                self._scrubber.counts["strings left out"] += 1
            known = level is not None and isinstance(text, str)
            values.append(nsight.at_level(self._scrubber, level, text) if known and level else "")
        schema = _schema(batch.schema, self._scrubber)
        columns = [
            pa.array(values, field.type) if field.name == "value" else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema).filter(pa.array(keep))


def _holds_text(kind: pa.DataType) -> bool:
    tests = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _schema(found: pa.Schema, scrubber: Scrubber) -> pa.Schema:
    """The schema with what describes it, and no other metadata."""

    def kept(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes]:
        known = {key: value for key, value in (metadata or {}).items() if key in _METADATA}
        return {
            key: scrubber.text(value.decode("utf-8", "replace")).encode("utf-8", "replace")
            for key, value in known.items()
        }

    fields = [field.with_metadata(kept(field.metadata) or None) for field in found]
    return pa.schema(fields, metadata=kept(found.metadata) or None)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and batches. Raises TraceFormatError for what cannot be read."""
    with path.open("rb") as plain, pa.PythonFile(plain, "r") as file:
        with _readable(path):
            if path.suffix == ".parquet":
                parquet = pq.ParquetFile(file)
                schema, batches = parquet.schema_arrow, parquet.iter_batches(_BATCH_ROWS)
            else:
                stream = pa.ipc.open_stream(file)
                schema, batches = stream.schema, iter(stream)
        yield schema, _sound(path, batches)


def _sound(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each whole."""
    while True:
        with _readable(path):
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)
        yield batch


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What Arrow says of a damaged file, in one line."""
    try:
        yield
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system says so, not Arrow
        what = f"a table that cannot be read ({type(error).__name__})"
        raise refusal(path.name, what, "export it again") from error


def _write(path: Path, out: Path, masking: _Plain | _Strings) -> None:
    with _opened(path) as (found, batches), out.open("wb") as plain:
        schema = _schema(found, masking._scrubber)
        with pa.PythonFile(plain, "w") as sink:
            writer: Any = (
                pq.ParquetWriter(sink, schema, compression="none")
                if path.suffix == ".parquet"
                else pa.ipc.new_stream(sink, schema)
            )
            with writer:
                for batch in batches:
                    writer.write_batch(masking.batch(batch))
