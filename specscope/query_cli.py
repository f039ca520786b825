"""The command `specscope query`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits
from specscope.option_types import Positive, Size

_EXAMPLES: Final = """\b
Examples:
  specscope query --tables              tables, columns and what they mean
  specscope query traces/ 'SELECT stage, sum(ns) / 1e6 AS ms FROM parts GROUP BY stage'
  specscope query traces/ 'SELECT * FROM cycles' --csv > cycles.csv
  specscope query traces/ 'SELECT * FROM segments WHERE cycle = 4' --parquet cycle4.parquet

\b
Exit codes: 0 done; 2 wrong usage, or a query that cannot be run; 3 the input cannot be read."""


@click.command(
    "query",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("arguments", nargs=-1, metavar="PATH... SELECT", type=click.Path())
@click.option(
    "--tables", is_flag=True, help="List tables and columns; with PATH those of that run."
)
@click.option("--csv", "form", flag_value="csv", help="Write the rows as CSV.")
@click.option("--json", "form", flag_value="json", help="Write the rows as a JSON array.")
@click.option(
    "--parquet",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the rows, types kept, into FILE.",
)
@click.option(
    "--rows",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Rows that are shown; --csv, --json and --parquet write all.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Positive(),
    default=60,
    show_default=True,
    help="How long the query may take, reading not counted.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    type=Size(16 << 20),
    default="4G",
    show_default=True,
    help="Memory that the query may use.",
)
@click.option("--rank", metavar="R", type=click.IntRange(min=0), help="Read that rank only.")
@click.option(
    "--capture-trace",
    "capture_traces",
    metavar="PATH",
    type=click.Path(),
    multiple=True,
    help="Graph-capture trace: adds graph_nodes and captured_graphs (docs/graphs.md). Repeatable.",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option("--frames", is_flag=True, help="Keep all Python frames of the trace.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but the rows and errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def query_command(debug: bool, **options: Any) -> int:
    """Ask the tables of a run by SQL.

    PATH is what `analyze` takes; SELECT is one statement in DuckDB's SQL over the tables of
    docs/tables.md. It can read them and nothing else. Needs specscope[dashboard].
    """

    def work() -> int:
        from specscope.query_command import Request, run

        return run(Request(**options))

    return exits.guarded(work, debug=debug)
