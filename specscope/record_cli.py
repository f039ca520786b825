"""The command `specscope record`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits
from specscope.capture_cli import Seconds

_PATH: Final = click.Path(path_type=Path)
_WEEK: Final = 7 * 86_400

_EXAMPLES: Final = """\b
Examples:
  specscope record -- python bench.py                  all of a command that ends
  specscope record --url http://localhost:30000 --delay 20 --duration 3 -- \\
      python -m sglang.launch_server --model-path ...  3 s, 20 s after it is ready
  specscope record --windows 3 -- vllm serve ...       opened by POST /start_profile
  specscope record --by-signal -- vllm serve ...       opened and closed by hand

\b
Exit codes: that of COMMAND when it failed by itself; else 0 done; 2 it cannot be run
like this; 3 there is no report, or it cannot be read; 127 COMMAND is not found; 130 two
interrupts."""


@click.command(
    "record",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 96,
        "allow_interspersed_args": False,
    },
    epilog=_EXAMPLES,
)
@click.option(
    "--out",
    metavar="DIR",
    type=_PATH,
    help="Folder for the reports and the log.  [default: specscope-record-TIME]",
)
@click.option(
    "--nsys",
    metavar="PATH",
    help="The program nsys, or the folder of its installation.  [default: the one on PATH]",
)
@click.option(
    "--graphs",
    type=click.Choice(["node", "graph"]),
    default="node",
    show_default=True,
    help="Kernels of CUDA graphs one by one, or each launch as one block, which costs less.",
)
@click.option(
    "--delay",
    metavar="SECONDS",
    type=Seconds(0, _WEEK),
    help="Begin to collect so long after the start, or after the server of --url is ready.",
)
@click.option(
    "--duration",
    metavar="SECONDS",
    type=Seconds(0.1, _WEEK),
    help="Collect so long, then end the command.  [default: until it ends, or Ctrl-C]",
)
@click.option(
    "--url",
    metavar="URL",
    help="Begin to collect when the server that COMMAND starts is ready at URL.",
)
@click.option(
    "--windows",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Collect up to N times, while the server's own CUDA profiler window is open.",
)
@click.option(
    "--by-signal",
    is_flag=True,
    help="Collect from one SIGUSR1 to the next, as often as wanted.",
)
@click.option("--no-hooks", is_flag=True, help="Run COMMAND without specscope's hooks.")
@click.option(
    "--ready-timeout",
    metavar="SECONDS",
    type=Seconds(1, _WEEK),
    default=1800,
    show_default=True,
    help="How long the server of --url may take until it is ready.",
)
@click.option(
    "--stop-timeout",
    metavar="SECONDS",
    type=Seconds(1, _WEEK),
    default=600,
    show_default=True,
    help="How long nsys may take to write a report.",
)
@click.option(
    "--export-timeout",
    metavar="SECONDS",
    type=Seconds(1, _WEEK),
    default=1800,
    show_default=True,
    help="How long the export of one report may take.",
)
@click.option("--no-analyze", is_flag=True, help="Only print the folder, in place of the report.")
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence of the verdict, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
def record_command(
    debug: bool,
    quiet: bool,
    no_hooks: bool,
    no_analyze: bool,
    export_timeout: float,
    **options: Any,
) -> int:
    """Run a command under Nsight Systems with the switches that a speculating server needs.

    specscope's hooks are in it, so that the report names the stages. The collection is stopped
    while the command lives, so that no worker loses its rows; then the command is ended, the
    reports are exported by the same nsys, and analysed. Ctrl-C once: stop, and go on to the
    analysis; twice: end at once.
    """
    _refuse_what_excludes_each_other(options)

    def work() -> int:
        from specscope.capture_command import as_path
        from specscope.profiler.record_options import Options
        from specscope.record_command import After, run

        options["out"] = as_path(options["out"])
        done = Options(hooks=not no_hooks, **options)
        return run(done, After(not no_analyze, quiet, export_timeout, debug))

    return exits.guarded(work, debug=debug)


def _refuse_what_excludes_each_other(options: dict[str, Any]) -> None:
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("windows", "by_signal", "url", "delay", "duration")
        if options[name] not in (None, False)
    ]
    for alone in ("--windows", "--by-signal"):
        if alone in given and len(given) > 1:
            other = next(name for name in given if name != alone)
            raise click.UsageError(f"{alone} and {other} exclude each other: give one of them")
