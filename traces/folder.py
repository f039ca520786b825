"""A folder as servers write it, sorted out: the newest capture is read, the rest is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import nsys_windows
from .errors import TraceFormatError, UsageError
from .file_names import FileName, read_name, why_not_read
from .nsys_folder import is_export
from .run import Note
from .sniff import HEAD_BYTES, check_head, printable, unpacked_head

# Files of one capture whose names hold times of their own are written within this time of one
# another: all ranks stop at the same batch and export at once.
CAPTURE_SPREAD_NS: Final = 120 * 10**9
# Files looked at in one folder.
MAX_FILES: Final = 10_000
_GIVE: Final = "give a folder with traces (*.trace.json.gz, *.nsys-rep, *.sqlite)"
# Words of which the head of a trace holds at least one.
_TRACE_WORDS: Final = (b'"traceEvents"', b'"schemaVersion"', b'"ph"')


@dataclass(frozen=True)
class Choice:
    """What to read of a folder (in the order of ranks by name), and what not, with the reason."""

    files: tuple[Path, ...]
    listed: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class _File:
    path: Path
    name: FileName
    mtime_ns: int


@dataclass(frozen=True)
class _Capture:
    files: tuple[_File, ...]

    @property
    def stamp_ns(self) -> int | None:
        """Time of the capture by its names, or None when a file has none."""
        stamps = [file.name.stamp_ns for file in self.files]
        known = [stamp for stamp in stamps if stamp is not None]
        return max(known) if len(known) == len(stamps) else None

    @property
    def mtime_ns(self) -> int:
        return max(file.mtime_ns for file in self.files)


def choose(
    folder: Path, window: Callable[[Path], nsys_windows.Window] = nsys_windows.window_of
) -> Choice:
    """The newest capture in `folder`, or in the folders right below when it has none itself.

    `window` tells when a recording of Nsight Systems was made; they are read where there is no
    Kineto trace. Raises TraceFormatError when there is no trace, UsageError when the folder cannot
    be read.
    """
    own = _choose_here(folder, window)
    if own.files and not _is_graph_capture(own):
        return own
    below = [
        (child, _choose_here(child, window))
        for child in children(folder, folders=True)
        if not is_export(child)
    ]
    found = [(child, choice) for child, choice in below if choice.files]
    served = [(child, choice) for child, choice in found if not _is_graph_capture(choice)]
    if own.files and not served:
        return own
    if not found:
        raise TraceFormatError(_nothing_found(folder, own.listed))
    # Traces of serving go before those of a graph capture, which may well be newer.
    aside = [(child, choice) for child, choice in found if served and _is_graph_capture(choice)]
    found = served or found
    captures = [
        (_Capture(tuple(_file(path) for path in choice.files)), child, choice)
        for child, choice in found
    ]
    order = _newest_first([capture for capture, _, _ in captures])
    (_, newest, choice), *older = (captures[index] for index in order)
    listed = [_line(child, "another capture, older", "/") for _, child, _ in older]
    listed += [_line(child, why_not_read(choice.files[0].name), "/") for child, choice in aside]
    listed += [_line(path, why_not_read(path.name)) for path in own.files]
    notes = list(choice.notes)
    if older:
        notes.append(_several(len(captures), f"{printable(newest.name, 120)}/"))
    inside = tuple(f"{printable(newest.name, 120)}/{line}" for line in choice.listed)
    return Choice(choice.files, own.listed + inside + tuple(listed), tuple(notes))


def _is_graph_capture(choice: Choice) -> bool:
    """Were all files of it recorded while graphs were built, so that none is a rank of a run?"""
    return all(read_name(path.name).role == "graph_capture" for path in choice.files)


def _choose_here(folder: Path, window: Callable[[Path], nsys_windows.Window]) -> Choice:
    """The newest capture among the files right in `folder`; no files when there is none."""
    traces: list[_File] = []
    others: list[_File] = []
    listed: list[str] = []
    for path in children(folder, folders=False):
        file = _file(path)
        reason = why_not_trace(path) if not _is_aside(file) else ""
        if file.name.role in {"trace", "merged"} and not reason:
            traces.append(file)
        elif _is_aside(file):
            others.append(file)
        elif file.name.role not in ("context", "nsys"):
            listed.append(_line(path, reason or why_not_read(path.name)))

    captures = _captures(file for file in traces if file.name.role == "trace")
    # A merged file is read when the files it was made from are not there, an unfinished one
    # when there is nothing better.
    for role in ("merged", "unfinished", "graph_capture"):
        candidates = [*traces, *others]
        rest = [file for file in candidates if file.name.role == role]
        if captures:
            listed += [_line(file.path, why_not_read(file.path.name)) for file in rest]
        else:
            captures = [_Capture((file,)) for file in rest]
    exports = nsys_windows.candidates(
        [*children(folder, folders=False), *children(folder, folders=True)]
    )
    logs = [file for file in others if file.name.role == "cycle_log"]
    if captures:
        listed += [
            _line(path, "of Nsight Systems; the torch profiler's is read") for path in exports
        ]
    elif exports:
        return _newest_exports(exports, window, [*listed, *_lines(logs)])
    if not captures and logs:
        return _newest_logs(logs, listed)
    listed += _lines(logs)
    if not captures:
        return Choice((), tuple(sorted(listed)))
    order = [captures[index] for index in _newest_first(captures)]
    newest, older = order[0], order[1:]
    listed += [_line(file.path, "an older capture") for capture in older for file in capture.files]
    notes = [_several(len(order), _title(newest))] if older else []
    files = sorted(newest.files, key=_by_rank)
    return Choice(tuple(file.path for file in files), tuple(sorted(listed)), tuple(notes))


def _newest_exports(
    exports: list[Path], window: Callable[[Path], nsys_windows.Window], listed: list[str]
) -> Choice:
    """The recordings of Nsight Systems that were made together, the newest ones."""
    chosen = nsys_windows.choose(exports, window)
    listed += [_line(path, why) for path, why in chosen.others]
    return Choice(chosen.files, tuple(sorted(listed)), chosen.notes)


def _lines(files: Iterable[_File]) -> list[str]:
    return [_line(file.path, why_not_read(file.path.name)) for file in files]


def _newest_logs(files: list[_File], listed: list[str]) -> Choice:
    """The pieces of the newest server's cycle logs: one process for each rank."""
    processes: dict[str, list[_File]] = {}
    for file in files:
        processes.setdefault(file.name.worker or "", []).append(file)
    newest_first = sorted(processes.values(), key=lambda pieces: -_stamp(pieces[0]))
    newest, older = newest_first[:1], newest_first[:0]
    ranks = {newest[0][0].name.rank}
    for pieces in newest_first[1:]:
        rank = pieces[0].name.rank
        apart = _stamp(newest[-1][0]) - _stamp(pieces[0]) > CAPTURE_SPREAD_NS
        if older or apart or rank in ranks:
            older.append(pieces)
        else:
            newest.append(pieces)
            ranks.add(rank)
    listed += [_line(file.path, "an older cycle log") for pieces in older for file in pieces]
    chosen = [file for pieces in newest for file in sorted(pieces, key=lambda one: one.path.name)]
    title = printable(chosen[0].path.name, 120)
    notes = [_several(1 + len(older), title)] if older else []
    files_in_order = sorted(chosen, key=_by_rank)
    return Choice(tuple(file.path for file in files_in_order), tuple(sorted(listed)), tuple(notes))


def _line(path: Path, reason: str, after: str = "") -> str:
    return f"{printable(path.name, 120)}{after}: {reason}"


def _is_aside(file: _File) -> bool:
    """True for files that are read only when there is no trace beside them."""
    return file.name.role in {"unfinished", "graph_capture", "cycle_log"}


def _captures(files: Iterable[_File]) -> list[_Capture]:
    """The files by capture: by its id where names have one, else by their times."""
    by_id: dict[tuple[str, str], list[_File]] = {}
    by_time: dict[str, list[_File]] = {}
    for file in files:
        if file.name.capture is not None:
            by_id.setdefault((file.name.group, file.name.capture), []).append(file)
        elif file.name.stamp_ns is not None:
            by_time.setdefault(file.name.group, []).append(file)
        else:
            by_id.setdefault(("", file.path.name), []).append(file)
    captures = [_Capture(tuple(group)) for group in by_id.values()]
    for group in by_time.values():
        captures += _captures_by_time(group)
    return captures


def _captures_by_time(files: list[_File]) -> list[_Capture]:
    """Cuts the files of one server where a worker comes again or the times lie apart."""
    newest_first = sorted(files, key=lambda file: file.name.stamp_ns or 0, reverse=True)
    groups: list[list[_File]] = []
    for file in newest_first:
        group = groups[-1] if groups else []
        workers = {member.name.worker for member in group}
        apart = group and _stamp(group[-1]) - _stamp(file) > CAPTURE_SPREAD_NS
        if not group or apart or file.name.worker in workers:
            groups.append([file])
        else:
            group.append(file)
    return [_Capture(tuple(group)) for group in groups]


def _stamp(file: _File) -> int:
    return file.name.stamp_ns or 0


def _newest_first(captures: list[_Capture]) -> list[int]:
    """Indices of the captures, newest first: by the times in their names when all have one."""
    stamps = [capture.stamp_ns for capture in captures]
    named = all(stamp is not None for stamp in stamps)

    def age(index: int) -> tuple[int, str]:
        capture = captures[index]
        time = stamps[index] if named else capture.mtime_ns
        return time or 0, capture.files[0].path.name

    return sorted(range(len(captures)), key=age, reverse=True)


def _by_rank(file: _File) -> tuple[int, int, str]:
    name = file.name
    rank = name.rank if name.rank is not None else name.parallel.get("tp", 1 << 30)
    return name.parallel.get("pp", 0), rank, name.name


def _file(path: Path) -> _File:
    return _File(path, read_name(path.name), path.stat().st_mtime_ns)


def children(folder: Path, *, folders: bool) -> list[Path]:
    """Files or folders right in `folder`, hidden ones left out, by name."""
    try:
        found = sorted(
            path
            for path in folder.iterdir()
            if not path.name.startswith(".") and (path.is_dir() if folders else path.is_file())
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{printable(str(folder), 200)} cannot be read: {reason}") from error
    if len(found) > MAX_FILES:
        raise UsageError(
            f"{printable(str(folder), 200)} holds more than {MAX_FILES} files; name the traces"
        )
    return found


def why_not_trace(path: Path) -> str:
    """Why the head of the file says that it is no trace; empty when it may be one."""
    role = read_name(path.name).role
    if role not in {"trace", "merged"}:
        return why_not_read(path.name)
    try:
        with path.open("rb") as file:
            raw = file.read(HEAD_BYTES)
        check_head(raw, path.name)
    except TraceFormatError as error:
        return str(error).removeprefix(f"{printable(path.name, 120)} is ").split(";")[0]
    except OSError as error:
        return error.strerror or "cannot be read"
    head = unpacked_head(raw)
    if head and not any(word in head for word in _TRACE_WORDS):
        return "no trace events in it"
    return ""


def _several(count: int, title: str) -> Note:
    return Note(
        "captures_listed",
        f"{count} captures in the folder; the newest is read: {title}",
        "give the files of another capture by name",
    )


def _title(capture: _Capture) -> str:
    names = sorted(file.path.name for file in capture.files)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return printable(names[0], 120) + more


def _nothing_found(folder: Path, listed: tuple[str, ...]) -> str:
    what = f"{printable(str(folder), 200)} holds no trace"
    if not listed and any(folder.glob("attach-*.json")):
        return (
            f"{what} and no row of a cycle log: the server's hooks wrote none; "
            f"`specscope doctor` with that folder says what was attached"
        )
    if not listed:
        return f"{what} (it is empty); {_GIVE}"
    shown = "; ".join(printable(line, 120) for line in listed[:3])
    more = f"; and {len(listed) - 3} more" if len(listed) > 3 else ""
    return (
        f"{what} ({shown}{more}); give a folder with traces (*.trace.json.gz, *.nsys-rep, *.sqlite)"
    )
