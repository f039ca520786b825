"""A server started here: its processes, whatever they do, end with it.

They are found by session, by descent, and by a mark in their environment, so that workers which
leave the session are found too. Not those behind a daemon of somebody else (docker, Ray).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from specscope.profiler import local_server, masking
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.server_log import ServerLog, secrets_of
from specscope.profiler.sweep_plan import Start

MARK: Final = "SPECSCOPE_SWEEP_SERVER"
# Seconds between SIGTERM and SIGKILL, and for the rest of the end.
TERM_SECONDS: Final = 20.0
_KILL_SECONDS: Final = 15.0
_PORT_SECONDS: Final = 30.0
_PAUSE: Final = 0.1
_GONE: Final = frozenset("ZX")
# Of what stands in `stat` behind the name: when the process began.
_BEGAN: Final = 19
_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


def _end_with_parent() -> None:
    """The kernel ends the server where this process is killed and can do nothing itself."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ServerProcess:
    """One start of a server; use it as a context.

    Its output goes to `log`, and a line at a time to `show`, secrets masked.
    """

    def __init__(
        self,
        start: Start,
        log: Path,
        *,
        secrets: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        base = dict(os.environ if environment is None else environment)
        self._mark = uuid.uuid4().hex
        env = {**base, **dict(start.variables), MARK: self._mark}
        known = [*secrets, *secrets_of(start.words, [*base.items(), *start.variables])]
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._process = subprocess.Popen(
                start.words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # One call of a library that is loaded: safe also beside threads.
                preexec_fn=_end_with_parent,  # noqa: PLW1509
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UnsuitableError(f"{start.words[0]} cannot be started: {reason}") from error
        self._since = _started(self._process.pid)
        assert self._process.stdout is not None
        self.log = ServerLog(log, self._process.stdout, known, show)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the process that was started, its session and its group."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code of the process that was started, below 0: the signal; None while it runs."""
        return self._process.poll()

    @property
    def ended(self) -> bool:
        """Whether it is over: it failed, whatever workers it left, or nothing of it runs.

        A command that ended well may have left a server in the background.
        """
        code = self._process.poll()
        return code is not None and (code != 0 or not self.members())

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself in that time."""
        until = time.monotonic() + seconds
        while not self.ended:
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE)
        return True

    def members(self) -> list[int]:
        """The processes of the server that still run."""
        return members(self.pid, self._mark, since=self._since)

    def last_words(self) -> str:
        """How it ended, and the telling line of its log."""
        self.log.finish(2.0)
        said = self.log.telling()
        code = self._process.poll()
        how = "still runs" if code is None else _how(code)
        return f"{how}; its log: {said}" if said else f"{how}; it wrote nothing"

    def stop(self, seconds: float | None = None) -> None:
        """SIGTERM to all of it, SIGKILL to what is left; a second interrupt kills at once.

        Raises:
            ServerError: a process is still there after that.
        """
        try:
            self._end(signal.SIGTERM, TERM_SECONDS if seconds is None else seconds)
        except KeyboardInterrupt:
            self._end(signal.SIGKILL, _KILL_SECONDS)
            raise
        if left := self._end(signal.SIGKILL, _KILL_SECONDS):
            raise ServerError(
                f"process {left[0]} of the server does not end, not even by SIGKILL: most often "
                "its driver hangs; the next server would not find its GPU free"
            )
        self.log.close(2.0)

    def _end(self, number: int, seconds: float) -> list[int]:
        """Send the signal to every process, also to those that come meanwhile; what is left."""
        told: set[int] = set()
        until = time.monotonic() + seconds
        while left := self._alive():
            for pid in left if number == signal.SIGKILL else set(left) - told:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            told |= set(left)
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE)
        return left

    def _alive(self) -> list[int]:
        """The processes that run, and the one that was started until its exit code is taken."""
        found = set(self.members())
        if self._process.poll() is None:
            found.add(self.pid)
        return sorted(found)


def members(session: int, mark: str, proc: Path = Path("/proc"), *, since: int = 0) -> list[int]:
    """Processes of that session, of that mark, and all that descend from them.

    None of them is older than the server (`since`, in ticks), and the others are not looked into:
    the kernel answers for a process only when that one is not in the midst of changing its memory,
    so one that is stuck there would hold up the end of the server.
    """
    found: set[int] = set()
    parents: dict[int, int] = {}
    needle = f"{MARK}={mark}".encode()
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) <= _BEGAN or int(fields[_BEGAN]) < since:
            continue
        if fields[0].decode() in _GONE and not _has_threads(entry):
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        if session in (int(fields[2]), int(fields[3])):
            found.add(pid)
            continue
        with contextlib.suppress(OSError):  # of another user
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {os.getpid()})


def _started(pid: int) -> int:
    """When a process of this user began, in ticks; 0 where that cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[_BEGAN])
    except (OSError, LookupError, ValueError):
        return 0


def _has_threads(entry: Path) -> bool:
    """Whether threads outlive the first one of a process, which then looks as if it were gone."""
    try:
        return sum(1 for _ in (entry / "task").iterdir()) > 1
    except OSError:
        return False


def answers(api: Api) -> bool:
    """Whether anything takes a connection at the server's address."""
    try:
        with socket.create_connection((api.host, api.port), timeout=2.0):
            return True
    except (OSError, UnicodeError):
        return False


def taken(api: Api) -> str:
    """The line about a port that somebody else holds; empty when it is free."""
    if not answers(api):
        return ""
    holder = local_server.find(api.port) if local_server.is_local(api.host) else None
    who = ""
    if holder is not None:
        command = " ".join(masking.command(holder.command))
        who = f" by process {holder.pid} ({command[:120]})"
    return f"port {api.port} is in use{who}: end it, or give another --port"


def await_free(api: Api) -> str:
    """Wait until the port is free again; the line about it when it is not in time."""
    until = time.monotonic() + _PORT_SECONDS
    while answers(api):
        if time.monotonic() > until:
            return taken(api)
        time.sleep(_PAUSE)
    return ""


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"ended by {name}{memory}"
