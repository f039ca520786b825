"""What of an input can be copied without secrets, each file by its kind, and what cannot."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from . import cycle_log, scrub_columns, scrub_log, scrub_sqlite
from .errors import UsageError
from .file_names import role_of, why_not_read
from .load import unreadable
from .sniff import printable, refusal

MAX_FILES: Final = 10_000
_REPORT: Final = re.compile(r".*\.(?:nsys-rep|qdrep|qdstrm)", re.DOTALL)
# Roles by name of what is a trace, whether or not it would be read beside others.
_TRACES: Final = frozenset({"trace", "graph_capture", "merged", "frontend", "unfinished"})


@dataclass
class Part:
    """One file, or folder of tables, of the input."""

    path: Path
    place: tuple[str, ...]  # below OUT, by the names of the input; empty: OUT itself
    kind: str  # kineto, sqlite, columns, log, document
    state: Any = field(default=None, repr=False)  # what learning left for writing


def parts_of(source: Path) -> tuple[list[Part], list[str]]:
    """What of the input is copied, and a line for all else."""
    if not source.is_dir():
        return [Part(source, (), _kind(source))], []
    if scrub_columns.is_folder(source):
        return _tables_in(source, ())
    parts: list[Part] = []
    others: list[str] = []
    for folder, folders, names in os.walk(source):
        here = Path(folder)
        below = here.relative_to(source).parts
        for name in sorted(folders):
            inner = here / name
            if name.startswith(".") or inner.is_symlink():
                folders.remove(name)
                others.append(f"{_shown(source, inner)}/: hidden, or a link")
            elif scrub_columns.is_folder(inner):
                folders.remove(name)
                found, more = _tables_in(inner, (*below, name))
                parts += found
                others += [f"{_shown(source, inner)}/{line}" for line in more]
        folders.sort()
        for name in sorted(names):
            path = here / name
            why = "hidden" if name.startswith(".") else _why_not(path)
            if why:
                others.append(f"{_shown(source, path)}: {why}")
            else:
                parts.append(Part(path, (*below, name), _kind(path)))
            if len(parts) + len(others) > MAX_FILES:
                raise UsageError(
                    f"{printable(str(source), 200)} holds more than {MAX_FILES} files; name a "
                    "folder of one capture"
                )
    return parts, sorted(others)


def _tables_in(folder: Path, place: tuple[str, ...]) -> tuple[list[Part], list[str]]:
    known = set(scrub_columns.files(folder))
    others = [
        f"{printable(path.name, 120)}: no table"
        for path in sorted(folder.iterdir())
        if path not in known
    ]
    return [Part(folder, place, "columns")], others


def _shown(source: Path, path: Path) -> str:
    return printable(str(path.relative_to(source)), 120)


def _why_not(path: Path) -> str:
    """Why a file in a folder is not copied; empty when it may be."""
    if not path.is_file():
        return "no regular file"
    if scrub_log.is_document(path):
        return ""
    try:
        if scrub_sqlite.is_sqlite(path):
            return ""
    except OSError as error:
        return error.strerror or "cannot be read"
    if cycle_log.is_log(path):
        return ""
    if _REPORT.fullmatch(path.name):
        return "a report, which holds the program's environment; export it, scrub the export"
    return "" if role_of(path.name) in _TRACES else why_not_read(path.name)


def _kind(path: Path) -> str:
    if _REPORT.fullmatch(path.name):
        what = "a report of Nsight Systems, which holds the environment of the program"
        raise refusal(path.name, what, "run `nsys export --type=sqlite` on it and scrub the export")
    if scrub_log.is_document(path):
        return "document"
    try:
        if scrub_sqlite.is_sqlite(path):
            return "sqlite"
    except OSError as error:
        raise unreadable(path, error) from error
    return "log" if cycle_log.is_log(path) else "kineto"
