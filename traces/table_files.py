"""The tables of a run as Parquet or Arrow files: one file a table, over all ranks.

Written under another name beside OUT and renamed, so that nobody reads half of one. What is
there already is replaced only where it is such a file or folder, or with `force`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import schema
from .errors import UsageError
from .run import Run
from .sniff import printable

FORMATS: Final = ("parquet", "arrow")
# Rows that are compressed and written together.
BATCH_ROWS: Final = 1 << 18
_VERSION: Final = b"specscope_schema_version"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Written:
    """One file that was written."""

    path: Path
    rows: int
    bytes: int


def tables_of(run: Run) -> tuple[str, ...]:
    """Names of the tables that this run has."""
    logs = any(rank.cycle_log is not None for rank in run.ranks)
    return (*schema.TABLES, "cycle_log") if logs else tuple(schema.TABLES)


def format_of(out: Path) -> str:
    """`parquet` or `arrow`, by the ending. Raises UsageError."""
    ending = out.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(
            f"{printable(str(out), 200)}: its ending says what is written, .parquet or .arrow; "
            "name it so"
        )
    return ending


def write_tables(
    run: Run,
    out: Path,
    names: Sequence[str] = (),
    *,
    force: bool = False,
    keep: Sequence[Path] = (),
) -> list[Written]:
    """Write the tables called `names` (else all) of every rank.

    One name makes `out` that file; otherwise `out` is a folder with a file for each table.
    `keep` are inputs, which are never written over. Raises UsageError, in one line.
    """
    kind = format_of(out)
    known = tables_of(run)
    for name in names:
        if name not in known:
            raise UsageError(f"no table {printable(name)!r} in this run; {', '.join(known)}")
    check_target(out, keep=keep, force=force, folder=len(names) != 1)
    with _one_line(out), _beside(out) as place:
        if len(names) == 1:
            file = place / out.name
            rows = _write(run, names[0], file, kind)
            size = file.stat().st_size
            file.replace(out)
            return [Written(out, rows, size)]
        done = []
        for name in names or known:
            file = place / f"{name}.{kind}"
            rows = _write(run, name, file, kind)
            done.append(Written(out / file.name, rows, file.stat().st_size))
        _move(place, out)
        return done


def check_target(out: Path, *, keep: Sequence[Path], force: bool, folder: bool) -> None:
    """Raises UsageError where `out` must not be written."""
    title = printable(str(out), 200)
    for path in keep:
        _keep_apart(path, out)
    if not out.exists():
        return
    if folder and not out.is_dir():
        raise UsageError(
            f"{title} is a file, and several tables go into a folder; remove it, or name one "
            "table with --tables"
        )
    if not folder and out.is_dir():
        raise UsageError(f"{title} is a folder, and one table is one file; name another")
    if not force and not (_is_folder_of_ours(out) if folder else _is_table_of_ours(out)):
        raise UsageError(f"{title} is there and holds something else; --force replaces it")


def _keep_apart(source: Path, out: Path) -> None:
    try:
        inside = source.resolve() in (out.resolve(), *out.resolve().parents)
        around = out.resolve() in source.resolve().parents
    except OSError:
        return
    if inside and (source.is_dir() or source.resolve() == out.resolve()):
        raise UsageError(f"{printable(str(out), 200)} is what is read, or lies in it; name another")
    if around:
        raise UsageError(f"{printable(str(out), 200)} holds what is read; name another")


def _is_folder_of_ours(folder: Path) -> bool:
    files = list(folder.iterdir())
    return all(_is_table_of_ours(file) for file in files)


def _is_table_of_ours(file: Path) -> bool:
    """Does its schema carry our version?"""
    if file.suffix.lower().removeprefix(".") not in FORMATS or not file.is_file():
        return False
    try:
        with pa.OSFile(os.fspath(file)) as source:
            if file.suffix.lower() == ".parquet":
                found = pq.read_schema(source)
            else:
                found = pa.ipc.open_file(source).schema
    except (OSError, ValueError, pa.ArrowException):
        return False
    return _VERSION in (found.metadata or {})


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A folder beside `out` that is gone afterwards."""
    place = out.resolve().parent / f".{out.name[:100]}.{secrets.token_hex(4)}.tmp"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _one_line(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        mend = "make room and try again" if error.errno in _FULL else "check the path"
        raise UsageError(f"cannot write {printable(str(out), 200)}: {reason}; {mend}") from error


def _move(place: Path, out: Path) -> None:
    """The files of `place` as the folder `out`; tables of ours that are there go."""
    if not out.exists():
        ready = place / "ready"
        ready.mkdir()
        for file in list(place.iterdir()):
            if file != ready:
                file.rename(ready / file.name)
        ready.rename(out)
        return
    stale = {file.name for file in out.iterdir() if _is_table_of_ours(file)}
    for file in sorted(place.iterdir()):
        file.replace(out / file.name)
        stale.discard(file.name)
    for name in stale:
        (out / name).unlink()


def _write(run: Run, name: str, file: Path, kind: str) -> int:
    """One table of all ranks, batch by batch; the rows written."""
    tables = [(rank.rank, getattr(rank, name)) for rank in run.ranks]
    pieces = [_with_rank(table, rank) for rank, table in tables if table is not None]
    wanted = _schema_with_rank(name)
    # By Python's `open`: Arrow's takes no name that is not UTF-8.
    with file.open("wb") as plain, pa.PythonFile(plain, "w") as sink:
        if kind == "parquet":
            options = {"compression": "zstd", "use_compliant_nested_type": False}
            with pq.ParquetWriter(sink, wanted, **options) as parquet:
                for piece in pieces:
                    parquet.write_table(piece, row_group_size=BATCH_ROWS)
        else:
            # A file, unlike a stream, has one dictionary a column for all batches.
            whole = pa.concat_tables(pieces or [wanted.empty_table()]).unify_dictionaries()
            with pa.ipc.new_file(sink, wanted) as arrow:
                arrow.write_table(whole, max_chunksize=BATCH_ROWS)
    return sum(piece.num_rows for piece in pieces)


def _schema_with_rank(name: str) -> pa.Schema:
    found = schema.CYCLE_LOG if name == "cycle_log" else schema.TABLES[name]
    if "rank" in found.names:
        return found
    field = pa.field("rank", pa.int32(), nullable=False, metadata={"doc": "rank"})
    return found.insert(0, field)


def _with_rank(table: pa.Table, rank: int) -> pa.Table:
    """The table with the column `rank` in front, unless it has one: the rank as recorded."""
    if "rank" in table.column_names:
        return table
    wanted = table.schema.insert(0, pa.field("rank", pa.int32(), False, {"doc": "rank"}))
    column: Any = pa.array(np.full(table.num_rows, rank, np.int32))
    return pa.Table.from_arrays([column, *table.columns], schema=wanted)
