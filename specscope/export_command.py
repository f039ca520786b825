"""What `specscope export` does: read, analyse, write a trace for a viewer, say what is in it."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from isal import igzip

from specscope import exits
from specscope.analyzers import activities
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.report import Report
from specscope.dashboards.perfetto import Written, write_perfetto
from specscope.dashboards.perfetto_wire import first_packet
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import size_text
from specscope.dashboards.writing import prove_file, replace_file
from specscope.traces.errors import UsageError
from specscope.traces.load import load

_PACKED: Final = ".gz"


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    perfetto: Path
    cycles: tuple[int, int] | None = None
    rank: int | None = None
    activity_rules: Path | None = None
    no_frames: bool = False
    no_cache: bool = False
    quiet: bool = False


def run(request: Request) -> int:
    """Do it; the exit code."""
    target = request.perfetto
    rules = activities.load_rules(request.activity_rules)
    prove_file(target)
    _refuse_other(target)
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        found = load(
            list(request.paths),
            rank=request.rank,
            all_frames=not request.no_frames,
            cache=not request.no_cache,
            on_progress=on_progress,
        )
    report = analyze(found, Options(rules=rules))
    done: list[Written] = []

    def write(path: Path) -> None:
        with _opened(path, packed=target.name.endswith(_PACKED)) as file:
            done.append(write_perfetto(report, file, request.cycles))

    replace_file(target, write)
    if not request.quiet:
        for line in _said(report, done[0], target):
            exits.say(line)
    return exits.DONE


def _refuse_other(path: Path) -> None:
    """An older export may be written anew; another file was not meant."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    first = first_packet()
    head = b""
    with contextlib.suppress(OSError, EOFError), path.open("rb") as file:
        head = file.read(len(first))
        if head.startswith(b"\x1f\x8b"):
            file.seek(0)
            with gzip.open(file) as unpacked:
                head = unpacked.read(len(first))
    if head != first:
        raise UsageError(
            f"{clean(path, 200)} is there and is no export of specscope, so it is not overwritten; "
            "name another file"
        )


@contextlib.contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    if packed:
        file: Any = igzip.IGzipFile(str(path), "wb")  # type: ignore[no-untyped-call]
        with file:
            yield file
    else:
        with path.open("wb") as file:
            yield file


def _said(report: Report, done: Written, target: Path) -> Iterator[str]:
    """What is in the file, and what is not."""
    counts = ", ".join(f"{count:,} of {kind}" for kind, count in done.slices.items())
    size = f", {size_text(target.stat().st_size)}" if target.is_file() else ""
    yield f"wrote {clean(target, 200)} (slices: {counts}{size})"
    dropped: Counter[str] = Counter()
    for text in report.tables["sources"]["dropped"].to_pylist():
        dropped.update(_counts(text))
    if dropped:
        listed = ", ".join(f"{count:,} {clean(name, 60)}" for name, count in dropped.items())
        yield f"events of the trace that specscope does not read, so they are not in it: {listed}"
    if done.apart:
        ranks = ", ".join(map(str, done.apart))
        reason = report.group.refused if report.group and report.group.refused else ""
        yield f"ranks {ranks} stand on their own clocks" + (f": {reason}" if reason else "")
    elif "matched_collectives" not in report.tables:
        yield "wait and transfer of collectives are not in it: they take all ranks of a run"
    if done.shift_ns:
        yield f"{done.shift_ns:,} ns are added to every time, since some lie below 0"


def _counts(text: str) -> dict[str, Any]:
    """Counts by category; none where the text is not that."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {name: count for name, count in found.items() if isinstance(count, int)}
