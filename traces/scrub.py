"""A copy of any supported input without secrets: which files, how each, and where to.

Everything is looked at before anything is written, so that a name learnt from the last file is
masked in the first. The copy is made under another name beside OUT and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import scrub_columns, scrub_kineto, scrub_log, scrub_sqlite
from .errors import SpecscopeError, TraceFormatError, UsageError
from .events import ScanOptions
from .load import check_exists, unreadable
from .read import STDIN
from .scrub_parts import Part, parts_of
from .scrub_words import Scrubber
from .sniff import GZIP, printable, refusal

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Scrubbed:
    """What was written, what was replaced by kind, and what was not copied, with the reason."""

    files: tuple[Path, ...]
    bytes: int
    counts: Counter[str]
    not_copied: tuple[str, ...] = ()


def scrub(
    source: str | Path,
    out: str | Path,
    *,
    force: bool = False,
    max_text_bytes: int = ScanOptions().max_text_bytes,
    on_progress: Progress | None = None,
) -> Scrubbed:
    """Write a copy of `source` to `out`, in the same form.

    Raises UsageError for places that cannot be, TraceFormatError for what is no supported input;
    both in one line.
    """
    source, out = Path(source), Path(out)
    if str(source) == STDIN:
        raise UsageError("scrub reads its input twice; give a file or a folder")
    check_exists(source)
    _check_apart(source, out)
    options = ScanOptions(max_text_bytes=max_text_bytes)
    scrubber = Scrubber()
    parts, not_copied = parts_of(source)
    _check_target(source, out, parts, force=force)
    steps = _Steps(on_progress, 2 * len(parts))
    parts, bad = _learn_all(parts, scrubber, options, steps, alone=not source.is_dir())
    not_copied += bad
    if not parts:
        shown = f" ({'; '.join(not_copied[:3])})" if not_copied else ""
        raise TraceFormatError(
            f"{printable(str(source), 200)} holds nothing that specscope reads{shown}; give a "
            "trace, an export or a folder with some"
        )
    scrubber.counts.clear()
    with _beside(out) as place:
        made = place / "copy"
        names = _names(parts, scrubber)
        if source.is_dir():
            made.mkdir()
        for part, name in zip(parts, names, strict=True):
            target = made.joinpath(*name)
            with _readable(part):
                _write(part, target, scrubber, options)
            steps.done(part.path.name)
        if force and out.is_dir():
            _clear(out, made)
        made.replace(out)
    files = sorted(path for path in (out.rglob("*") if out.is_dir() else [out]) if path.is_file())
    size = sum(path.stat().st_size for path in files)
    return Scrubbed(tuple(files), size, scrubber.counts, tuple(not_copied))


class _Steps:
    def __init__(self, report: Progress | None, count: int):
        self._report, self._count, self._done = report, max(count, 1), 0

    def done(self, name: str) -> None:
        self._done += 1
        if self._report is not None:
            self._report(name, self._done / self._count)


# ---- the two passes


def _learn_all(
    parts: Sequence[Part], scrubber: Scrubber, options: ScanOptions, steps: _Steps, *, alone: bool
) -> tuple[list[Part], list[str]]:
    """Learn from every part; those that can be read, and a line for each of the others."""
    good: list[Part] = []
    bad: list[str] = []
    for part in parts:
        try:
            with _readable(part):
                _learn(part, scrubber, options)
        except SpecscopeError as error:
            if alone:
                raise
            bad.append(str(error).split(";")[0])
        except OSError as error:
            if alone:
                raise unreadable(part.path, error) from error
            bad.append(f"{printable(part.path.name, 120)}: {error.strerror or 'cannot be read'}")
        else:
            good.append(part)
        steps.done(part.path.name)
    return good, bad


@contextlib.contextmanager
def _readable(part: Part) -> Iterator[None]:
    """A damaged file may hold sizes and texts that cannot be: one line for those, too."""
    try:
        yield
    except (MemoryError, RecursionError, UnicodeError, SystemError) as error:
        what = f"damaged, or too large to be read ({type(error).__name__})"
        raise refusal(part.path.name, what, "copy or export it again") from error


def _learn(part: Part, scrubber: Scrubber, options: ScanOptions) -> None:
    scrub_log.learn_name(part.path, scrubber)
    if part.kind == "kineto":
        part.state = scrub_kineto.learn(part.path, scrubber, options)
    elif part.kind == "sqlite":
        scrub_sqlite.learn(part.path, scrubber)
    elif part.kind == "columns":
        scrub_columns.learn(part.path, scrubber)
    elif part.kind == "document":
        scrubber.learn(scrub_log.load_document(part.path))


def _write(part: Part, target: Path, scrubber: Scrubber, options: ScanOptions) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.kind == "kineto":
        with _sink(part.path, target) as sink:
            scrub_kineto.write(part.path, part.state, scrubber, options, sink)
    elif part.kind == "sqlite":
        scrub_sqlite.write(part.path, target, scrubber)
    elif part.kind == "columns":
        target.mkdir(exist_ok=True)
        scrub_columns.write(part.path, target, scrubber)
    elif part.kind == "log":
        scrub_log.write_log(part.path, target, scrubber)
    else:
        scrub_log.write_document(part.path, target, scrubber)
    # The newest capture of a folder may be known by the times of its files only.
    times = part.path.stat()
    os.utime(target, ns=(times.st_mtime_ns, times.st_mtime_ns))


@contextlib.contextmanager
def _sink(path: Path, target: Path) -> Iterator[Callable[[bytes], object]]:
    """Where text goes: packed where the source is, without its name and time in the head."""
    with target.open("wb") as file:
        if not _is_packed(path):
            yield file.write
            return
        from isal import igzip

        packed = igzip.IGzipFile("", "wb", 2, file, 0)  # type: ignore[no-untyped-call]
        with packed:
            yield packed.write


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP


# ---- names and places


def _names(parts: Sequence[Part], scrubber: Scrubber) -> list[tuple[str, ...]]:
    """The place of each part below OUT, its names masked, no two alike."""
    taken: set[tuple[str, ...]] = set()
    out: list[tuple[str, ...]] = []
    for part in parts:
        name = tuple(_file_name(one, scrubber) for one in part.place)
        number = 1
        while name and name in taken:
            number += 1
            name = (*name[:-1], f"{number}-{_file_name(part.place[-1], scrubber)}")
        taken.add(name)
        out.append(name)
    return out


def _file_name(name: str, scrubber: Scrubber) -> str:
    raw = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    masked = scrubber.file_name(raw)
    return name if masked == raw else masked.replace("/", "_").replace("\0", "_")


def _check_apart(source: Path, out: Path) -> None:
    """Raises UsageError where one of the two lies in the other."""
    given, made = source.resolve(), out.resolve()
    title = printable(str(out), 200)
    if given == made or (out.exists() and source.samefile(out)):
        raise UsageError(f"{title} is the input; name another place for the copy")
    if given in made.parents:
        raise UsageError(f"{title} lies in the input; name a place outside of it")
    if made in given.parents:
        raise UsageError(f"{title} holds the input; name another place for the copy")


def _check_target(source: Path, out: Path, parts: Sequence[Part], *, force: bool) -> None:
    title = printable(str(out), 200)
    if not out.parent.is_dir():
        raise UsageError(f"{title}: there is no folder {printable(str(out.parent), 200)}; make it")
    if parts and parts[0].kind == "kineto" and not source.is_dir():
        packed = _is_packed(source)
        if packed != out.name.endswith(".gz"):
            what = "packed with gzip, so end its copy in .gz" if packed else "not packed with gzip"
            raise UsageError(f"{title}: the input is {what}; name it so")
    if not (out.exists() or out.is_symlink()):
        return
    if not force:
        raise UsageError(f"{title} is there already; name another place, or --force")
    if out.is_dir() != source.is_dir() or out.is_symlink():
        what = "a link" if out.is_symlink() else "a folder" if out.is_dir() else "a file"
        raise UsageError(f"{title} is {what} and the copy would be none; name another place")


def _clear(out: Path, made: Path) -> None:
    """Take an earlier copy away; refuses a folder with anything that the new one does not have."""
    for path in sorted(out.rglob("*")):
        new = made / path.relative_to(out)
        if path.is_symlink() or not (new.is_dir() if path.is_dir() else new.is_file()):
            raise UsageError(
                f"{printable(str(out), 200)} holds {printable(path.name, 120)}, which is not of "
                "this copy; name another place"
            )
    shutil.rmtree(out)


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A private folder beside OUT that is gone afterwards; what the disk says in one line."""
    place = out.resolve().parent / f".{out.name[:100]}.{secrets.token_hex(4)}.tmp"
    try:
        place.mkdir(mode=0o700)
        yield place
    except SpecscopeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        mend = "make room and try again" if error.errno in _FULL else "check the path"
        raise UsageError(f"cannot write {printable(str(out), 200)}: {reason}; {mend}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
