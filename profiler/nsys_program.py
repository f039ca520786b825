"""The program `nsys` of Nsight Systems: where it is, its version, its switches, calls of it.

The rooms import nothing from each other, so `profiler/nsys_program.py` and
`traces/nsys_program.py` are one text twice; a test compares them. A call gets no standard input
(some subcommands wait for it) and a time limit, and what it started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Final

NAME: Final = "nsys"
# For what only prints a few lines; generous, for a first start from a slow disk.
ASK_SECONDS: Final = 120.0
# What is kept of the words of a call.
_KEPT_BYTES: Final = 1 << 16
_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.2
_VERSION: Final = re.compile(r"version\s+(\d{4}(?:\.\d+)+)")
_OPTION: Final = re.compile(r"^\s+(?:-\w,\s*)?--([a-z][a-z-]*)", re.MULTILINE)
# Where the program lies in the folder of an installation.
_INSIDE: Final = ("nsys", "bin/nsys", "target-linux-x64/nsys", "target-linux-sbsa-armv8/nsys")


class NsysError(Exception):
    """There is no `nsys` to call, or it does not answer; one line with its mend."""


@dataclass(frozen=True)
class Ran:
    """How a call ended: its exit code (below 0: the signal), and what it wrote."""

    code: int
    text: str
    timed_out: bool = False


def find(given: str | None = None) -> str:
    """The path of the program: the one given (or inside the folder given), else that on PATH.

    Raises NsysError.
    """
    if given is None:
        found = shutil.which(NAME)
        if found is None:
            raise NsysError("there is no nsys on PATH")
        return str(Path(found).absolute())
    try:
        path = Path(given).expanduser()
    except RuntimeError as error:
        raise NsysError(f"{given} is in the home of nobody known") from error
    places = [path / inside for inside in _INSIDE] if path.is_dir() else [path]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return str(place.absolute())
    found = shutil.which(given) if os.sep not in given else None
    if found is not None:
        return str(Path(found).absolute())
    if path.is_file():
        raise NsysError(f"{given} cannot be run: it is no program; give the path of nsys")
    if path.is_dir():
        raise NsysError(f"there is no nsys in the folder {given}; give the path of the program")
    raise NsysError(f"{given} does not exist; give the path of nsys")


def version(program: str) -> str:
    """Its version, as `2023.4.4.54`. Raises NsysError."""
    return _version(program, _state(program))


def options(program: str, command: str) -> frozenset[str]:
    """The long options, without dashes, that `nsys COMMAND --help` lists. Raises NsysError."""
    return _options(program, command, _state(program))


def numbers(text: str) -> tuple[int, ...]:
    """A version to compare: `2023.4.4.54` as (2023, 4, 4, 54)."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def run(
    words: Sequence[str],
    *,
    timeout: float | None,
    environ: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Ran:
    """Call a program and wait for it, no longer than `timeout` seconds (None: as long as it takes).

    `meanwhile` is called a few times a second; what it raises ends the call. Nothing of the call
    is left behind, however it ends. Raises NsysError when it cannot be started.
    """
    until = None if timeout is None else time.monotonic() + timeout
    child: subprocess.Popen[bytes] | None = None
    timed_out = False
    with tempfile.TemporaryFile() as out:
        try:
            with _undisturbed():
                child = _started(words, environ, out)
            pause = _PAUSE
            while child.poll() is None:
                if until is not None and time.monotonic() > until:
                    timed_out = True
                    break
                if meanwhile is not None:
                    meanwhile()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            if child is not None:
                _end(child)
        return Ran(child.returncode, _last_text(out.fileno()), timed_out)


def _started(
    words: Sequence[str], environ: Mapping[str, str] | None, out: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=None if environ is None else dict(environ),
            start_new_session=True,
            umask=0o077,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NsysError(f"{words[0]} cannot be started: {reason}") from error


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Interrupts come after the block: a process that nobody knows yet could not be ended."""
    came: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], object]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, lambda caught, frame: came.append(caught))
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
    for each in came:
        before[each](each, None)


def _state(program: str) -> tuple[int, int]:
    """Changes when another program takes the path."""
    try:
        found = Path(program).stat()
    except OSError as error:
        raise NsysError(f"{program} cannot be run: {error.strerror}") from error
    return found.st_size, found.st_mtime_ns


@cache
def _version(program: str, state: tuple[int, int]) -> str:
    found = _VERSION.search(_asked(program, "--version"))
    if found is None:
        raise NsysError(
            f"{program} does not say the version of Nsight Systems when called with --version; "
            "give the path of nsys"
        )
    return found[1]


@cache
def _options(program: str, command: str, state: tuple[int, int]) -> frozenset[str]:
    found = frozenset(_OPTION.findall(_asked(program, command, "--help")))
    if not found:
        raise NsysError(f"{program} lists no switch of `{NAME} {command}`; give the path of nsys")
    return found


def _asked(program: str, *words: str) -> str:
    ran = run([program, *words], timeout=ASK_SECONDS)
    if ran.timed_out:
        raise NsysError(f"{program} {' '.join(words)} did not answer in {ASK_SECONDS:.0f} s")
    return ran.text


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the call and what it started, and take its exit code."""
    if child.poll() is None:
        _kill_group(child.pid)
        child.wait()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _last_text(handle: int) -> str:
    size = os.fstat(handle).st_size
    start = max(0, size - _KEPT_BYTES)
    return os.pread(handle, _KEPT_BYTES, start).decode("utf-8", "replace").replace("\r", "\n")
