"""From paths to a run: chooses the files, reads each one or finds it in the cache, assembles."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from . import attach_reports, cycle_log, nsys_export, nsys_windows
from . import cache as cache_of
from .assemble import FileTables, assemble
from .context import read_context
from .engines import Engine, in_order
from .errors import SpecscopeError, TraceFormatError, UsageError
from .events import ScanOptions
from .file_names import read_name
from .file_notes import notes_on
from .folder import Choice, choose
from .kineto_names import FRAME_NEEDLES
from .nsys_folder import is_export
from .read import STDIN, read_file, read_stream
from .run import Note, RankTables, Run
from .scan import reader_name
from .server_args import read_server_args
from .sniff import path_text, printable
from .twins import without_twins

DEFAULT_MAX_TEXT_BYTES: Final = 64 << 30

# Called with the name of a file that was read and the share of the work that is done.
Progress = Callable[[str, float], None]


def load(
    paths: str | Path | Sequence[str | Path],
    *,
    rank: int | None = None,
    all_frames: bool = False,
    max_text_bytes: int = DEFAULT_MAX_TEXT_BYTES,
    cache: bool = True,
    on_progress: Progress | None = None,
    nsys: str | None = None,
    export_timeout: float | None = None,
    engine: Engine | None = None,
) -> Run:
    """Reads the traces at `paths` into a run: files, folders as servers write them, or `-`.

    Several files are one run when their ranks are distinct. `rank` keeps that one only. Python
    frames are kept where they can be stages, or all with `all_frames`. Text beyond
    `max_text_bytes` (unpacked) is refused. Reports of Nsight Systems are exported by the program
    `nsys` (None: the one on PATH), each within `export_timeout` seconds. An `engine` reads the
    files elsewhere, with the same result. Raises UsageError for paths that do not exist, cannot be
    read or clash, and TraceFormatError for what is no trace; both in one line.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    options = ScanOptions(
        all_frames=all_frames, frame_needles=FRAME_NEEDLES, max_text_bytes=max_text_bytes
    )
    exports = nsys_export.Exports(nsys, export_timeout, use_cache=cache)
    choice, chosen_by_us = _choose(given, exports)
    files = _of_rank(choice.files, rank) if chosen_by_us else choice.files
    logs = [file for file in files if file.is_file() and cycle_log.is_log(file)]
    if logs and len(logs) < len(files):
        raise UsageError("traces and cycle logs are not one run; give the one or the other")
    if logs:
        tables = _read_logs(logs)
    else:
        tables = _read_all(
            files, options, exports, engine, on_progress=on_progress, use_cache=cache
        )
    tables, twin_notes = without_twins(tables)
    assembled = assemble(tables, chosen_by_us=chosen_by_us)
    ranks = _only(assembled.ranks, rank)
    if logs:
        whole = chosen_by_us and rank is None
        ranks = attach_reports.with_losses(ranks, logs[0].parent, whole=whole)
    context, context_notes = _context(files)
    if logs:
        context = {**_server_args(logs), **context}
    notes = [*choice.notes, *twin_notes, *assembled.notes, *context_notes]
    for found in ranks:
        notes += notes_on(found)
    listed = choice.listed + assembled.listed
    return Run(ranks, tuple(dict.fromkeys(notes)), context, listed)


def _choose(given: Sequence[str | Path], exports: nsys_export.Exports) -> tuple[Choice, bool]:
    """The files to read, and whether they are a folder's (True) or were named by the user."""
    if not given:
        raise UsageError("no trace given; give files or a folder")
    paths = [Path(path) for path in given]
    for path in paths:
        check_exists(path)

    def window(path: Path) -> nsys_windows.Window:
        with exports.readable(path) as source:
            return nsys_windows.window_of(source)

    if len(paths) == 1 and _is_folder(paths[0]):
        return choose(paths[0], window), True
    choices = [choose(path, window) if _is_folder(path) else Choice((path,)) for path in paths]
    files = [file for choice in choices for file in choice.files]
    captured = [file for file in files if read_name(file.name).role == "graph_capture"]
    if captured and len(captured) < len(files):
        raise UsageError(
            f"{printable(captured[0].name, 120)} was recorded while graphs were built and is no "
            "rank of a run; give it with --capture-trace"
        )
    if len(set(map(str, files))) < len(files):
        raise UsageError("the same file is given twice; give each rank once")
    listed = tuple(line for choice in choices for line in choice.listed)
    notes = tuple(note for choice in choices for note in choice.notes)
    return Choice(tuple(files), listed, notes), False


def _is_folder(path: Path) -> bool:
    """A folder with traces in it; the folder of one export is a trace itself."""
    return str(path) != STDIN and path.is_dir() and not is_export(path)


def check_exists(path: Path) -> None:
    """Raises UsageError for a path that is not there or may not be read."""
    if str(path) == STDIN:
        return
    title = printable(str(path), 200)
    try:
        path.stat()
    except FileNotFoundError as error:
        raise UsageError(f"{title} does not exist; check the path") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not os.access(path, os.R_OK):
        raise UsageError(f"{title} cannot be read: permission denied; check its owner and mode")


def unreadable(path: Path, error: Exception) -> UsageError:
    """The error for a file that the system does not let us read."""
    reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
    return UsageError(f"{printable(str(path), 200)} cannot be read: {reason}; check the path")


def _of_rank(files: tuple[Path, ...], rank: int | None) -> tuple[Path, ...]:
    """Only the file of that rank, when every name says its rank and none says it twice."""
    if rank is None:
        return files
    ranks = [read_name(file.name).rank for file in files]
    if None in ranks or len(set(ranks)) < len(ranks) or rank not in ranks:
        return files
    return (files[ranks.index(rank)],)


def _only(ranks: tuple[RankTables, ...], rank: int | None) -> tuple[RankTables, ...]:
    if rank is None:
        return ranks
    kept = tuple(found for found in ranks if found.rank == rank)
    if not kept:
        known = ", ".join(str(found.rank) for found in ranks)
        raise UsageError(f"no rank {rank} in this run; there is: {known}")
    return kept


def _context(files: Iterable[Path]) -> tuple[dict[str, Any], list[Note]]:
    folders = {file.parent for file in files if str(file) != STDIN}
    return read_context(folders.pop()) if len(folders) == 1 else ({}, [])


def _server_args(logs: Sequence[Path]) -> dict[str, Any]:
    """The engine's arguments beside the logs; file names say the process."""
    pids = [match[1] for log in logs if (match := re.search(r"-pid(\d+)-", log.name))]
    return read_server_args(logs[0].parent, pids)


def _read_all(
    files: Sequence[Path],
    options: ScanOptions,
    exports: nsys_export.Exports,
    engine: Engine | None,
    *,
    use_cache: bool,
    on_progress: Progress | None,
) -> list[FileTables]:
    """The tables of each file; several files at once when there are cores for them."""
    # What comes through a pipe is here and nowhere else.
    if engine is not None and all(file.is_file() or file.is_dir() for file in files):
        elsewhere = replace(options, threads=1)
        work = partial(_read_given, options=elsewhere, exports=exports, use_cache=use_cache)
        said = on_progress or (lambda name, share: None)
        return in_order(engine, work, files, lambda file, share: said(file.name, share))
    cores = available_cores()
    workers = max(1, min(len(files), cores))
    options = replace(options, threads=max(1, cores // workers))
    done = 0

    def read(path: Path) -> FileTables:
        nonlocal done
        tables = _read_given(path, options=options, exports=exports, use_cache=use_cache)
        done += 1
        if on_progress is not None:
            on_progress(path.name, done / len(files))
        return tables

    if workers == 1:
        return [read(path) for path in files]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(read, files))
        except BaseException:
            exports.end()  # else the pool waits for them
            raise


def _read_given(
    path: Path, *, options: ScanOptions, exports: nsys_export.Exports, use_cache: bool
) -> FileTables:
    """The tables of one file, which may be a report that needs an export."""
    with exports.readable(path) as source:
        if source == path:
            return read_one(path, options, use_cache=use_cache)
        return _read_export(source, path, options, use_cache=use_cache)


def _read_export(
    export: Path, report: Path, options: ScanOptions, *, use_cache: bool
) -> FileTables:
    """The tables of an export in the name of the report that it was made of."""
    try:
        tables = read_one(export, options, use_cache=use_cache)
    except TraceFormatError as error:
        named = str(error).replace(export.name, printable(report.name, 120))
        raise TraceFormatError(named) from error
    name, size = path_text(report), report.stat().st_size

    def of_report(rank: RankTables) -> RankTables:
        table = rank.sources
        for column, values in (
            ("path", [text.replace(path_text(export), name) for text in table["path"].to_pylist()]),
            ("bytes", [size] * table.num_rows),
        ):
            place = table.schema.get_field_index(column)
            field = table.schema.field(place)
            table = table.set_column(place, field, pa.array(values, field.type))
        return replace(rank, sources=table, facts={**rank.facts, "path": name})

    return FileTables(str(report), tuple(map(of_report, tables.ranks)))


def _read_logs(paths: Sequence[Path]) -> list[FileTables]:
    """The tables of each process that wrote a cycle log."""
    try:
        return [FileTables(path, (tables,)) for path, tables in cycle_log.read_logs(paths)]
    except OSError as error:
        raise unreadable(Path(error.filename or paths[0]), error) from error


def available_cores() -> int:
    """Cores that this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_one(path: Path, options: ScanOptions, *, use_cache: bool) -> FileTables:
    """The tables of one file, from the cache when they are there."""
    try:
        if not path.is_file() and not path.is_dir():
            title = "standard input" if str(path) == STDIN else str(path)
            return FileTables(title, tuple(read_stream(path, options)))
        content = cache_of.fingerprint(path)
        if not use_cache or path.stat().st_size < cache_of.MIN_FILE_BYTES:
            return FileTables(str(path), tuple(read_file(path, content, options)))
        key = cache_of.key(path, content, options, reader_name())
        ranks = cache_of.get(key)
        if ranks is None:
            ranks = read_file(path, content, options)
            cache_of.put(key, ranks)
        return FileTables(str(path), tuple(ranks))
    except SpecscopeError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except (MemoryError, RecursionError) as error:
        raise TraceFormatError(
            f"{printable(path.name, 120)} needs more memory than there is ({type(error).__name__})"
        ) from error
