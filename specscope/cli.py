"""The commands: options and help only. What they do is imported when they are called."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from specscope import __version__, exits
from specscope.capture_cli import capture_command
from specscope.collect_cli import collect_command
from specscope.compare_cli import compare_command
from specscope.convert_cli import convert_command
from specscope.dashboard_cli import dashboard_command
from specscope.engine_options import engine_options
from specscope.export_cli import export_command
from specscope.live_cli import live_command
from specscope.measured_options import measured_options
from specscope.option_types import Expanded, Positive, Size
from specscope.query_cli import query_command
from specscope.ranks_cli import ranks_command
from specscope.record_cli import record_command
from specscope.scrub_cli import scrub_command
from specscope.sweep_cli import sweep_command
from specscope.whatif_cli import whatif_command

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 96}
# The value of an option whose FILE was left out: standard output.
NO_FILE: Final = ""

_EXAMPLES: Final = """\b
Examples:
  analyze traces/                       the newest capture of a server's folder
  analyze rank0.trace.json.gz rank1.trace.json.gz
  analyze traces/ --cycle-ms 29.6       the cycle as measured without a profiler
  analyze traces/ --tokens-per-second 71 --accept-length 2.1 --batch 1
  analyze traces/ --server-log serve.log --baseline plain-traces/
  analyze traces/ --check 'verify.share>=0.95'    exit code 1 when it fails
  analyze traces/ --json report.json --html report.html --parquet tables/
  analyze traces/ --cycle 4 --rank 1    every op of one cycle, in order
  analyze traces/ --capture-trace traces/graph_capture_profile
  analyze report.nsys-rep --nsys /opt/nsight-systems/bin/nsys
  zcat trace.json.gz | analyze - --json | jq .verdict

\b
Exit codes: 0 done; 1 a --check failed; 2 wrong usage; 3 the input cannot be
read; 4 the evidence does not support what was demanded."""


_PATH: Final = Expanded(path_type=Path)


@click.command("analyze", context_settings=_CONTEXT, epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@click.option(
    "--json",
    metavar="[FILE]",
    is_flag=False,
    flag_value=NO_FILE,
    help="Write the report as JSON (docs/report.md); to stdout without FILE.",
)
@click.option(
    "--markdown",
    metavar="[FILE]",
    is_flag=False,
    flag_value=NO_FILE,
    help="Write the report as Markdown for an issue tracker.",
)
@click.option("--html", metavar="FILE", type=_PATH, help="Write a page that opens offline.")
@click.option(
    "--no-whatif",
    is_flag=True,
    help="Leave out of that page what a change would do, which takes a replay of the run.",
)
@click.option(
    "--with-environment",
    is_flag=True,
    help="Leave paths, hosts, users and server arguments on that page; they are masked else.",
)
@click.option(
    "--parquet", metavar="DIR", type=_PATH, help="Write one Parquet file a table into DIR."
)
@click.option(
    "--check",
    "checks",
    metavar="EXPR",
    multiple=True,
    help="Hold a figure against a number: 'verify.share>=0.95' (docs/checks.md). Repeatable.",
)
@measured_options
@click.option("--rank", metavar="R", type=click.IntRange(min=0), help="Read that rank only.")
@click.option(
    "--cycle",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show the ops of cycle N in order, with the idle between them and its cause.",
)
@click.option(
    "--capture-trace",
    "capture_traces",
    metavar="PATH",
    type=click.Path(),
    multiple=True,
    help="Graph-capture trace, or a folder with them: show the inside of graphs by layer and "
    "module (docs/graphs.md). Repeatable.",
)
@click.option(
    "--activity-rules",
    metavar="FILE",
    type=_PATH,
    help="Kernel-name rules that go before the bundled ones (docs/activities.md).",
)
@click.option("--frames", is_flag=True, help="Keep all Python frames of the trace.")
@click.option(
    "--max-text",
    metavar="SIZE",
    type=Size(),
    help="Refuse traces with more text than this, unpacked (8M, 4G).  [default: 64G]",
)
@click.option(
    "--nsys",
    metavar="PATH",
    help="The program nsys, which exports reports of Nsight Systems (*.nsys-rep), or the folder "
    "of its installation.  [default: the one on PATH]",
)
@click.option(
    "--export-timeout",
    metavar="SECONDS",
    type=Positive(),
    default=1800,
    show_default=True,
    help="How long the export of one report may take.",
)
@engine_options
@click.option(
    "--no-cache", is_flag=True, help="Neither read nor write the cache of tables and exports."
)
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence of the verdict, and no talk.")
@click.option("--debug", is_flag=True, help="Say which reader is in use, timings, tracebacks.")
@click.version_option(__version__, message="specscope %(version)s")
def analyze_command(debug: bool, **options: Any) -> int:
    """Say where the speculation cycle goes.

    PATH is a trace (Kineto JSON, also .gz) for each rank, a folder as a server writes it, or
    `-` for standard input. The report goes to stdout, everything else to stderr.
    """

    def work() -> int:
        from specscope.analyze_command import Request, run

        return run(Request(debug=debug, **options))

    return exits.guarded(work, debug=debug)


_RUN_EXAMPLES: Final = """\b
Examples:
  specscope run --log /tmp/log -- python -m sglang.launch_server --model-path ...
  specscope run -- numactl --cpunodebind=0 vllm serve ...
  specscope run --log /tmp/log -- torchrun --nproc-per-node 4 serve.py
  specscope run --metrics 9400 -- vllm serve ...     rank R on 127.0.0.1:9400+R

\b
The exit code is that of the command; 126 and 127 when it cannot be started."""


@click.command(
    "run",
    context_settings={**_CONTEXT, "allow_interspersed_args": False},
    epilog=_RUN_EXAMPLES,
)
@click.option(
    "--log",
    metavar="DIR",
    type=_PATH,
    help="Folder for what the hooks write; `specscope doctor DIR` shows what was attached.",
)
@click.option(
    "--log-limit",
    metavar="SIZE",
    type=Size(1 << 20, 1 << 50),
    help="Bound of the log on disk, for each process (1M at least).  [default: 1G]",
)
@click.option(
    "--metrics",
    metavar="PORT",
    type=click.IntRange(1, 65_535),
    help="Metrics for Prometheus on 127.0.0.1, port PORT + rank (docs/metrics.md).",
)
@click.option(
    "--events-every",
    metavar="N",
    type=click.IntRange(0, 1 << 31),
    help="CUDA events in every N-th cycle, 0: never.  [default: 10]",
)
@click.option(
    "--nvtx",
    type=click.Choice(["auto", "package", "torch", "off"]),
    help="Who emits NVTX ranges.  [default: auto]",
)
@click.option(
    "--torch/--no-torch",
    default=None,
    help="Annotations while a torch profiler is on.  [default: torch]",
)
@click.option("--collectives", is_flag=True, help="Ranges around collectives, too.")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
def run_command(
    log: Path | None,
    log_limit: int | None,
    metrics: int | None,
    events_every: int | None,
    nvtx: str | None,
    torch: bool | None,
    collectives: bool,
    command: tuple[str, ...],
) -> int:
    """Run a server with specscope's hooks in every Python process of it.

    This process becomes COMMAND: signals reach it, and its exit code is the one you get. Take
    the hooks off by starting without `specscope run`, or with SPECSCOPE_DISABLE=1.
    """
    from specscope.profiler import launch, settings

    chosen = {
        settings.METRICS: metrics,
        settings.EVENTS_EVERY: events_every,
        settings.NVTX: nvtx,
        settings.TORCH: None if torch is None else int(torch),
        settings.LOG_LIMIT: log_limit,
    }
    try:
        environ = launch.environment(os.environ, log=log, collectives=collectives, chosen=chosen)
    except OSError as error:  # the working directory is gone
        exits.say(f"--log {log}: {error.strerror or error}; give the whole path of the folder")
        return exits.WRONG_USAGE
    try:
        launch.become(command, environ)
    except FileNotFoundError:
        exits.say(f"{command[0]}: command not found")
        return launch.NOT_FOUND
    except (OSError, ValueError) as error:
        exits.say(f"{command[0]}: {error}")
        return launch.CANNOT_RUN


@click.command("doctor", context_settings=_CONTEXT)
@click.argument("folder", metavar="[DIR]", required=False, type=_PATH)
@click.option("--all", "everything", is_flag=True, help="Name every hook, skipped ones too.")
@click.option("--json", "as_json", is_flag=True, help="Write the reports as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def doctor_command(folder: Path | None, everything: bool, as_json: bool, debug: bool) -> int:
    """Say what is attached to a server, and what not and why.

    DIR is the log folder of `specscope run --log DIR`. Without it: whether the hooks could
    work in this environment.
    """

    def work() -> int:
        from specscope.doctor_command import environment, reports

        if folder is None:
            return environment(as_json=as_json)
        return reports(folder, everything=everything, as_json=as_json)

    return exits.guarded(work, debug=debug)


@click.command("completion", context_settings=_CONTEXT)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash:  specscope completion bash >> ~/.bashrc
    zsh:   specscope completion zsh >> ~/.zshrc
    fish:  specscope completion fish > ~/.config/fish/completions/specscope.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    for command in (_group, analyze_command):
        name = str(command.name)
        complete = kind(command, {}, name, f"_{name.upper()}_COMPLETE")
        # Not `complete.source()`: for bash that starts a bash to ask for its version.
        click.echo(ShellComplete.source(complete))
    return exits.DONE


@click.group("specscope", context_settings=_CONTEXT, invoke_without_command=True)
@click.version_option(__version__, message="specscope %(version)s")
@click.pass_context
def _group(context: click.Context) -> None:
    """Where does the speculation cycle of an LLM server go?

    \b
    specscope analyze traces/     (or just: analyze traces/)
    specscope ranks traces/       is the wire slow, or is a rank late?
    specscope compare a/ b/       what changed, and is it more than noise?
    specscope capture --url http://localhost:30000
    specscope record -- vllm serve ...
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(exits.WRONG_USAGE)


_group.add_command(analyze_command)
_group.add_command(ranks_command)
_group.add_command(whatif_command)
_group.add_command(query_command)
_group.add_command(export_command)
_group.add_command(compare_command)
_group.add_command(collect_command)
_group.add_command(run_command)
_group.add_command(capture_command)
_group.add_command(record_command)
_group.add_command(sweep_command)
_group.add_command(dashboard_command)
_group.add_command(live_command)
_group.add_command(convert_command)
_group.add_command(scrub_command)
_group.add_command(doctor_command)
_group.add_command(completion_command)


def main() -> int:
    """The program `specscope`."""
    _leave_out_pandas()
    return exits.call(_group)


def analyze() -> int:
    """The program `analyze`."""
    _leave_out_pandas()
    return exits.call(analyze_command)


class _NoPandas:
    """Keeps this process from importing pandas.

    pyarrow imports it, where it is installed, with the first array it makes: a fifth of a
    second, for nothing that a command uses.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas; leave everything else to the finders that follow."""
        if name == "pandas":
            raise ImportError("specscope's commands do without pandas")


def _leave_out_pandas() -> None:
    sys.meta_path.insert(0, _NoPandas)
