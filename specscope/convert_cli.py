"""The command `specscope convert`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits

_EXAMPLES: Final = """\b
Examples:
  specscope convert traces/ tables.parquet           a folder: ops.parquet, ...
  specscope convert rank0.json.gz rank1.json.gz tables.arrow
  specscope convert traces/ ops.parquet --tables ops            that one file
  zcat trace.json.gz | specscope convert - tables.parquet

\b
Exit codes: 0 done; 2 wrong usage, or OUT cannot be written; 3 the input cannot be
read."""


@click.command(
    "convert",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="IN...", type=click.Path())
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--rank", metavar="R", type=click.IntRange(min=0), help="That rank only.")
@click.option(
    "--tables",
    metavar="NAME,...",
    default="",
    help="Only these tables (docs/tables.md); with one of them OUT is that file.",
)
@click.option("--frames", is_flag=True, help="Keep all Python frames of the trace.")
@click.option("--force", is_flag=True, help="Replace OUT also where it holds something else.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def convert_command(debug: bool, **options: Any) -> int:
    """Write what `analyze` reads as tables, for other tools.

    IN is what `analyze` takes: a trace for each rank, a folder, or `-`. OUT ends in .parquet or
    .arrow and becomes a folder with one such file a table, all ranks in it (docs/convert.md).
    """

    def work() -> int:
        from specscope.convert_command import Request, run

        return run(Request(**options))

    return exits.guarded(work, debug=debug)
