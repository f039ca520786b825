"""What DuckDB says of a query that it cannot run, in one line with the name that was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from specscope.traces import schema

_COLUMN: Final = re.compile(r'\bcolumn (?:named )?"([^"]+)"', re.I)
_TABLE: Final = re.compile(r"Table with name (.+?) does not exist")
_WORD: Final = re.compile(r"\w+")
_KIND: Final = re.compile(r"^[\w ]+ Error: ")
_ADVICE: Final = "specscope query --tables lists them"
_WHEN: Final = {
    **dict.fromkeys(schema.GRAPHS, "it takes --capture-trace (docs/graphs.md)"),
    **dict.fromkeys(schema.GROUP, "it takes several ranks whose collectives match (docs/ranks.md)"),
    "cycle_log": "it takes a cycle log (docs/cycle_log.md)",
}


def one_line(message: str, sql: str, tables: Mapping[str, pa.Table]) -> str:
    """DuckDB's first line; for a name that is not there, the nearest that is."""
    first = _KIND.sub("", message.strip().split("\n", 1)[0]).strip()
    if found := _TABLE.search(first):
        return _no_table(found[1], tables)
    if found := _COLUMN.search(first):
        return _no_column(found[1], sql, set(tables))
    if "file system operations are disabled" in first:
        return "a query reads the tables and no files; " + _ADVICE
    return f"SQL: {first}"


def _no_table(name: str, tables: Iterable[str]) -> str:
    known = list(tables)
    absent = name.lower()
    if absent in schema.documented():
        return f"this run has no table {absent}: {_WHEN.get(absent, _ADVICE)}"
    near = difflib.get_close_matches(absent, known, 1, 0.5)
    if near:
        return f"no table {name}; the nearest is {near[0]}; {_ADVICE}"
    return f"no table {name}; there is: {', '.join(known)}"


def _no_column(name: str, sql: str, tables: set[str]) -> str:
    """The nearest column of the tables that the query names, with its table."""
    words = {word.lower() for word in _WORD.findall(sql)}
    named = {
        table: columns.names
        for table, columns in schema.documented().items()
        if table in words and table in tables
    }
    known = sorted({column for columns in named.values() for column in columns})
    near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
    if near:
        of = ", ".join(table for table, columns in named.items() if near[0] in columns)
        return f"no column {name}; the nearest is {near[0]} of {of}; {_ADVICE}"
    if known:
        return f"no column {name} in {', '.join(named)}; there is: {', '.join(known)}"
    return f"no column {name}; the query names no table; {_ADVICE}"
