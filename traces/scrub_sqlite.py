"""A copy of an Nsight Systems database without secrets, written anew.

The source is opened read-only and immutable: nothing is written beside it. The copy has its
tables with their columns, its indices, and no page that held anything else before.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from . import scrub_nsight as nsight
from .errors import UsageError
from .scrub_words import Scrubber
from .sniff import printable, refusal

_MAGIC: Final = b"SQLite format 3\x00"
_MEND: Final = "give an export of Nsight Systems (nsys export --type=sqlite)"
_COMMENT: Final = re.compile(r"--[^\n]*")
_BATCH: Final = 10_000


@dataclass(frozen=True)
class _Table:
    name: str
    sql: str
    columns: tuple[str, ...]

    def quoted(self, schema: str) -> str:
        return f"{schema}.{_q(self.name)}"


def is_sqlite(path: Path) -> bool:
    """Do the first bytes say so?"""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def learn(path: Path, scrubber: Scrubber) -> None:
    """Learn who is in the export. Raises TraceFormatError, in one line."""
    with _reading(path), contextlib.closing(_opened(path)) as database:
        tables = _tables(database, "main", path)
        for table in tables:
            if nsight.is_settings(table.columns):
                rows = database.execute(
                    f'SELECT "name", "value" FROM {table.quoted("main")}'
                ).fetchall()
                nsight.learn_settings(scrubber, [(str(name), found) for name, found in rows])
            if "devStateName" in table.columns:
                for (host,) in database.execute(
                    f'SELECT DISTINCT "devStateName" FROM {table.quoted("main")}'
                ):
                    scrubber.learn_host(str(host))
            if table.name == nsight.STRINGS and "value" in table.columns:
                for (text,) in database.execute(f'SELECT "value" FROM {table.quoted("main")}'):
                    scrubber.learn(text)


def write(path: Path, out: Path, scrubber: Scrubber) -> None:
    """Write the copy to `out`, which must not be there. Raises TraceFormatError, OSError."""
    with contextlib.closing(_opened(path)) as source:
        (encoding,) = source.execute("PRAGMA encoding").fetchone()
        (page,) = source.execute("PRAGMA page_size").fetchone()
    # Made before, so that the text of an error is about its place and not about the database.
    out.touch()
    database = sqlite3.connect(_uri(out, "mode=rwc"), uri=True, isolation_level=None)
    database.text_factory = _text
    with contextlib.closing(database), _reading(path):
        for pragma in (
            f"encoding='{encoding}'",
            f"page_size={int(page)}",
            "journal_mode=OFF",
            "synchronous=OFF",
            "temp_store=MEMORY",
            "trusted_schema=OFF",
        ):
            database.execute(f"PRAGMA {pragma}")
        database.execute("ATTACH ? AS source", (_uri(path, "mode=ro&immutable=1"),))
        database.execute("BEGIN")
        _Copy(database, scrubber, encoding, path).run()
        database.execute("COMMIT")


class _Copy:
    def __init__(
        self, database: sqlite3.Connection, scrubber: Scrubber, encoding: str, path: Path
    ) -> None:
        self._database = database
        self._scrubber = scrubber
        self._encoding = encoding.replace("UTF-16le", "UTF-16-LE").replace("UTF-16be", "UTF-16-BE")
        self._path = path

    def run(self) -> None:
        """Every table, the strings last: by then it is known which are referred to."""
        self._database.execute("CREATE TEMP TABLE used (id INTEGER PRIMARY KEY, level INTEGER)")
        tables = _tables(self._database, "source", self._path)
        for table in tables:
            self._database.execute(self._schema(table.sql))
        for table in tables:
            if table.name == nsight.STRINGS:
                continue
            if table.name in nsight.EMPTIED:
                self._count_rows("rows left out", table)
            elif nsight.is_settings(table.columns):
                self._settings(table)
            else:
                self._plain(table)
        for table in tables:
            if table.name == nsight.STRINGS:
                self._strings(table)
        for (sql,) in self._database.execute(
            "SELECT sql FROM source.sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall():
            self._database.execute(self._schema(sql))

    def _schema(self, sql: str) -> str:
        """The statement; without its comments where there is something in them to mask."""
        return sql if self._scrubber.range_name(sql) == sql else _COMMENT.sub("", sql)

    def _count_rows(self, kind: str, table: _Table) -> None:
        (count,) = self._database.execute(
            f"SELECT count(*) FROM {table.quoted('source')}"
        ).fetchone()
        if count:
            self._scrubber.counts[kind] += count

    def _plain(self, table: _Table) -> None:
        """All rows, with their texts and bytes masked by functions of SQL."""
        names = [_q(column) for column in table.columns]
        wanted = []
        for place, (column, name) in enumerate(zip(table.columns, names, strict=True)):
            if not self._holds_text(table, name):
                wanted.append(name)
                continue
            function = f"masked_{place}"
            self._database.create_function(function, 2, self._function(table.name, column))
            wanted.append(
                f"CASE WHEN typeof({name}) IN ('text', 'blob') "
                f"THEN {function}(typeof({name}), CAST({name} AS BLOB)) ELSE {name} END"
            )
        self._database.execute(
            f"INSERT INTO {table.quoted('main')} ({', '.join(names)}) "
            f"SELECT {', '.join(wanted)} FROM {table.quoted('source')}"
        )
        self._use(table)

    def _holds_text(self, table: _Table, name: str) -> bool:
        found = self._database.execute(
            f"SELECT 1 FROM {table.quoted('source')} WHERE typeof({name}) IN ('text', 'blob') "
            "LIMIT 1"
        ).fetchone()
        return found is not None

    def _function(self, table: str, column: str) -> Callable[[str, bytes | None], Any]:
        def masked(kind: str, found: bytes | None) -> Any:
            raw = found or b""
            if kind == "blob":
                return nsight.value(self._scrubber, table, column, raw)
            text = raw.decode(self._encoding, "replace")
            return _storable(nsight.value(self._scrubber, table, column, text))

        return masked

    def _use(self, table: _Table) -> None:
        """Note which strings its rows refer to, and as what."""
        for column in nsight.references(table.name, table.columns, table.sql):
            level = nsight.ORDER.index(nsight.level_of(table.name, column))
            self._database.execute(
                f"INSERT INTO used SELECT DISTINCT {_q(column)}, {level} "
                f"FROM {table.quoted('source')} WHERE typeof({_q(column)}) = 'integer' "
                "ON CONFLICT (id) DO UPDATE SET level = max(level, excluded.level)"
            )

    def _settings(self, table: _Table) -> None:
        """Names and values, row by row: the name says what the value is."""
        names = ", ".join(map(_q, table.columns))
        rows = self._database.execute(f"SELECT {names} FROM {table.quoted('source')}").fetchall()
        name_at, value_at = table.columns.index("name"), table.columns.index("value")
        values = nsight.settings(
            self._scrubber, table.name, [(str(row[name_at]), row[value_at]) for row in rows]
        )
        marks = ", ".join("?" * len(table.columns))
        kept = []
        for row, value in zip(rows, values, strict=True):
            if value is None:
                continue
            out = [
                self._cell(table, column, found, value)
                for column, found in zip(table.columns, row, strict=True)
            ]
            kept.append([_storable(one) for one in out])
        self._database.executemany(
            f"INSERT INTO {table.quoted('main')} ({names}) VALUES ({marks})", kept
        )

    def _cell(self, table: _Table, column: str, found: Any, value: str) -> Any:
        if column == "name":
            return self._scrubber.range_name(str(found))
        if column == "value":
            return None if found is None else value
        return nsight.value(self._scrubber, table.name, column, found)

    def _strings(self, table: _Table) -> None:
        """Only the strings that a row refers to, masked as what they are used for."""

        def masked(level: int, found: Any) -> Any:
            raw = found or b""
            text = raw.decode(self._encoding, "replace")
            return _storable(nsight.at_level(self._scrubber, nsight.ORDER[level], text))

        self._database.create_function("masked_string", 2, masked)
        self._database.execute(
            f'INSERT INTO {table.quoted("main")} ("id", "value") '
            'SELECT s."id", masked_string(used.level, CAST(s."value" AS BLOB)) '
            f'FROM {table.quoted("source")} AS s JOIN used ON used.id = s."id" ORDER BY s."id"'
        )
        (left,) = self._database.execute(
            f"SELECT (SELECT count(*) FROM {table.quoted('source')}) "
            f"- (SELECT count(*) FROM {table.quoted('main')})"
        ).fetchone()
        if left:
            self._scrubber.counts["strings left out"] += left


def _tables(database: sqlite3.Connection, schema: str, path: Path) -> list[_Table]:
    """The tables of an export; refuses a database that is none."""
    found = []
    for name, sql in database.execute(
        f"SELECT name, sql FROM {schema}.sqlite_master WHERE type = 'table' "
        "AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY rowid"
    ).fetchall():
        if not isinstance(sql, str) or not re.match(r"(?i)CREATE TABLE\b", sql):
            continue  # a virtual table: its content is elsewhere
        columns = [
            row[1] for row in database.execute(f"PRAGMA {schema}.table_info({_q(name)})").fetchall()
        ]
        found.append(_Table(name, sql, tuple(columns)))
    if not nsight.MARKS.intersection(table.name for table in found):
        raise refusal(path.name, "an SQLite database that is no export of Nsight Systems", _MEND)
    return found


def _opened(path: Path) -> sqlite3.Connection:
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        raise UsageError(
            f"{printable(path.name, 120)} has a {printable(wal.name, 120)} beside it: its last "
            "rows are only there; let its writer finish, or run `sqlite3 FILE 'PRAGMA "
            "wal_checkpoint(TRUNCATE)'`"
        )
    database = sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True)
    database.text_factory = _text
    return database


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What SQLite says of a damaged file, or of a full disk, in one line."""
    try:
        yield
    except (sqlite3.Error, ValueError, OverflowError) as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            raise UsageError(f"cannot write the copy: {text}; make room and try again") from error
        raise refusal(
            path.name,
            f"an SQLite database that cannot be read ({printable(text, 120)})",
            "export it again",
        ) from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _storable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(os.fsencode(path.resolve()))}?{options}"


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
