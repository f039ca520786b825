"""The command `specscope compare`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from specscope import exits

_EXAMPLES: Final = """\b
Examples:
  specscope compare before/ after/
  specscope compare before/ after/ --check 'verify.delta<=2%'     exit code 1 when it fails
  specscope compare before/ after/ --markdown summary.md --junit compare.xml
  specscope compare plain/ speculation/        why a verify costs more than a plain step
  specscope compare a.json b.json --json | jq '.rows[] | select(.differs)'

\b
Exit codes: 0 done, whatever differs; 1 a --check failed; 2 wrong usage; 3 an input cannot be
read; 4 the evidence does not support a --check."""

# The value of an option whose FILE was left out: standard output.
_NO_FILE: Final = ""


@click.command(
    "compare",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.argument("a", metavar="A", type=click.Path())
@click.argument("b", metavar="B", type=click.Path())
@click.option(
    "--check",
    "checks",
    metavar="EXPR",
    multiple=True,
    help="Hold a change against a number: 'verify.delta<=2%' (docs/checks.md). Repeatable.",
)
@click.option(
    "--json",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_NO_FILE,
    help="Write the comparison as JSON (docs/compare.md); to stdout without FILE.",
)
@click.option(
    "--markdown",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_NO_FILE,
    help="Write it as Markdown for a pull request; to stdout without FILE.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the checks as JUnit XML, as continuous integration reads it.",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of tables.")
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def compare_command(
    a: str,
    b: str,
    checks: tuple[str, ...],
    json: str | None,
    markdown: str | None,
    junit: Path | None,
    activity_rules: Path | None,
    no_cache: bool,
    quiet: bool,
    debug: bool,
) -> int:
    """Say what changed from run A to run B, and whether it is more than noise.

    A and B are each a trace, or a folder as a server writes it. Stages, activities, idle by
    cause, collectives, kernels and counts are compared; a change is named only when cycles of
    equal runs would hardly show it (docs/compare.md).
    """

    def work() -> int:
        from specscope.compare_command import Request, run

        request = Request(a, b, checks, json, markdown, junit, activity_rules, no_cache, quiet)
        return run(request)

    return exits.guarded(work, debug=debug)
