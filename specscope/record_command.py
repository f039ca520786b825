"""What `specscope record` does: run it under nsys, then analyse; its talk on stderr."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass, replace
from typing import Final

import click

from specscope import exits
from specscope.capture_command import Talk
from specscope.dashboards.safe_text import clean
from specscope.profiler import launch
from specscope.profiler.record import record
from specscope.profiler.record_options import LOG, Options, Recorded
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.traces import nsys_export
from specscope.traces.errors import TraceFormatError, UsageError

_SIGNALLED: Final = 128
_MOVING: Final = re.compile(r"\r?\[\d+/\d+\] \[")


@dataclass(frozen=True)
class After:
    """What to do with a recording."""

    analyze: bool = True
    quiet: bool = False
    export_timeout: float | None = None
    debug: bool = False


def run(options: Options, after: After) -> int:
    """Do it; the exit code."""
    talk = Talk(sys.stderr, quiet=after.quiet)
    if shutil.which(options.command[0]) is None:
        exits.say(f"{options.command[0]}: command not found")
        return launch.NOT_FOUND
    show = None if after.quiet else _show
    try:
        with talk:
            done = record(replace(options, say=talk.say, tick=talk.tick, show=show))
    except UnsuitableError as error:
        raise UsageError(str(error)) from error
    except ServerError as error:
        raise TraceFormatError(str(error)) from error
    for line in _outcome(done):
        talk.say(line)
    if not done.reports:
        exits.say(_nothing(done))
        return _code(done) or exits.UNREADABLE
    if not after.analyze:
        click.echo(clean(done.folder))
        return _code(done)
    # Heavy, and not needed before.
    from specscope import analyze_command

    request = analyze_command.Request(
        (_what(done),),
        nsys=done.nsys,
        export_timeout=after.export_timeout,
        quiet=after.quiet,
        debug=after.debug,
    )
    code = exits.guarded(lambda: analyze_command.run(request), debug=after.debug)
    return _code(done) or code


def _what(done: Recorded) -> str:
    """What to analyse: several reports are windows of one run; of a folder the newest is read."""
    return str(done.reports[0] if len(done.reports) == 1 else done.folder)


def _code(done: Recorded) -> int:
    """The exit code of a command that failed by itself, else 0."""
    code = done.code or 0
    return code if code >= 0 else _SIGNALLED - code


def _outcome(done: Recorded) -> list[str]:
    lines = [done.complaint] if done.complaint else []
    lines += done.notes
    if done.code:
        lines.append(f"the command {done.ending}")
    if done.reports:
        count = len(done.reports)
        lines.append(
            f"{count} report{'s' if count > 1 else ''} in {done.folder} (with the environment of "
            f"the command inside: not to be shared as it is); again: analyze {_what(done)}"
        )
    lines += [str(nsys_export.refusal_of_raw(path)) for path in done.raw]
    return lines


def _nothing(done: Recorded) -> str:
    log = done.folder / LOG
    if done.raw:
        return f"no report was written; a raw recording was left: {done.raw[0]}"
    if done.code is None:
        return f"no report was written: nothing was collected; the log of the command: {log}"
    return (
        f"no report was written: the command {done.ending}; let it run until the collection has "
        f"begun, see {log}"
    )


def _show(line: str) -> None:
    """A line of the command; of the moving lines of nsys nothing."""
    if not _MOVING.match(line):
        click.echo(clean(line.rpartition("\r")[2]), err=True)
