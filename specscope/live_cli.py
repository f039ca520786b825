"""The command `specscope live`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from specscope import exits

_EXAMPLES: Final = """\b
Examples:
  specscope run --log /tmp/log -- vllm serve ...       the server, with its log
  specscope live --log /tmp/log                        a page on 127.0.0.1 that follows it
  specscope live --log /tmp/log --tui                  the same in the terminal
  specscope live --log /tmp/log --once                 as it stands now, printed once
  specscope live --log /tmp/log --tui | tee live.txt   in a pipe: a line for each change

\b
Exit codes: 0 done, also after Ctrl-C; 2 wrong usage."""


@click.command(
    "live",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.option(
    "--log",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the log: that of `specscope run --log DIR`.",
)
@click.option("--tui", is_flag=True, help="Show it in the terminal.")
@click.option("--once", is_flag=True, help="Print what there is now, and end.")
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    help="How much of the log is shown: the last N minutes.",
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the page on 127.0.0.1.  [default: a free one]",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def live_command(log: Path, tui: bool, once: bool, minutes: float, port: int, debug: bool) -> int:
    """Follow the cycle log of a running server.

    Stage shares, cycle, accept length, batch and what the hooks cost, over the last minutes of
    the newest server in the folder, all ranks (docs/live.md). Nothing is written; the server
    does not notice.
    """

    def work() -> int:
        from specscope.live_command import Request, run

        return run(Request(log, tui, once, minutes, port))

    return exits.guarded(work, debug=debug)
