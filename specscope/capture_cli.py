"""The command `specscope capture`: options and help only."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import click

from specscope import exits, load_options

_PATH: Final = click.Path(path_type=Path)


class Seconds(click.FloatRange):
    """A number of seconds; NaN lies in no range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


_EXAMPLES: Final = """\b
Examples:
  specscope capture --url http://localhost:30000
  specscope capture --url http://localhost:30000 --cycles 40 --batch 8 --out run1
  specscope capture --url http://localhost:30000 --baseline-url http://localhost:30001
  specscope capture --url http://localhost:30001 --no-profile --out plain    (a server
      without speculation), then, on the same GPUs with speculation:
  specscope capture --url http://localhost:30000 --baseline plain

\b
Exit codes: 0 done; 2 the server or the options do not allow it; 3 the server went
away, or its traces did not come whole."""


@click.command(
    "capture",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog=_EXAMPLES,
)
@click.option("--url", required=True, metavar="URL", help="The server: SGLang or vLLM.")
@click.option(
    "--cycles",
    metavar="N",
    type=click.IntRange(3, 1000),
    default=20,
    show_default=True,
    help="Cycles to record.",
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Requests at once.",
)
@load_options.prompt_tokens
@load_options.tokens
@click.option(
    "--repetitions",
    metavar="N",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="How often it is measured.",
)
@load_options.vocabulary
@click.option("--stacks", is_flag=True, help="Record Python stacks (SGLang): large and slow.")
@click.option(
    "--graphs",
    is_flag=True,
    help="Bring the traces of the server's CUDA graph capture, or say how to get them.",
)
@click.option(
    "--baseline-url",
    metavar="URL",
    help="The same server without speculation, measured the same way.",
)
@click.option(
    "--baseline",
    "baseline_run",
    metavar="PATH",
    type=_PATH,
    help="Instead: run.json of the server without speculation, or its folder.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=_PATH,
    help="Folder for traces and run.json.  [default: specscope-capture-TIME]",
)
@click.option(
    "--server-out",
    metavar="DIR",
    help="SGLang on another machine: the path of that folder, as the server sees it.",
)
@click.option(
    "--profiler-dir",
    metavar="DIR",
    type=_PATH,
    help="vLLM: its torch_profiler_dir, as seen from here.  [default: found, on the same host]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(1, 86400),
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
    "--admin-api-key",
    metavar="KEY",
    envvar="SPECSCOPE_ADMIN_API_KEY",
    help="SGLang with an admin key: starts and stops the profiler, never written.  "
    "[env: SPECSCOPE_ADMIN_API_KEY]",
)
@click.option("--no-profile", is_flag=True, help="Measure only.")
@click.option("--no-analyze", is_flag=True, help="Only print the folder, in place of the report.")
@click.option("--quiet", "-q", is_flag=True, help="Only the sentence of the verdict, and no talk.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def capture_command(
    debug: bool, quiet: bool, no_profile: bool, no_analyze: bool, **options: Any
) -> int:
    """Measure a running server, record a few cycles of it, and analyse them.

    A load of its own runs on the server: first without a profiler (tokens/s, cycle, accept
    length), then under the server's torch profiler. What was measured goes into run.json
    beside the traces. SGLang needs no preparation, vLLM a --profiler-config at its start.
    """

    _refuse_what_excludes_each_other(options, no_profile=no_profile)

    def work() -> int:
        from specscope.capture_command import After, as_path, run
        from specscope.profiler.capture import Options

        for name in ("out", "profiler_dir", "baseline_run"):
            options[name] = as_path(options[name])
        done = Options(profile=not no_profile, **options)
        return run(done, After(analyze=not no_analyze, quiet=quiet))

    return exits.guarded(work, debug=debug)


def _refuse_what_excludes_each_other(options: dict[str, Any], *, no_profile: bool) -> None:
    if options["baseline_run"] is not None and options["baseline_url"] is not None:
        raise click.UsageError("--baseline and --baseline-url exclude each other: give one of them")
    for name in ("graphs", "stacks"):
        if no_profile and options[name]:
            raise click.UsageError(f"--{name} needs a profile: leave out --{name} or --no-profile")
