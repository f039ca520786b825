"""The command `specscope scrub`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits

_EXAMPLES: Final = """\b
Examples:
  specscope scrub traces/ shared/                     every file that specscope reads
  specscope scrub rank0.trace.json.gz out.trace.json.gz
  specscope scrub report.sqlite shared.sqlite         an export of Nsight Systems
  analyze shared/                                     the same figures as of traces/

\b
Exit codes: 0 done; 2 wrong usage, or OUT cannot be written; 3 the input cannot be
read."""


@click.command(
    "scrub",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace OUT where an earlier copy is there.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def scrub_command(debug: bool, **options: Any) -> int:
    """Write a copy of traces that can be shared: without secrets, users, hosts and paths.

    IN is a trace, an export of Nsight Systems, a cycle log, or a folder with such. OUT has the
    same form, and `analyze` gives the same figures for it (docs/scrub.md).
    """

    def work() -> int:
        from specscope.scrub_command import run

        return run(**options)

    return exits.guarded(work, debug=debug)
