"""One recording: a command runs, collections begin and end while it does, then it is ended."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from . import record_checks, server_ready
from .http_api import Api
from .interrupts import Interrupts
from .nsys_session import Session, lacks_importer
from .record_options import LOG, RAW_SUFFIX, REPORT, Options, reports_of
from .server_errors import ServerError
from .server_process import ServerProcess
from .sweep_plan import Start

_PAUSE: Final = 0.1
# A report of a command that ended by itself is written by then, or never.
_LATE_SECONDS: Final = 60.0


class Flow:
    """One recording.

    `code`: how the command ended by itself, `ending` the same in words; `complaint`: what nsys did
    not do; `begun`: collections begun by signal.
    """

    def __init__(
        self, options: Options, session: Session, folder: Path, interrupts: Interrupts
    ) -> None:
        self.code: int | None = None
        self.ending = self.complaint = ""
        self.begun = 0
        self._options, self._session, self._folder = options, session, folder
        self._interrupts = interrupts
        self._collecting = False

    def run(self, environ: dict[str, str]) -> None:
        """Do it. Raises ServerError, and KeyboardInterrupt at the second interrupt."""
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
