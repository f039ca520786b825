"""Takes what is private out of an export that is kept: environment, arguments, output, host.

The export of a report lies in the cache folder for the next time. An export also carries the
environment and the output of the profiled program; nothing here reads them, so nothing keeps them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from . import nsys_names as names

# Tables of which rows are read or counted; all others go.
_KEPT: Final = frozenset({*names.READ, "TARGET_INFO_GPU", "NVTX_PAYLOAD_SCHEMAS"})
_EMPTIED: Final = ("ProcessStreams", "ANALYSIS_FILE", "OSRT_API")
# Settings that are read; all others go: they quote commands, environments, hosts and users.
_SETTINGS: Final = ("%_VERSION", "%TIME_NORMALIZE", "%TIME_SHIFT", "%TIMES_TO_EXPORT", "DERIVED_%")
# Columns that name a string: (table, column).
_STRINGS: Final = (
    *((names.KERNELS, column) for column in names.OF_KERNELS),
    (names.CALLS, "nameId"),
    ("ThreadNames", "nameId"),
    (names.RANGES, "textId"),
    (names.RANGES, "jsonTextId"),
)


def strip(export: Path) -> None:
    """Rewrites an SQLite export without what is private and never read. Raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(export)) as connection:
        connection.execute("PRAGMA journal_mode = off")
        connection.execute("PRAGMA secure_delete = on")
        found = {
            table: {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        }
        for table in found:
            if table in _EMPTIED:
                connection.execute(f'DELETE FROM "{table}"')
            elif table not in _KEPT and not names.EVENT_TABLE.fullmatch(table):
                connection.execute(f'DROP TABLE "{table}"')
        unlike = " AND ".join("name NOT LIKE ?" for _ in _SETTINGS)
        for table in (names.META_CAPTURE, *names.META_EXPORT):
            if table in found:
                connection.execute(f'DELETE FROM "{table}" WHERE {unlike}', _SETTINGS)
        if "StringIds" in found:
            used = [
                f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
                for table, column in _STRINGS
                if column in found.get(table, ())
            ]
            kept = " UNION ".join(used) or "SELECT NULL WHERE 0"
            connection.execute(f"DELETE FROM StringIds WHERE id NOT IN ({kept})")
        connection.commit()
        connection.execute("VACUUM")
