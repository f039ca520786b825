"""The command `specscope export`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits
from specscope.option_types import Cycles

_EXAMPLES: Final = """\b
Examples:
  specscope export traces/ --perfetto run.pftrace
  specscope export traces/ --perfetto run.pftrace.gz
  specscope export traces/ --perfetto slow.pftrace --cycles 40..42

Open the file in the Perfetto UI (ui.perfetto.dev, or a copy of it that works offline).

\b
Exit codes: 0 done; 2 wrong usage, or FILE cannot be written; 3 the input cannot be read."""


@click.command(
    "export",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--perfetto",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The trace to write; packed where its name ends in .gz.",
)
@click.option(
    "--cycles",
    metavar="N[..M]",
    type=Cycles(),
    help="Only what reaches into these cycles: a small file that any viewer opens.",
)
@click.option("--rank", metavar="R", type=click.IntRange(min=0), help="Read that rank only.")
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option(
    "--no-frames", is_flag=True, help="Leave out Python frames, but for those that are stages."
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def export_command(debug: bool, **options: Any) -> int:
    """Write a run for a viewer of timelines.

    PATH is what `analyze` takes. Cycles, stages, idle by cause, wait and transfer of collectives
    stand as tracks beside what was recorded, all ranks on one clock (docs/export.md).
    """

    def work() -> int:
        from specscope.export_command import Request, run

        return run(Request(**options))

    return exits.guarded(work, debug=debug)
