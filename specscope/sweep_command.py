"""What `specscope sweep` does: the servers, then the table; its talk on stderr."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click

from specscope import __version__, exits
from specscope.capture_command import Talk
from specscope.dashboards.safe_text import clean
from specscope.profiler import sweep_file, sweep_plan
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.sweep import sweep
from specscope.profiler.sweep_figures import measured
from specscope.profiler.sweep_options import Options, Plan, plan
from specscope.traces.errors import (
    EvidenceError,
    SpecscopeError,
    TraceFormatError,
    UsageError,
)

STDOUT = "-"
_STAGES = ("draft", "verify", "draft_extend", "schedule", "decode")


def run(
    options: Options, *, steps: str, batches: str, json_to: str | None, dry: bool, quiet: bool
) -> int:
    """Do it; the exit code."""
    talk = Talk(sys.stderr, quiet=quiet)
    try:
        options = replace(
            options,
            steps=sweep_plan.numbers("--steps", steps, least=0),
            batches=sweep_plan.numbers("--batch", batches, least=1),
            producer=f"specscope {__version__}",
            shares=shares,
            say=talk.say,
            tick=talk.tick,
        )
        if json_to not in (None, STDOUT):
            _prove(Path(str(json_to)), options.out)
        if dry:
            return _show(options, plan(options))
        with _terminated_as_interrupted(), talk:
            done = sweep(options)
    except UnsuitableError as error:
        raise UsageError(str(error)) from error
    except ServerError as error:
        raise TraceFormatError(str(error)) from error
    except KeyboardInterrupt:
        if (options.out / sweep_file.NAME).exists():
            talk.say(f"what was measured is in {options.out}; the same command goes on from there")
        raise
    talk.say(f"wrote {options.out / sweep_file.NAME}")
    _print(done, json_to)
    sys.stdout.flush()
    if not any(map(measured, done["rows"])):
        raise EvidenceError(
            f"none of {len(done['rows'])} settings could be measured: the rows say why, the logs "
            f"are in {options.out}"
        )
    return exits.DONE


def _prove(path: Path, out: Path) -> None:
    """Before hours of measuring: the file can be written, and is nobody else's."""
    from specscope.dashboards.writing import prove_file

    if path.resolve().parent != out.resolve():  # made by the sweep
        prove_file(path)
    if path.is_file() and path.stat().st_size:
        try:
            sweep_file.read(path)
        except UnsuitableError as error:
            raise UsageError(
                f"--json {clean(path, 200)}: that file is there and is no sweep, so it is not "
                "overwritten; name another file"
            ) from error


def shares(folder: Path) -> dict[str, float] | None:
    """Shares of the recorded cycle by stage; None where the traces do not support them."""
    # Heavy, and not needed before.
    from specscope.analyzers.analyze import analyze
    from specscope.traces.load import load

    try:
        report = analyze(load(folder))
    except SpecscopeError:
        return None
    found = {stage: report.share(stage) for stage in _STAGES}
    out = {stage: round(row.cycle_share.value, 6) for stage, row in found.items() if row}
    return out or None


def _print(document: dict[str, Any], json_to: str | None) -> None:
    from specscope.dashboards import sweep_table, terminal
    from specscope.dashboards.writing import write_text

    text = json.dumps(document, indent=1) + "\n"
    if json_to == STDOUT:
        sys.stdout.write(text)
        return
    sweep_table.print_sweep(document, terminal.console_for(sys.stdout))
    if json_to is not None:
        write_text(Path(json_to), text)


def _show(options: Options, checked: Plan) -> int:
    """The commands, as they would be started."""
    for steps in checked.steps:
        click.echo(clean(checked.start(steps).shown()))
    starts = len(checked.steps)
    rows = starts * len(checked.batches)
    what = "measured and recorded" if options.profile else "measured"
    exits.say(f"{starts} starts at most, {rows} rows {what}, at {checked.api.title}")
    return exits.DONE


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Also when this process is told to end, or loses its terminal, the server ends first."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # What is ignored stays so: `nohup` says that the terminal may go.
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
