"""The command `specscope dashboard`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from specscope import exits

_EXAMPLES: Final = """\b
Examples:
  specscope dashboard traces/                      the newest capture of a server's folder
  specscope dashboard rank0.trace.json.gz rank1.trace.json.gz
  specscope dashboard before/ after/               two runs, one beside the other

\b
Exit codes: 0 done, also after Ctrl-C; 2 wrong usage; 3 the input cannot be read."""


@click.command(
    "dashboard",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the page on 127.0.0.1.  [default: a free one]",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def dashboard_command(
    paths: tuple[str, ...], port: int, activity_rules: Path | None, no_cache: bool, debug: bool
) -> int:
    """Look at runs in the browser, at any zoom.

    Each folder is a run; files are the ranks of one. The page is on 127.0.0.1 and opens with the
    URL that is printed, from another machine through the ssh tunnel that is printed with it
    (docs/dashboard.md). It asks nothing of the network.
    """

    def work() -> int:
        from specscope.dashboard_command import Request, run

        return run(Request(paths, port, activity_rules, no_cache))

    return exits.guarded(work, debug=debug)
