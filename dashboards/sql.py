"""SQL over the tables of a report: one question, answered by DuckDB in memory.

A question can read the tables and nothing else: no file, no extension, no setting, no variable
of this program. It ends at a limit of time, memory and rows.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from specscope.dashboards.sql_errors import one_line
from specscope.traces.errors import UsageError

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS: Final = 16_384
_WORD: Final = re.compile(r"\w+")
# A question with one of these, or with no table at all, may look at any of them.
_CATALOGUE: Final = re.compile(r"show|query|information_schema|duckdb_|pg_|sqlite_|pragma_", re.I)
_LOCKED: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # no spilling: the limit of memory is one
}


@dataclass(frozen=True)
class Limits:
    """When a question is given up."""

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    rows: int | None = None  # further rows are left out
    threads: int = 2


@dataclass(frozen=True)
class Answer:
    """The rows, column names distinct; `cut`: there were more than `Limits.rows`."""

    table: pa.Table
    cut: bool = False


def ask(tables: Mapping[str, pa.Table], sql: str, limits: Limits | None = None) -> Answer:
    """The answer to one SELECT over `tables` (as `report.tables`; made only where named).

    Raises UsageError, in one line: no duckdb, no single SELECT, what DuckDB says of it, a limit.
    """
    limits = limits or Limits()
    with _connection(limits) as connection:
        import duckdb

        try:
            _only_reads(connection, sql)
            for name in _named(tables, sql):
                connection.register(name, tables[name])
            connection.execute("SET lock_configuration=true")
            return _rows(connection, sql, limits)
        except duckdb.InterruptException as error:
            raise UsageError(
                f"the query took longer than {limits.seconds:g} s; narrow it, or raise --timeout"
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise UsageError(
                f"the query needs more than {limits.memory_bytes:,} bytes of memory; narrow it, or "
                "raise --memory"
            ) from error
        except (duckdb.Error, pa.ArrowException, UnicodeError) as error:
            raise UsageError(one_line(str(error), sql, tables)) from error


@contextmanager
def _connection(limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(
            "SQL needs the package duckdb; pip install 'specscope[dashboard]'"
        ) from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        **_LOCKED,
        "memory_limit": f"{max(limits.memory_bytes >> 20, 1)}MiB",
        "threads": str(limits.threads),
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    finally:
        connection.close()


def _only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """One statement, and one that only reads. DuckDB's own parser says so."""
    statements = connection.extract_statements(sql)
    kinds = [statement.type.name for statement in statements]
    if len(kinds) != 1:
        count = "no statement" if not kinds else f"{len(kinds)} statements"
        raise UsageError(f"{count} in place of one SELECT; give one (docs/query.md)")
    if kinds[0] != "SELECT":
        raise UsageError(
            f"{kinds[0]} is not a SELECT; tables are only read, --csv, --json and --parquet write "
            "the answer"
        )


def _named(tables: Mapping[str, pa.Table], sql: str) -> list[str]:
    """The tables that the question may mean: some are dear to make."""
    words = {word.lower() for word in _WORD.findall(sql)}
    named = [name for name in tables if name in words]
    return list(tables) if not named or _CATALOGUE.search(sql) else named


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, limits: Limits) -> Answer:
    late = threading.Event()

    def give_up() -> None:
        late.set()
        connection.interrupt()

    timer = threading.Timer(limits.seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        relation = connection.sql(sql)
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        reader = read(_BATCH_ROWS)
        batches, count = [], 0
        for batch in reader:
            batches.append(batch)
            count += batch.num_rows
            if late.is_set():
                connection.interrupt()  # it may have come between two statements
            if limits.rows is not None and count > limits.rows:
                break
    finally:
        timer.cancel()
    table = _whole(_distinct(pa.Table.from_batches(batches, reader.schema)))
    cut = limits.rows is not None and count > limits.rows
    return Answer(table.slice(0, limits.rows) if cut else table, cut)


def _distinct(table: pa.Table) -> pa.Table:
    """Column names once each: `a`, `a_1`."""
    names: list[str] = []
    for name in table.column_names:
        new, number = name, 0
        while new in names:
            number += 1
            new = f"{name}_{number}"
        names.append(new)
    return table.rename_columns(names)


def _whole(table: pa.Table) -> pa.Table:
    """Sums of integers are 128 bits wide in DuckDB: int64 again where they fit."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                column = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, column)
    return table
