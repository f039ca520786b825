"""The SQLite export of Nsight Systems, opened read-only and immutable: nothing is ever written.

A plain table is read from the pages of the file by the native reader, where there is one. What it
leaves, and every table without it, is read by SQL: numbers leave SQLite as one long text a column
and slice (`group_concat`), which numpy parses exactly, without an object for each value. Both work
outside the interpreter lock, so several threads can read, each with a connection of its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import local
from typing import Any, Final

import numpy as np

from . import nsys_names as names
from . import sniff
from .errors import TraceFormatError
from .events import ABSENT
from .nsys_pages import OddError, read_pages
from .nsys_store import Columns, Cut, Ints, absent, coded, no_text

SLICE_ROWS: Final = 250_000
_HEADER: Final = b"SQLite format 3\x00"
_AGAIN: Final = "export it again (nsys export --type=sqlite)"


class SqliteStore:
    """See `nsys_store.Store`."""

    format = "nsys-sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path
        check_whole(path)
        self._uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._local = local()
        self._open: list[sqlite3.Connection] = []
        self._columns: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, str] = {}
        self._roots: dict[str, int] = {}
        self._file = -1
        self._keyless: set[str] = set()
        for written, root, text in self._query(
            "SELECT name, rootpage, sql FROM sqlite_master WHERE type IN ('table', 'view')"
        ):
            name = names.canonical(str(written))
            rows = self._query(f"PRAGMA table_xinfo({_quoted(name)})")
            self._columns[name] = tuple(str(row[1]) for row in rows if not row[6])
            if not root or "WITHOUT" in str(text).upper():  # a view; WITHOUT ROWID
                self._keyless.add(name)
            elif not any(row[5] or row[6] for row in rows):  # a primary key; generated
                self._roots[name] = int(root)
        self._file = os.open(path, os.O_RDONLY)

    def tables(self) -> frozenset[str]:
        """Names of the tables that are there."""
        return frozenset(self._columns)

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return self._columns.get(table, ())

    def rows(self, table: str) -> int:
        """Number of rows."""
        if table not in self._columns:
            return 0
        ((count,),) = self._query(f"SELECT count(*) FROM {_quoted(table)}")
        return int(count)

    def read(
        self,
        table: str,
        ints: Sequence[str] = (),
        texts: Sequence[str] = (),
        floats: Sequence[str] = (),
        cut: Cut | None = None,
    ) -> Columns:
        """The named columns, in the order of the rows in the file."""
        native = self._by_pages(table, ints, texts, cut)
        if native is None:
            return self._by_sql(table, ints, texts, floats, cut)
        if floats:
            native.floats = self._by_sql(table, (), (), floats, None).floats
        return native

    def _by_pages(
        self, table: str, ints: Sequence[str], texts: Sequence[str], cut: Cut | None
    ) -> Columns | None:
        """The columns from the pages of the file; None where SQL must read them."""
        root = self._roots.get(table)
        if read_pages is None or root is None:
            return None
        here = self.columns(table)
        kinds = bytes(2 if name in texts else 1 if name in ints else 0 for name in here)
        marks = tuple(mark.encode() for mark in cut.marks) if cut else ()
        suffix = cut.suffix.encode() if cut else b""
        try:
            rows, found = read_pages(self._file, root, kinds, marks, suffix)
        except OddError:
            return None
        by_name = dict(zip((n for n in here if n in texts or n in ints), found, strict=True))
        out = Columns(rows)
        for name in ints:
            out.ints[name] = (
                np.frombuffer(by_name[name], np.int64) if name in here else absent(rows)
            )
        for name in texts:
            if name in here:
                codes, words = by_name[name]
                out.texts[name] = np.frombuffer(codes, np.int32), words
            else:
                out.texts[name] = no_text(rows)
        return out

    def _by_sql(
        self,
        table: str,
        ints: Sequence[str],
        texts: Sequence[str],
        floats: Sequence[str],
        cut: Cut | None,
    ) -> Columns:
        here = self.columns(table)
        numbers = [name for name in ints if name in here]
        read = self._one_by_one if table in self._keyless else self._numbers
        rows, columns = read(table, numbers) if numbers else (self.rows(table), {})
        out = Columns(rows, {name: columns.get(name, absent(rows)) for name in ints})
        for name in texts:
            known = name in here and self._has_values(table, name)
            out.texts[name] = coded(self._texts(table, name), cut) if known else no_text(rows)
        for name in floats:
            if name in here and self._has_values(table, name):
                values = [np.nan if v is None else v for v in self._reals(table, name)]
                out.floats[name] = np.array(values, np.float64)
            else:
                out.floats[name] = np.full(rows, np.nan)
        return out

    def close(self) -> None:
        """Closes every connection, and the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = local()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
            self._local.connection = found
            self._open.append(found)
        return found

    def _query(self, text: str, values: Sequence[int] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection().execute(text, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._damaged(error) from error

    def _has_values(self, table: str, name: str) -> bool:
        text = f"SELECT 1 FROM {_quoted(table)} WHERE {_quoted(name)} IS NOT NULL LIMIT 1"
        return bool(self._query(text))

    def _numbers(self, table: str, columns: Sequence[str]) -> tuple[int, dict[str, Ints]]:
        """Integer columns, slice by slice; those without any value are not looked at again."""
        counts = ", ".join(f"count({_quoted(name)})" for name in columns)
        ((rows, *filled),) = self._query(f"SELECT count(*), {counts} FROM {_quoted(table)}")
        total = int(rows)
        # Whether there are NULLs, of each column with a value.
        wanted = {name: count < total for name, count in zip(columns, filled, strict=True) if count}
        parts: dict[str, list[Ints]] = {name: [] for name in wanted}
        try:
            for count, texts in self._slices(table, wanted):
                for name, text in zip(wanted, texts, strict=True):
                    parts[name].append(self._parsed(table, name, text, count))
        except TraceFormatError:
            for name in wanted:
                self._check_type(table, name)
            raise
        return total, {name: np.concatenate(pieces) for name, pieces in parts.items()}

    def _one_by_one(self, table: str, columns: Sequence[str]) -> tuple[int, dict[str, Ints]]:
        """The same for what has no number for its rows: a view, a table WITHOUT ROWID."""
        for name in columns:
            self._check_type(table, name)
        rows = self._query(f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(table)}")
        found = {name: absent(len(rows)) for name in columns}
        for place, name in enumerate(columns):
            for row, values in enumerate(rows):
                if values[place] is not None:
                    found[name][row] = values[place]
        return len(rows), found

    def _slices(self, table: str, columns: dict[str, bool]) -> Iterator[tuple[int, list[str]]]:
        """(rows, the values of each column with commas between), in order of the row's id."""
        if not columns:
            return
        values = ", ".join(
            f"group_concat(coalesce({_quoted(name)}, {ABSENT}))"
            if nulls
            else f"group_concat({_quoted(name)})"
            for name, nulls in columns.items()
        )
        key = self._key(table)
        text = (
            f"SELECT count(*), max(specscope_key), {values} FROM (SELECT {key} AS specscope_key, "
            f"{', '.join(map(_quoted, columns))} FROM {_quoted(table)} "
            f"WHERE {key} > ? ORDER BY {key} LIMIT {SLICE_ROWS})"
        )
        last = ABSENT
        while True:
            ((count, reached, *found),) = self._query(text, (last,))
            if not count:
                return
            if int(reached) <= last:
                raise self._damaged(sqlite3.DatabaseError("rows out of order"))
            yield int(count), [str(one) for one in found]
            last = int(reached)

    def _key(self, table: str) -> str:
        """What the rows of a table are counted by: its rowid, under a name no column has."""
        if table not in self._keys:
            taken = {name.lower() for name in self._columns[table]}
            free = [name for name in ("rowid", "oid", "_rowid_") if name not in taken]
            self._keys[table] = free[0] if free else "rowid"
        return self._keys[table]

    def _in_order(self, table: str) -> str:
        return "" if table in self._keyless else f" ORDER BY {self._key(table)}"

    def _parsed(self, table: str, name: str, text: str, count: int) -> Ints:
        try:
            values = np.fromstring(text, np.int64, sep=",")
        except (ValueError, DeprecationWarning):  # text behind the last number
            values = np.empty(0, np.int64)
        if len(values) != count:
            self._check_type(table, name)
            raise self._damaged(sqlite3.DatabaseError(f"{table}.{name} cannot be read"))
        return values

    def _check_type(self, table: str, name: str) -> None:
        """Raises TraceFormatError where a column holds something else than integers."""
        column = _quoted(name)
        found = self._query(
            f"SELECT typeof({column}), count(*) FROM {_quoted(table)} "
            f"WHERE typeof({column}) NOT IN ('integer', 'null') GROUP BY 1"
        )
        if not found:
            return
        kinds = ", ".join(f"{count} x {kind}" for kind, count in found)
        what = f"no sound Nsight Systems export: {table}.{name} holds {kinds} where integers belong"
        raise sniff.refusal(self._path.name, what, _AGAIN)

    def _texts(self, table: str, name: str) -> list[str | None]:
        text = f"SELECT {_quoted(name)} FROM {_quoted(table)}{self._in_order(table)}"
        connection = self._connection()
        try:
            rows = connection.execute(text).fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            # Names are what the profiled program made them: bytes that are no UTF-8 are replaced.
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = self._query(text)
            connection.text_factory = str
        return [None if value is None else value if isinstance(value, str) else str(value)
                for (value,) in rows]  # fmt: skip

    def _reals(self, table: str, name: str) -> list[float | None]:
        text = f"SELECT {_quoted(name)} FROM {_quoted(table)}{self._in_order(table)}"
        rows = self._query(text)
        return [float(value) if isinstance(value, int | float) else None for (value,) in rows]

    def _damaged(self, error: Exception) -> TraceFormatError:
        # An error about bytes that are no text quotes them.
        quotes = "decode" in str(error).lower()
        reason = "bytes that are no text" if quotes else sniff.printable(str(error), 120)
        return sniff.refusal(self._path.name, f"a damaged SQLite database ({reason})", _AGAIN)


def check_whole(path: Path) -> None:
    """Raises TraceFormatError, in one line, for a database that is cut or still being written."""
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_HEADER):
        raise sniff.refusal(path.name, "cut inside the header of an SQLite database", _AGAIN)
    for ending, log in (("-wal", "write-ahead log"), ("-journal", "rollback journal")):
        beside = path.with_name(path.name + ending)
        if beside.is_file() and beside.stat().st_size:
            what = f"an SQLite database that is not whole without the {log} {beside.name} beside it"
            mend = "wait until the export is done, or open it once with sqlite3, which merges both"
            raise sniff.refusal(path.name, what, mend)
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    whole, size = page * int.from_bytes(head[28:32], "big"), path.stat().st_size
    if size < whole:
        what = f"cut short: {size} bytes of an SQLite database of {whole}"
        raise sniff.refusal(path.name, what, "copy it again, or " + _AGAIN)


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'
