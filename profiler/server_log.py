"""The log of a server that was started here: bounded, secrets masked, and its telling line."""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from specscope.profiler import masking
from specscope.profiler.key_lines import KeyLines
from specscope.profiler.secret_names import is_secret_name
from specscope.profiler.secret_shapes import login

# A file of this size becomes FILE.1, which replaces the one before: twice this on disk.
MOST_BYTES: Final = 8 << 20
_MOST_LINE: Final = 64 << 10
_KEPT_LINES: Final = 400
_MOST_SHOWN: Final = 240
_LEAST_SECRET: Final = 6
_PIECE: Final = 64 << 10
# Milliseconds between two looks whether to go.
_LOOK_MS: Final = 200
# Seconds to read what is left in the pipe, once nobody is to be waited for.
_LEAVE_SECONDS: Final = 15.0

_TROUBLE: Final = re.compile(
    r"\b\w*(?:Error|Exception)\b\s*[:(]|\berror:|\bout of memory\b|\bCUDA error\b"
    r"|\bNCCL\b.*\berror\b|\bNo such file\b|\bcommand not found\b|\baddress already in use\b"
    r"|\bnot enough\b|\bSegmentation fault\b|\bassertion failed\b",
    re.IGNORECASE,
)
# What engines say after the line that names the cause.
_AFTERMATH: Final = re.compile(
    r"see root cause above|engine core initialization failed|engine core proc.* died|"
    r"failed core proc|worker proc.* died|WorkerProc initialization failed|"
    r"received sigquit|child failed|EOFError|BrokenPipeError|ConnectionResetError|"
    r"initialization failed\. rank|CalledProcessError|ChildFailedError|CancelledError|"
    r"exception ignored|resource_tracker|destroy_process_group",
    re.IGNORECASE,
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Time, process and place that a log line begins with.
_PREFIX: Final = re.compile(
    r"^(?:\([^()]{1,60}\)\s*)?(?:\[[^\]]{1,60}\]\s*)?"
    r"(?:(?:INFO|WARNING|ERROR|CRITICAL)\s+[\d\-]+ [\d:.,]+ \[[^\]]{1,80}\]\s*)?"
)


class ServerLog:
    """Takes what a server writes, on a thread of its own, until the server closes its end.

    Whoever inherited that end from the server, and outlives it, is not waited for. The server
    never waits for the disk to have room: lines that cannot be written are dropped. Each line also
    goes to `show`.
    """

    def __init__(
        self,
        path: Path,
        stream: IO[bytes],
        secrets: Iterable[str],
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.path = path
        self._show = show
        # A line at a time is searched, so a secret of several lines is as many.
        lines = {line.strip() for secret in secrets for line in (secret, *secret.splitlines())}
        self._secrets = sorted({s for s in lines if len(s) >= _LEAST_SECRET}, key=len)[::-1]
        self._keys = KeyLines()
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._file: IO[bytes] | None = None
        self._size = 0
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._pump, name="server log", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait until all is written that was said; no longer than that."""
        self._thread.join(seconds)

    def close(self, seconds: float) -> None:
        """The same; after that only what was said already is read, and the pipe is closed."""
        self.finish(seconds)
        self._leave.set()
        self.finish(_LEAVE_SECONDS + 1)

    def telling(self) -> str:
        """The last line that names a cause, else the last one; empty when there is none."""
        return telling(list(self._lines))

    def _pump(self) -> None:
        try:
            for raw in self._said():
                line = self._masked(raw.decode("utf-8", "replace").rstrip("\r\n"))
                self._lines.append(line[:4000])
                self._write(line + "\n")
                if self._show is not None:
                    self._show(line)
        except (OSError, ValueError):
            pass  # closed under our hands
        finally:
            with contextlib.suppress(OSError):
                self._stream.close()
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()

    def _said(self) -> Iterator[bytes]:
        """The lines; one that is too long in pieces."""
        rest = b""
        for data in self._pieces():
            rest += data
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield from _cut(line)
            while len(rest) > _MOST_LINE:
                yield rest[:_MOST_LINE]
                rest = rest[_MOST_LINE:]
        if rest:
            yield rest

    def _pieces(self) -> Iterator[bytes]:
        """What comes out of the pipe, until its end or until it is time to leave."""
        poll = select.poll()
        poll.register(self._stream, select.POLLIN)
        until = 0.0
        while True:
            if self._leave.is_set():
                until = until or time.monotonic() + _LEAVE_SECONDS
                if time.monotonic() > until:
                    return
            if poll.poll(_LOOK_MS):
                data = os.read(self._stream.fileno(), _PIECE)
                if not data:
                    return
                yield data
            elif until:
                return

    def _write(self, line: str) -> None:
        try:
            data = line.encode("utf-8", "replace")
            if self._file is None:
                self._file = self.path.open("ab")  # behind what an earlier start said
                self._size = self._file.tell()
            if self._size + len(data) > MOST_BYTES and self._size:
                self._file.close()
                self.path.replace(self.path.with_name(self.path.name + ".1"))
                self._file, self._size = self.path.open("wb"), 0
            self._file.write(data)
            self._file.flush()
            self._size += len(data)
        except OSError:
            pass

    def _masked(self, line: str) -> str:
        for secret in self._secrets:
            line = line.replace(secret, masking.MASK)
        return masking.text(self._keys.masked(line))


def _cut(line: bytes) -> Iterator[bytes]:
    for start in range(0, len(line) or 1, _MOST_LINE):
        yield line[start : start + _MOST_LINE]


def telling(lines: list[str]) -> str:
    """The line of a log that says best why a server ended, in one piece and bounded."""
    cleaned = [_COLOUR.sub("", line).strip() for line in lines]
    cleaned = [line for line in cleaned if line]
    troubles = [line for line in cleaned if _TROUBLE.search(line)]
    causes = [line for line in troubles if not _AFTERMATH.search(line)]
    found = next(iter((causes or troubles or cleaned)[-1:]), "")
    short = _PREFIX.sub("", found) or found
    return short if len(short) <= _MOST_SHOWN else short[: _MOST_SHOWN - 3] + "..."


def secrets_of(words: Iterable[str], environment: Iterable[tuple[str, str]]) -> list[str]:
    """Values of secret options and variables, to be searched for in what a server writes."""
    out = [value for name, value in environment if value and masking.hides_word(name, value)]
    hiding = before = ""
    for word in words:
        option, before = before, word
        if password := login(option, word) or login(*word.partition("=")[::2]):
            out.append(password)
        name, equals, value = word.partition("=")
        if hiding and not word.startswith("-"):
            if masking.hides_word(hiding, word):
                out.append(word)
            continue
        is_secret = word.startswith("-") and not equals and is_secret_name(word)
        hiding = word if is_secret else ""
        if equals and masking.hides_word(name, value):
            out.append(value)
    return out
