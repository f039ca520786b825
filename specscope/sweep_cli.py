"""The command `specscope sweep`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specscope import exits, load_options

_PATH: Final = click.Path(path_type=Path)
_STDOUT: Final = "-"
_LOAD: Final = (
    "prompt_tokens",
    "tokens",
    "repetitions",
    "vocabulary",
    "cycles",
    "timeout",
    "api_key",
)

_EXAMPLES: Final = """\b
Examples:
  specscope sweep --steps 1..5 --batch 1,8 --command 'python -m sglang.launch_server
      --model-path M --speculative-algorithm EAGLE3 --speculative-draft-model-path D
      --speculative-eagle-topk 1 --speculative-num-steps {steps}
      --speculative-num-draft-tokens {draft_tokens} --port {port}'
      --baseline-command 'python -m sglang.launch_server --model-path M --port {port}'
  specscope sweep ... --dry-run           the commands, and nothing started
  specscope sweep ... --out sweep1        again: goes on where it stopped

\b
Exit codes: 0 done; 2 the options do not allow it; 3 a server cannot be ended; 4 none of
the settings could be measured."""


@click.command(
    "sweep",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.option(
    "--command",
    required=True,
    metavar="COMMAND",
    help="Starts the server; with {steps} or {draft_tokens} (steps + 1), and {port}.",
)
@click.option(
    "--steps",
    required=True,
    metavar="LIST",
    help="Numbers of draft steps: 1..8, or 1,2,4; 0 is the server without speculation.",
)
@click.option(
    "--batch",
    "batches",
    metavar="LIST",
    default="1",
    show_default=True,
    help="Requests at once: 1,8.",
)
@click.option(
    "--baseline-command",
    metavar="COMMAND",
    help="Starts the same server without speculation.",
)
@click.option(
    "--baseline-url",
    metavar="URL",
    help="Instead: that server, where it runs already.",
)
@click.option(
    "--baseline",
    "baseline_runs",
    metavar="PATH",
    type=_PATH,
    multiple=True,
    help="Instead: run.json of it, or its folder; one for each batch. Repeatable.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65_535),
    help="What {port} is.  [default: that of --url, else a free one]",
)
@click.option(
    "--url",
    metavar="URL",
    help="Where the server answers.  [default: http://127.0.0.1:{port}]",
)
@click.option(
    "--ready-timeout",
    metavar="SECONDS",
    type=click.FloatRange(1, 86400),
    default=1800,
    show_default=True,
    help="How long a server may take to start.",
)
@load_options.prompt_tokens
@load_options.tokens
@click.option(
    "--repetitions",
    metavar="N",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="How often each row is measured; rows are told apart from 4 on.",
)
@load_options.vocabulary
@click.option(
    "--cycles",
    metavar="N",
    type=click.IntRange(3, 1000),
    default=20,
    show_default=True,
    help="Cycles to record of each row.",
)
@click.option("--no-profile", is_flag=True, help="Measure only.")
@click.option(
    "--out",
    metavar="DIR",
    type=_PATH,
    help="Folder for sweep.json, logs and traces; one with a sweep in it is gone on with.  "
    "[default: specscope-sweep-TIME]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(1, 86400),
    default=600,
    show_default=True,
    help="How long one request, or the writing of the traces, may take.",
)
@click.option(
    "--api-key",
    metavar="KEY",
    envvar="SPECSCOPE_API_KEY",
    help="Sent to the server, never written.  [env: SPECSCOPE_API_KEY]",
)
@click.option(
    "--json",
    "json_to",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_STDOUT,
    help="Write what sweep.json holds (docs/sweep.md); to stdout without FILE, then no table.",
)
@click.option("--dry-run", is_flag=True, help="Print the commands; start nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Only the table, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def sweep_command(
    debug: bool,
    quiet: bool,
    dry_run: bool,
    no_profile: bool,
    json_to: str | None,
    steps: str,
    batches: str,
    out: Path | None,
    baseline_runs: tuple[Path, ...],
    **options: Any,
) -> int:
    """Start a server for each number of draft steps; say which is best, and whether it pays.

    Each server is measured under a load of its own, for each batch, then recorded, and ended
    before the next is started. Against a baseline every row has its speed-up and the accept
    length at which it breaks even.
    """

    def work() -> int:
        import time

        from specscope.capture_command import as_path
        from specscope.profiler.sweep_options import Options
        from specscope.sweep_command import run

        load = {name: options.pop(name) for name in _LOAD}
        folder = as_path(out) or Path(f"specscope-sweep-{time.strftime('%Y%m%d-%H%M%S')}")
        runs = tuple(path.expanduser() for path in baseline_runs)
        asked = Options(
            **options,
            steps=(),
            baseline_runs=runs,
            profile=not no_profile,
            out=folder,
            load=load,
        )
        return run(asked, steps=steps, batches=batches, json_to=json_to, dry=dry_run, quiet=quiet)

    return exits.guarded(work, debug=debug)
