"""The command `specscope ranks`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from specscope import exits
from specscope.engine_options import engine_options

_EXAMPLES: Final = """\b
Examples:
  specscope ranks traces/               the newest capture of a server's folder
  specscope ranks rank0.trace.json.gz rank1.trace.json.gz
  specscope ranks traces/ --model-config model/config.json
  specscope ranks traces/ --json | jq .clocks
  specscope ranks traces/ --parquet tables/

\b
Exit codes: 0 done; 2 wrong usage; 3 the input cannot be read; 4 the traces do not allow it: one
rank, ranks that do not correspond, or no collectives."""


@click.command(
    "ranks",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Write the key `group` of the report.")
@click.option(
    "--parquet",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the tables, those of all ranks together among them, into DIR.",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option(
    "--model-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The target's config.json: gives the sizes of all-reduces that no trace records.",
)
@click.option(
    "--draft-model-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The draft's, where its hidden size or element type differs from the target's.",
)
@engine_options
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def ranks_command(
    paths: tuple[str, ...],
    as_json: bool,
    parquet: Path | None,
    activity_rules: Path | None,
    model_config: Path | None,
    draft_model_config: Path | None,
    engine: str,
    ray_address: str | None,
    no_cache: bool,
    quiet: bool,
    debug: bool,
) -> int:
    """Say whether the wire is slow or a rank is late.

    PATH is a trace for each rank, or a folder as a server writes it. The ranks are brought onto
    one clock by the ends of their smallest collectives; each collective is split into waiting
    for the last rank and transferring (docs/ranks.md).
    """

    def work() -> int:
        from specscope.ranks_command import Request, run

        request = Request(
            paths,
            as_json,
            parquet,
            activity_rules,
            no_cache,
            quiet,
            model_config,
            draft_model_config,
            engine,
            ray_address,
        )
        return run(request)

    return exits.guarded(work, debug=debug)
