"""What `specscope capture` does: measure, record, then analyse; its talk on stderr."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import IO

import click

from specscope import __version__, exits
from specscope.dashboards.safe_text import clean
from specscope.profiler.capture import Captured, Options, capture
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.traces.errors import TraceFormatError, UsageError

# Where nobody watches, what is true at this moment is worth a line now and then.
_LINE_SECONDS = 30.0
_CLEAR = "\r\x1b[K"


@dataclass(frozen=True)
class After:
    """What to do with a capture."""

    analyze: bool = True
    quiet: bool = False


def run(options: Options, after: After) -> int:
    """Do it; the exit code."""
    talk = Talk(sys.stderr, quiet=after.quiet)
    producer = f"specscope {__version__}"
    try:
        with talk, _terminable():
            done = capture(replace(options, producer=producer, say=talk.say, tick=talk.tick))
    except UnsuitableError as error:
        raise UsageError(str(error)) from error
    except ServerError as error:
        raise TraceFormatError(str(error)) from error
    folder = done.run.parent
    for line in _outcome(done):
        talk.say(line)
    if not done.traces or not after.analyze:
        click.echo(clean(folder))
        return exits.DONE
    # Heavy, and not needed before.
    from specscope import analyze_command

    return analyze_command.run(analyze_command.Request((str(folder),), quiet=after.quiet))


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a capture as Ctrl-C does: what it started on the server is ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _outcome(done: Captured) -> list[str]:
    folder = done.run.parent
    lines = [f"wrote {done.run}"]
    if done.traces:
        count = len(done.traces)
        lines.append(
            f"{count} trace{'s' if count > 1 else ''} in {folder}; again: analyze {folder}"
        )
    if done.graphs:
        lines.append(f"{len(done.graphs)} graph-capture traces in {done.graphs[0].parent}")
    if done.elsewhere:
        lines.append(done.elsewhere)
    return lines


class Talk:
    """Lines on stderr, and below them one that moves, on a terminal; use it as a context."""

    def __init__(self, file: IO[str], *, quiet: bool) -> None:
        self._file, self._quiet = file, quiet
        self._moves = file.isatty() and not quiet
        self._open = False
        self._last = time.monotonic()

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *raised: object) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        self._clear()
        exits.say(text)
        self._last = time.monotonic()

    def tick(self, text: str) -> None:
        """What is true now: moves on a terminal, elsewhere a line every half a minute."""
        if self._moves:
            width = shutil.get_terminal_size().columns - 1
            self._file.write(_CLEAR + clean(text)[:width])
            self._file.flush()
            self._open = True
        elif not self._quiet and time.monotonic() - self._last >= _LINE_SECONDS:
            self.say(text)

    def _clear(self) -> None:
        if self._open:
            self._file.write(_CLEAR)
            self._file.flush()
            self._open = False


def as_path(value: Path | None) -> Path | None:
    """The path with its `~` opened."""
    return value.expanduser() if value is not None else None
