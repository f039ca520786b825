"""The command `specscope collect`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits
from specscope.engine_options import engine_options

_PATH: Final = click.Path(path_type=Path)
_EXAMPLES: Final = """\b
Examples:
  specscope collect runs/* --dataset findings
  specscope collect runs/* --dataset findings --engine ray --ray-address local
  specscope collect runs/* --dataset /mnt/findings --engine ray --ray-address head:6379
  duckdb -c "SELECT model, median(share) FROM 'findings/runs/**/*.parquet' GROUP BY 1"

\b
Exit codes: 0 done, also where a verdict was withheld; 2 wrong usage, or the dataset
cannot be written; 3 a run cannot be read (it is a row, with the reason)."""


@click.command(
    "collect",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path())
@click.option(
    "--dataset",
    metavar="DIR",
    type=_PATH,
    required=True,
    help="Folder of the dataset (docs/dataset.md); runs that it has are replaced.",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=_PATH,
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@engine_options
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Only the last line, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def collect_command(debug: bool, **options: Any) -> int:
    """Analyse many runs; put their findings into one dataset.

    Each RUN is what `analyze` takes for one run: a folder (the newest capture in it), or a file.
    Each becomes a row, refused ones too, with the reason; a run that comes again replaces its
    rows.
    """

    def work() -> int:
        from specscope.collect_command import Request, run

        return run(Request(**options))

    return exits.guarded(work, debug=debug)
