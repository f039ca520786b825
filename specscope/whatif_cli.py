"""The command `specscope whatif`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits
from specscope.measured_options import measured_options
from specscope.option_types import Positive, Steps

_EXAMPLES: Final = """\b
Examples:
  specscope whatif traces/                          what would help most
  specscope whatif traces/ --draft-tp 1             the draft on one GPU
  specscope whatif traces/ --cycle-ms 29.6 --allreduce-speedup 2
  specscope whatif traces/ --steps 1..8             every number of draft steps
  specscope whatif traces/ --steps 5 --no-gaps --json | jq .asked
  specscope whatif slow/ --transfers-from fast/     this run over the other's link

\b
--accept-length and --batch are levers; beside --tokens-per-second they are what was measured.

\b
Exit codes: 0 done; 2 wrong usage; 3 the input cannot be read; 4 a lever, or the whole run,
cannot be answered: the line says what to record or to give."""


@click.command(
    "whatif",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--draft-tp",
    metavar="1",
    type=click.IntRange(1, 1),
    help="The draft on one GPU: no collectives in it, its compute once to n times.",
)
@click.option(
    "--steps",
    metavar="N|A..B",
    type=Steps(),
    default=(),
    help="Draft steps, as a chain: a number or a range in 1..8.",
)
@click.option(
    "--allreduce-speedup", metavar="X", type=Positive(), help="Every all-reduce X times as fast."
)
@click.option("--verify-speedup", metavar="X", type=Positive(), help="Verify X times as fast.")
@click.option(
    "--draft-tokens",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Tokens that a verify reads for each sequence.",
)
@click.option("--draft-graph", is_flag=True, help="The draft as one graph launch.")
@click.option("--no-gaps", is_flag=True, help="No host work and no launch gaps.")
@click.option(
    "--transfers-from",
    metavar="PATH",
    type=click.Path(),
    help="The transfer times of another recording of this server over another link.",
)
@measured_options
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON (docs/whatif.md).")
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def whatif_command(debug: bool, **options: Any) -> int:
    """Say what a change would do to the cycle, before anybody makes it.

    PATH is a trace for each rank, or a folder as a server writes it. The cycle's dependencies
    (host threads, launches, streams, collectives over ranks) are replayed with other lengths,
    on the cycle as it is without a profiler where that is known (docs/whatif.md).
    """

    def work() -> int:
        from specscope.whatif_command import Request, run

        return run(Request(**options))

    return exits.guarded(work, debug=debug)
