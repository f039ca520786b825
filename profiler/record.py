"""Runs a server under `nsys`, with the hooks in it, and brings the reports of what was collected.

The collection is stopped while the server lives, then the server is ended: what workers hold when
they are killed is lost otherwise, without a word in the report.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import (
    launch,
    masking,
    nsys_program,
    record_checks,
    server_process,
    server_ready,
    settings,
)
from .http_api import Api
from .interrupts import Interrupts
from .nsys_program import NsysError
from .nsys_session import Session, lacks_importer
from .server_errors import ServerError, UnsuitableError
from .server_process import ServerProcess
from .sweep_plan import Start

REPORT, LOG, HOOKS = "report", "server.log", "hooks"
SUFFIX, RAW_SUFFIX = ".nsys-rep", ".qdstrm"
_PAUSE: Final = 0.1
# A report of a command that ended by itself is written by then, or never.
_LATE_SECONDS: Final = 60.0
_GET_NSYS: Final = (
    "Nsight Systems is a part of the CUDA toolkit, also to be had alone (package nsight-systems); "
    "give its path by --nsys"
)


@dataclass(frozen=True)
class Options:
    """What to run, and when to collect.

    Without any of `delay`, `duration`, `windows` and `by_signal` all of the command is recorded.
    `delay` counts from the start, or with `url` from when the server there is ready.
    """

    command: tuple[str, ...]
    out: Path | None = None
    nsys: str | None = None
    graphs: str = "node"
    delay: float | None = None
    duration: float | None = None
    url: str | None = None
    windows: int | None = None
    by_signal: bool = False
    hooks: bool = True
    ready_timeout: float = 1800.0
    stop_timeout: float = 600.0
    say: Callable[[str], None] = field(default=lambda text: None)
    tick: Callable[[str], None] = field(default=lambda text: None)
    show: Callable[[str], None] | None = None

    @property
    def later(self) -> bool:
        """Is the collection begun after the command?"""
        timed = (self.delay, self.duration, self.url) != (None, None, None)
        return timed or self.by_signal


@dataclass(frozen=True)
class Recorded:
    """What came of it.

    `code`: how the command ended by itself, below 0: the signal; None when it was ended here.
    `ending`: the same in words, with the telling line of its log. `nsys`: the program's path.
    `raw`: recordings that were never made a report. `complaint`: what nsys did not do.
    """

    folder: Path
    reports: tuple[Path, ...]
    raw: tuple[Path, ...]
    nsys: str
    code: int | None = None
    ending: str = ""
    complaint: str = ""
    notes: tuple[str, ...] = ()


def record(options: Options) -> Recorded:
    """Do it.

    Raises:
        UnsuitableError: nothing was started; the line says what to change.
        ServerError: nsys, or the server, went wrong.
        KeyboardInterrupt: at the second interrupt; everything was ended.
    """
    program, version = _program(options.nsys)
    if shutil.which(options.command[0]) is None:
        raise UnsuitableError(f"{options.command[0]}: command not found")
    if options.url is not None:
        _check_address(options.url)
    folder = _folder(options.out)
    environ = environment(options, folder)
    session = Session(
        program,
        environ,
        graphs=options.graphs,
        output=folder / REPORT,
        windows=options.windows,
    )
    facts = record_checks.facts_of(options.command, environ, nsys=version, graphs=options.graphs)
    for line in record_checks.warnings(facts):
        options.say(line)
    for line in session.left_out:
        options.say(f"nsys {version} does not know {line}: left out")
    since = time.time()
    with Interrupts(toggle=options.by_signal) as interrupts:
        flow = _Flow(options, session, folder, interrupts)
        try:
            flow.run(environ)
        except ServerError as error:
            if not reports_of(folder):
                raise
            flow.complaint = str(error)  # what there is, is there
        finally:
            session.shutdown()
    reports = tuple(reports_of(folder))
    # Beside a report they may well be somebody else's, who records at the same time.
    scratch = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    raw = tuple(raw_of(folder, None if reports else scratch, since=since))
    for path in (*reports, *raw):
        with contextlib.suppress(OSError):
            path.chmod(0o600)  # nsys lets everybody read them
    notes = _notes(options, reports, session, flow.begun)
    return Recorded(folder, reports, raw, program, flow.code, flow.ending, flow.complaint, notes)


def environment(options: Options, folder: Path) -> dict[str, str]:
    """The environment of the command: what it needs under nsys, and the hooks."""
    environ = record_checks.with_variables(os.environ)
    if not options.hooks:
        return environ
    # CUDA events of the hooks would be calls in the report that the server does not make.
    chosen: dict[str, object] = {settings.EVENTS_EVERY: 0}
    return launch.environment(environ, log=folder / HOOKS, chosen=chosen)


def reports_of(folder: Path) -> list[Path]:
    """The reports in a folder, in the order of their windows."""
    found = [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]
    return sorted(found, key=lambda path: (nsys_program.numbers(path.name), path.name))


def raw_of(folder: Path, scratch: Path | None, since: float) -> Iterator[Path]:
    """Raw recordings that nsys left in a folder, and in the one it records into."""
    for place in (folder, scratch) if scratch else (folder,):
        try:
            found = sorted(place.glob(f"*{RAW_SUFFIX}"))
            yield from (path for path in found if _is_ours(path, since))
        except OSError:
            continue


class _Flow:
    """One recording: the command runs, collections begin and end, and then the command."""

    def __init__(
        self, options: Options, session: Session, folder: Path, interrupts: Interrupts
    ) -> None:
        self.code: int | None = None
        self.ending = self.complaint = ""
        self.begun = 0  # collections, by signal
        self._options, self._session, self._folder = options, session, folder
        self._interrupts = interrupts
        self._collecting = False

    def run(self, environ: dict[str, str]) -> None:
        options, session = self._options, self._session
        if not options.later:
            self._say_words(session.start_words(), ())
            session.start()
            self._collecting = True
        words = session.launch_words(options.command)
        self._say_words(words, tuple(record_checks.VARIABLES))
        start = Start(words)
        log = self._folder / LOG
        with ServerProcess(start, log, environment=environ, show=self._show) as server:
            try:
                self._until_the_end(server)
                if self.code is None:
                    self._close(server)
                    session.shutdown()  # before its agent is told to end as the rest is
                else:
                    self.ending = server.last_words()
            except KeyboardInterrupt:
                server.stop(0)
                raise
        if self.code is not None and self._collecting:
            self._await_report()

    def _show(self, line: str) -> None:
        if lacks_importer(line):
            self._session.lacks_importer = True
        if self._options.show is not None:
            self._options.show(line)

    def _until_the_end(self, server: ServerProcess) -> None:
        """Wait, open and close windows, until the command ends or it is time to end it."""
        options = self._options
        if options.by_signal:
            self._by_signal(server)
            return
        if options.later:
            if options.url is not None and not self._await_ready(server, options.url):
                return
            if not self._wait(server, options.delay or 0.0, "until the collection begins"):
                return
            if not self._open(server, self._folder / REPORT):
                return
        if options.duration is not None:
            self._wait(server, options.duration, "of the collection left")
        else:
            self._wait(server, None, "")

    def _by_signal(self, server: ServerProcess) -> None:
        self._options.say(
            f"kill -USR1 {os.getpid()} begins a collection, the same again ends it; Ctrl-C ends "
            "the command"
        )
        seen = 0
        while self._wait(server, _PAUSE, ""):
            while seen < self._interrupts.toggles:
                seen += 1
                if self._collecting:
                    self._close(server)
                else:
                    self.begun += 1
                    self._open(server, self._folder / f"{REPORT}.{self.begun}")

    def _await_ready(self, server: ServerProcess, url: str) -> bool:
        def tick(text: str) -> None:
            if self._interrupts.count:
                raise _AskedToEndError
            self._options.tick(text)

        try:
            engine = server_ready.await_ready(Api(url), server, self._options.ready_timeout, tick)
        except _AskedToEndError:
            return False
        except ServerError:
            self.code = server.code
            if self.code is None:
                raise
            return False
        self._options.say(f"the server is ready: {engine.name} {engine.version or ''}".rstrip())
        return True

    def _wait(self, server: ServerProcess, seconds: float | None, what: str) -> bool:
        """Wait that long; False when the command ended meanwhile, or is to be ended."""
        begun = time.monotonic()
        while seconds is None or (left := seconds - (time.monotonic() - begun)) > 0:
            if self._interrupts.count:
                return False
            if server.code is not None and server.ended:
                self.code = server.code
                return False
            if seconds is not None and what:
                self._options.tick(f"{left:.0f} s {what}")
            time.sleep(_PAUSE if seconds is None else min(_PAUSE, max(left, 0.0)))
        return True

    def _open(self, server: ServerProcess, output: Path) -> bool:
        """Begin to collect; False when the command ended before, or is to be ended."""

        def goes_on() -> bool:
            return server.code is None and not self._interrupts.count

        if not self._session.await_launched(goes_on):
            self.code = server.code
            return False
        self._session.start(output)
        self._collecting = True
        self._options.say("collecting")
        return True

    def _close(self, server: ServerProcess) -> None:
        if not self._collecting:
            return
        self._options.say("ending the collection, while the server lives")
        self._collecting = False
        self.complaint = self._session.stop(self._options.stop_timeout) or self.complaint

    def _await_report(self) -> None:
        """The command ended by itself: nsys writes the report then, or has done so."""
        until = time.monotonic() + _LATE_SECONDS
        while time.monotonic() < until and not self._interrupts.count:
            if reports_of(self._folder) or list(self._folder.glob(f"*{RAW_SUFFIX}")):
                return
            time.sleep(_PAUSE)

    def _say_words(self, words: tuple[str, ...], variables: tuple[str, ...]) -> None:
        chosen = [(name, record_checks.VARIABLES[name]) for name in variables]
        pairs = tuple((name, os.environ.get(name, value)) for name, value in chosen)
        self._options.say(f"runs {Start(words, pairs).shown()}")


class _AskedToEndError(Exception):
    """The user interrupted while the server was awaited."""


def _program(given: str | None) -> tuple[str, str]:
    try:
        program = nsys_program.find(given)
        return program, nsys_program.version(program)
    except NsysError as error:
        mend = f"; {_GET_NSYS}" if given is None else ""
        raise UnsuitableError(f"{masking.text(str(error))}{mend}") from error


def _check_address(url: str) -> None:
    try:
        holder = server_process.taken(Api(url))
    except ServerError as error:
        raise UnsuitableError(str(error)) from error
    if holder:
        raise UnsuitableError(holder)


def _folder(given: Path | None) -> Path:
    """The folder for the reports, which only the user may read: they carry the environment."""
    folder = given or Path(time.strftime("specscope-record-%Y%m%d-%H%M%S"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=given is not None)
        folder = folder.absolute()
        if reports_of(folder):
            raise UnsuitableError(f"{folder} holds a recording; give another --out")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnsuitableError(
            f"{folder} cannot be written: {error.strerror}; give another --out"
        ) from error
    return folder


def _is_ours(path: Path, since: float) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_mtime >= since - 1 and found.st_uid == os.getuid()


def _notes(
    options: Options, reports: tuple[Path, ...], session: Session, begun: int
) -> tuple[str, ...]:
    notes = []
    if 0 < len(reports) < begun:
        notes.append(f"{len(reports)} reports came of {begun} collections")
    if options.windows is not None and 0 < len(reports) < options.windows:
        notes.append(
            f"{len(reports)} of {options.windows} windows were recorded: the server's profiler was "
            "started no more often (POST /start_profile)"
        )
    if session.lacks_importer:
        notes.append(
            "this nsys has no importer, so it left a raw recording: install the host part of the "
            "same version beside it"
        )
    return tuple(notes)
