"""One session of `nsys`: a command runs in it, collections are started and stopped from outside.

A collection is stopped while the command runs: what the workers still hold is then written. When
it ends with the command, a worker that is killed, or leaves by `os._exit`, takes its rows along.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from . import masking, nsys_program
from .nsys_program import NsysError, Ran
from .record_switches import Words, words
from .server_errors import ServerError, UnsuitableError

START_SECONDS: Final = 120.0
_SHUTDOWN_SECONDS: Final = 60.0
_COMMANDS: Final = ("launch", "start")
_PAUSE: Final = 0.2
_IMPORTER: Final = "importer binary"


class Session:
    """A session that is not there yet; `launch_words` and `start` make it, whichever is first."""

    def __init__(
        self,
        program: str,
        environ: Mapping[str, str],
        *,
        graphs: str,
        output: Path,
        windows: int | None = None,
    ) -> None:
        self.program = program
        self.lacks_importer = False
        self._name = f"specscope-{uuid.uuid4().hex[:12]}"
        self._environ = dict(environ)
        self._graphs, self._output, self._windows = graphs, output, windows
        self._made = False
        try:
            self._known = {name: nsys_program.options(program, name) for name in _COMMANDS}
        except NsysError as error:
            raise UnsuitableError(str(error)) from error
        self._words = self._for(output)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Switches that this nsys does not know, with what is lost."""
        return self._words.left_out

    def launch_words(self, command: Sequence[str]) -> tuple[str, ...]:
        """What runs the command in this session."""
        head = (self.program, "launch", self._session(), *self._words.launch)
        self._made = True
        return (*head, *command)

    def start_words(self, output: Path | None = None) -> tuple[str, ...]:
        """What begins a collection into `output`, or into that of the session."""
        chosen = self._words if output is None else self._for(output)
        return (self.program, "start", self._session(), *chosen.start)

    def await_launched(self, goes_on: Callable[[], bool]) -> bool:
        """Wait until the command runs in the session; False when `goes_on` says no meanwhile.

        A collection that is started before takes the name, and then the command is not launched.
        Raises ServerError when it takes too long.
        """
        until = time.monotonic() + START_SECONDS
        while goes_on():
            listed = self._run((self.program, "sessions", "list"), START_SECONDS).text
            if self._name in listed:
                return True
            if time.monotonic() > until:
                raise ServerError(f"nsys did not launch the command within {START_SECONDS:.0f} s")
            time.sleep(_PAUSE)
        return False

    def start(self, output: Path | None = None) -> None:
        """Begin a collection. Raises ServerError when nsys does not."""
        words_ = self.start_words(output)
        self._made = True
        ran = self._run(words_, START_SECONDS)
        if ran.code != 0 or ran.timed_out:
            raise ServerError(f"nsys did not start to collect{_because(ran)}")

    def stop(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> str:
        """End the collection and wait for its report; why that failed, empty when it did not."""
        words_ = (self.program, "stop", f"--session={self._name}")
        ran = self._run(words_, seconds, meanwhile)
        if ran.timed_out:
            return f"nsys did not write its report within {seconds:.0f} s"
        return "" if ran.code == 0 else f"nsys stop failed{_because(ran)}"

    def shutdown(self) -> None:
        """Take the session away, whatever is left of it; what it ran is not touched."""
        if not self._made:
            return
        self._made = False
        words_ = [self.program, "shutdown", f"--session={self._name}", "--kill=none"]
        with contextlib.suppress(NsysError):
            nsys_program.run(words_, timeout=_SHUTDOWN_SECONDS, environ=self._environ)

    def _for(self, output: Path) -> Words:
        return words(self._known, graphs=self._graphs, output=str(output), windows=self._windows)

    def _session(self) -> str:
        return f"--session={self._name}" if self._made else f"--session-new={self._name}"

    def _run(
        self, words_: Sequence[str], seconds: float, meanwhile: Callable[[], None] | None = None
    ) -> Ran:
        try:
            ran = nsys_program.run(
                words_, timeout=seconds, environ=self._environ, meanwhile=meanwhile
            )
        except NsysError as error:
            raise ServerError(str(error)) from error
        self.lacks_importer = self.lacks_importer or lacks_importer(ran.text)
        return ran


def lacks_importer(text: str) -> bool:
    """Does nsys say that it has no importer, and so leaves a raw recording?"""
    return _IMPORTER in text


def _because(ran: Ran) -> str:
    if ran.timed_out:
        return ": it did not answer in time"
    lines = [line.strip() for line in ran.text.splitlines() if re.search(r"\w", line)]
    said = masking.text(lines[-1])[:200] if lines else "it said nothing"
    return f" (exit code {ran.code}: {said})"
