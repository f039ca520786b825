"""A report of Nsight Systems (`.nsys-rep`, `.qdrep`) as the SQLite file that can be read.

Only the program `nsys` reads a report, so it is called. The export lies in the user's cache
folder, never beside the report, only the user may read it, and what it carries of the program's
environment and output is taken out at once. A report is exported once for each content and version
of nsys.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from . import cache, nsys_private, nsys_program
from .errors import TraceFormatError, UsageError
from .nsys_program import NsysError
from .nsys_troubles import command_elsewhere, failure, quoted, title
from .sniff import BINARY, HEAD_BYTES, TEXT, printable, refusal

SUFFIXES: Final = frozenset({".nsys-rep", ".qdrep"})
RAW_SUFFIX: Final = ".qdstrm"

_EXPORT: Final = "export.sqlite"
# Switches of `nsys export`, each given where the program's help lists it.
_SWITCHES: Final = (
    ("force-overwrite", "true"),
    ("quiet", "true"),
    # Tables without a row are left out; to be so by default no longer, says the help.
    ("lazy", "true"),
    # Payloads of NVTX ranges, which newer programs leave out otherwise.
    ("include-blobs", "true"),
)
_SQLITE: Final = b"SQLite format 3\x00"
_REPORT: Final = b"NVIDIA "
# How often the folder of an export is marked as being written (cache.STALE_SECONDS).
_TOUCH_SECONDS: Final = 60.0


def is_report(path: Path) -> bool:
    """Is it, by its name, a report that needs an export before it can be read?"""
    return path.suffix.lower() in SUFFIXES


def is_raw(path: Path) -> bool:
    """Is it, by its name, what nsys records into before it makes a report of it?"""
    return path.suffix.lower() == RAW_SUFFIX


def refusal_of_raw(path: Path) -> TraceFormatError:
    """The line about a raw recording, which is never read."""
    return TraceFormatError(
        f"{title(path)} is a raw recording of Nsight Systems that was never made a report; only "
        "the nsys of exactly the version that recorded it can import it: run its "
        f"QdstrmImporter (in host-linux-x64 of that version) with --input-file "
        f"{quoted(path.name)}, and give the .nsys-rep"
    )


class Exports:
    """The exports of one load: how they are made, and that other threads can be told to end them.

    `nsys` and `timeout` are those of `export`. With `use_cache` an export is kept for the next time
    where there is a cache folder to be written.
    """

    def __init__(
        self, nsys: str | None = None, timeout: float | None = None, *, use_cache: bool = True
    ) -> None:
        self._nsys, self._timeout, self._use_cache = nsys, timeout, use_cache
        self._ended = threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: others of the same settings, which it ends itself."""
        return partial(Exports, use_cache=self._use_cache), (self._nsys, self._timeout)

    def end(self) -> None:
        """End those that run, and begin no other."""
        self._ended.set()

    @contextlib.contextmanager
    def readable(self, path: Path) -> Iterator[Path]:
        """What can be read: the file itself, or the export of a report as long as this is open."""
        if not is_report(path) and not is_raw(path):
            yield path
            return
        with exported(
            path,
            nsys=self._nsys,
            timeout=self._timeout,
            use_cache=self._use_cache,
            ended=self._ended,
        ) as source:
            yield source


@contextlib.contextmanager
def exported(
    report: Path,
    *,
    nsys: str | None = None,
    timeout: float | None = None,
    use_cache: bool = True,
    ended: threading.Event | None = None,
) -> Iterator[Path]:
    """The SQLite file of a report, there as long as the context is open.

    With `use_cache` it is kept for the next time where there is a cache folder to be written,
    else it is gone afterwards. Raises as `export` does.
    """
    if use_cache and _has_cache():
        yield export(report, nsys=nsys, timeout=timeout, ended=ended)
        return
    program = _program(report, nsys)
    with tempfile.TemporaryDirectory(prefix="specscope-export-", ignore_cleanup_errors=True) as to:
        place = Path(to)
        _make(report, program, timeout, place, ended)
        yield place / _EXPORT


def export(
    report: Path,
    *,
    nsys: str | None = None,
    timeout: float | None = None,
    ended: threading.Event | None = None,
) -> Path:
    """The SQLite file of a report in the cache folder, made by `nsys` when it is not there.

    `nsys` is the path of the program, or of the folder of an installation (None: the one on
    PATH); the call may take `timeout` seconds, and no longer than until `ended` is set. Raises
    UsageError for a report or a program that cannot be read or run, and TraceFormatError for a
    report that gives no export; in one line.
    """
    program = _program(report, nsys)
    try:
        name = _key(report, program)
        return cache.made(name, lambda to: _make(report, program, timeout, to, ended)) / _EXPORT
    except OSError as error:
        raise UsageError(
            f"{title(report)} cannot be exported into {printable(str(cache.folder()), 200)}: "
            f"{error.strerror or error}; make room, or name another folder by SPECSCOPE_CACHE_DIR"
        ) from error


def _program(report: Path, nsys: str | None) -> str:
    if is_raw(report):
        raise refusal_of_raw(report)
    try:
        if not stat.S_ISREG(report.stat().st_mode):
            raise refusal(report.name, "no regular file", "give the report itself")
        with report.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise UsageError(
            f"{printable(str(report), 200)} cannot be read: {error.strerror}; check the path"
        ) from error
    _refuse_what_is_no_report(report, head)
    try:
        return nsys_program.find(nsys)
    except NsysError as error:
        if nsys is not None:
            raise UsageError(f"--nsys: {printable(str(error), 300)}") from error
        raise TraceFormatError(
            f"{title(report)} is a report of Nsight Systems, and there is no nsys on PATH to "
            f"export it; give its path by --nsys, or export it on a machine that has it "
            f"({command_elsewhere(report)}) and give the .sqlite"
        ) from error


def _refuse_what_is_no_report(report: Path, head: bytes) -> None:
    """Raise for what bears the name of a report and is plainly something else."""
    if head.startswith(_REPORT):
        return
    if not head.strip(b"\0"):
        what = "filled with zero bytes" if head else "empty"
        raise refusal(report.name, what, "nsys was killed or the disk was full: record again")
    for kind in (*BINARY, *TEXT):
        if re.match(kind.pattern, head):
            raise refusal(report.name, f"no report of Nsight Systems but {kind.what}", kind.mend)


def _has_cache() -> bool:
    """Can anything be kept in the cache folder?"""
    root = cache.folder()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return cache.max_bytes() > 0 and os.access(root, os.W_OK | os.X_OK)


def _key(report: Path, program: str) -> str:
    try:
        state = (cache.fingerprint(report), report.stat().st_mtime_ns)
    except OSError as error:
        raise UsageError(
            f"{printable(str(report), 200)} cannot be read: {error.strerror}; check the path"
        ) from error
    parts = (state, _version(program), _SWITCHES)
    return "nsys-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _version(program: str) -> str:
    try:
        return nsys_program.version(program)
    except NsysError as error:
        raise UsageError(printable(str(error), 300)) from error


def _make(
    report: Path,
    program: str,
    timeout: float | None,
    place: Path,
    ended: threading.Event | None,
) -> None:
    """Export into a file in the private folder `place`."""
    output = place / _EXPORT
    try:
        known = nsys_program.options(program, "export")
        switches = [f"--{name}={value}" for name, value in _SWITCHES if name in known]
        words = [program, "export", "--type=sqlite", f"--output={output}", *switches]
        ran = nsys_program.run(
            [*words, str(report.absolute())], timeout=timeout, meanwhile=_watch(place, ended)
        )
    except NsysError as error:
        raise UsageError(printable(str(error), 300)) from error
    if ran.timed_out:
        raise TraceFormatError(
            f"{title(report)} was not exported within {timeout:g} s; allow more by "
            f"--export-timeout, or export it yourself ({command_elsewhere(report)}) and give the "
            ".sqlite"
        )
    if ran.code != 0 or not _is_whole(output):
        raise failure(report, program, _version(program), ran, place.parent)
    output.chmod(0o600)
    try:
        nsys_private.strip(output)
    except sqlite3.Error as error:
        raise UsageError(
            f"the export of {title(report)} cannot be kept without the environment in it "
            f"({printable(str(error), 120)}); make room in the cache folder"
        ) from error


def _watch(place: Path, ended: threading.Event | None) -> Callable[[], None]:
    """Ends the call when that is set; marks the folder as being written until then.

    Without the mark it would be taken for the leftover of a killed writer.
    """
    last = time.monotonic()

    def look() -> None:
        nonlocal last
        if ended is not None and ended.is_set():
            raise NsysError("the export was ended, because reading was")
        if time.monotonic() - last > _TOUCH_SECONDS:
            os.utime(place)
            last = time.monotonic()

    return look


def _is_whole(path: Path) -> bool:
    """Is it an SQLite file of the length that its head says, with a table in it?

    nsys ends with exit code 0 also where the disk was full.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
        page = int.from_bytes(head[16:18], "big")
        pages = int.from_bytes(head[28:32], "big")
        if (
            not head.startswith(_SQLITE)
            or path.stat().st_size < (page if page > 1 else 65536) * pages
        ):
            return False
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as found:
            tables = found.execute("select count(*) from sqlite_master where type = 'table'")
            return bool(tables.fetchone()[0])
    except (OSError, sqlite3.Error):
        return False
