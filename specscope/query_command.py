"""What `specscope query` does: read, analyse, ask, print or write the rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from specscope import exits
from specscope.analyzers import activities
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.report import Report
from specscope.dashboards import rows_table
from specscope.dashboards.progress import reading
from specscope.dashboards.rows_out import write_csv, write_json
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sql import Limits, ask
from specscope.dashboards.terminal import console_for
from specscope.dashboards.units import size_text
from specscope.dashboards.writing import prove_file, replace_file
from specscope.traces.errors import UsageError
from specscope.traces.load import load

_MARK: Final = b"specscope_query"


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    arguments: tuple[str, ...]
    tables: bool = False
    form: str | None = None
    parquet: Path | None = None
    rows: int = 100
    timeout: float = 60.0
    memory: int = 4 << 30
    rank: int | None = None
    capture_traces: tuple[str, ...] = ()
    activity_rules: Path | None = None
    frames: bool = False
    no_cache: bool = False
    quiet: bool = False

    def talk(self, text: str) -> None:
        """Say something on stderr, unless asked to be quiet."""
        if not self.quiet:
            exits.say(text)


def run(request: Request) -> int:
    """Do it; the exit code."""
    if request.tables:
        report = _report(request, request.arguments) if request.arguments else None
        _write(request, rows_table.columns(report), shown=None)
        return exits.DONE
    paths, sql = _paths_and_sql(request.arguments)
    if request.parquet is not None:
        _prove(request.parquet)
    limits = Limits(request.timeout, request.memory)
    ask({}, "SELECT 1", limits)  # no duckdb: before minutes of reading
    report = _report(request, paths)
    answer = ask(report.tables, sql, limits)
    _write(request, answer.table, shown=request.rows)
    return exits.DONE


def _paths_and_sql(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The last argument is the query; a path in its place was not meant so."""
    *paths, sql = arguments or ("",)
    if not sql.strip() or " " not in sql.strip() or Path(sql).exists():
        raise UsageError(
            "no query given; put it last, in quotes: specscope query traces/ 'SELECT * FROM cycles'"
        )
    if not paths:
        raise UsageError("no trace given; specscope query PATH... 'SELECT ...'")
    return tuple(paths), sql


def _report(request: Request, paths: tuple[str, ...]) -> Report:
    rules = activities.load_rules(request.activity_rules)
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        found = load(
            list(paths),
            rank=request.rank,
            all_frames=request.frames,
            cache=not request.no_cache,
            on_progress=on_progress,
        )
    if not request.capture_traces:
        return analyze(found, Options(rules=rules))
    from specscope.traces.graph_capture import load_capture_traces

    captures = load_capture_traces(request.capture_traces)
    return analyze(found, Options(rules=rules, captures=captures))


def _write(request: Request, table: pa.Table, *, shown: int | None) -> None:
    if request.parquet is not None:
        _write_parquet(request, request.parquet, table)
    if request.form == "csv":
        write_csv(table, sys.stdout)
    elif request.form == "json":
        write_json(table, sys.stdout)
    elif request.parquet is None:
        rows_table.print_rows(table, console_for(sys.stdout), shown)
        if not table.num_rows:
            request.talk("no rows")
        elif shown is not None and shown < table.num_rows:
            request.talk(
                f"{shown:,} of {table.num_rows:,} rows; --rows N shows more, --csv, --json and "
                "--parquet write all"
            )


def _write_parquet(request: Request, path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    marked = table.replace_schema_metadata({_MARK: "1"})
    replace_file(path, partial(pq.write_table, marked, compression="zstd"))
    size = size_text(path.stat().st_size) if path.is_file() else "a device"
    request.talk(f"wrote {clean(path, 200)} ({table.num_rows:,} rows, {size})")


def _prove(path: Path) -> None:
    """Before minutes of reading: it can be written, and nothing but an older answer is lost."""
    import pyarrow.parquet as pq

    prove_file(path)
    if not path.is_file() or path.stat().st_size == 0:
        return
    try:
        own = _MARK in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        own = False
    if not own:
        raise UsageError(
            f"{clean(path, 200)} is there and is no answer of specscope query, so it is not "
            "overwritten; give --parquet another file"
        )
