"""Which exports of a folder were recorded together: ranks overlap in time, windows do not.

`nsys` writes one file a rank where each rank runs under a profiler of its own, and one file a
window with `--capture-range-end=repeat`. Their names look alike; their times tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import nsys, nsys_facts
from . import nsys_names as names
from .errors import SpecscopeError
from .nsys_folder import is_export
from .nsys_rows import plausible
from .nsys_store import Store
from .run import Note
from .sniff import printable

# The forms of one report, by what stands behind its name, best to read first.
FORMS: Final = (".sqlite", "_pqtdir", "_arwdir", ".nsys-rep", ".qdrep")


@dataclass(frozen=True)
class Window:
    """When one export was recorded, in ns since 1970; None where it does not say."""

    start_ns: int | None
    stop_ns: int | None


@dataclass(frozen=True)
class Chosen:
    """The exports to read, and (path, reason) of those that are not."""

    files: tuple[Path, ...]
    others: tuple[tuple[Path, str], ...]
    notes: tuple[Note, ...]


def window_of(path: Path) -> Window:
    """The window of one export. Raises TraceFormatError for what is none, and OSError."""
    store = nsys.open_export(path)
    try:
        known = nsys_facts.read_recording(store)
        base, start, stop = known.clock_base_ns, known.start_ns, known.stop_ns
        if start is None or stop is None:  # taken out, or never written: the events tell
            start, stop = _of_events(store)
    finally:
        store.close()
    if base is None or start is None or stop is None:
        return Window(base, None)
    return Window(base + start, base + stop)


def _of_events(store: Store) -> tuple[int | None, int | None]:
    """First start and last end of what is recorded."""
    spans = []
    for table in (names.KERNELS, names.COPIES, names.CALLS, names.RANGES):
        found = store.read(table, ("start", "end"))
        sound = plausible(found["start"], found["end"])
        if sound.any():
            spans.append((int(found["start"][sound].min()), int(found["end"][sound].max())))
    if not spans:
        return None, None
    return min(start for start, _ in spans), max(stop for _, stop in spans)


def form_of(path: Path) -> str | None:
    """Which form of a report this is by its name, None: none."""
    form = next((form for form in FORMS if path.name.endswith(form)), None)
    if form is None or form.startswith("_"):
        return form if form and path.is_dir() and is_export(path) else None
    return form if path.is_file() else None


def choose(paths: Iterable[Path], window: Callable[[Path], Window] = window_of) -> Chosen:
    """The newest exports that were recorded together, each report in its best form."""
    best, others = _one_form_each(paths)
    if len(best) < 2:
        return Chosen(tuple(best), tuple(others), ())
    windows: dict[Path, Window] = {}
    for path in best:
        try:
            windows[path] = window(path)
        except (SpecscopeError, OSError) as error:
            others.append((path, _why(error)))
    newest_first = sorted(windows, key=lambda path: (windows[path].start_ns or 0, path.name))[::-1]
    together = newest_first[:1]
    for path in newest_first[1:]:
        if any(_overlap(windows[path], windows[one]) for one in together):
            together.append(path)
        else:
            others.append((path, "an older recording, or another window of the same one"))
    notes = []
    if len(together) < len(windows):
        text = f"{len(windows)} recordings in the folder, the newest is read: "
        mend = "give the files of another recording by name"
        notes.append(Note("captures_listed", text + printable(together[0].name, 120), mend))
    files = tuple(sorted(together, key=lambda path: path.name))
    return Chosen(files, tuple(others), tuple(notes))


def _one_form_each(paths: Iterable[Path]) -> tuple[list[Path], list[tuple[Path, str]]]:
    by_report: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        form = form_of(path)
        if form is not None:
            report = path.name.removesuffix(form)
            by_report.setdefault(report, []).append((FORMS.index(form), path))
    best, others = [], []
    for forms in by_report.values():
        (_, first), *rest = sorted(forms)
        best.append(first)
        others += [(path, f"the same report as {printable(first.name, 120)}") for _, path in rest]
    return best, others


def _overlap(a: Window, b: Window) -> bool:
    """Were both recorded at one time? Without a time nothing is held to belong together."""
    if a.start_ns is None or b.start_ns is None or a.stop_ns is None or b.stop_ns is None:
        return False
    return max(a.start_ns, b.start_ns) < min(a.stop_ns, b.stop_ns)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "cannot be read"
    return str(error).partition(" is ")[2].split(";")[0] or str(error)


def candidates(children: Sequence[Path]) -> list[Path]:
    """Those of them that are reports or exports of one."""
    return [path for path in children if form_of(path) is not None]
