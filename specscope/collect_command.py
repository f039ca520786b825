"""What `specscope collect` does: every run analysed, its findings put into the dataset."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from specscope import __version__, exits
from specscope.analyzers import activities
from specscope.analyzers.findings import DUPLICATE, UNREADABLE, Findings, without
from specscope.analyzers.many_runs import How, findings_of
from specscope.dashboards.dataset import Dataset
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.engine_options import IN_PROCESS, chosen
from specscope.traces.engines import Engine, Failed, InProcess
from specscope.traces.errors import UsageError

_WORDS: Final = {
    "answered": "with a verdict",
    "refused": "without a verdict",
    "duplicate": "there already under another path",
    "unreadable": "unreadable",
}


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    dataset: Path
    activity_rules: Path | None = None
    engine: str = IN_PROCESS
    ray_address: str | None = None
    no_cache: bool = False
    quiet: bool = False


def run(request: Request) -> int:
    """Do it; the exit code."""
    own = request.activity_rules
    # Without a file of the user's own every process has the bundled rules already.
    rules = activities.load_rules(own) if own else None
    paths = _each_once(request.paths)
    dataset = Dataset(request.dataset)
    how = How(__version__, rules, cache=not request.no_cache)
    with (
        chosen(request.engine, request.ray_address) as engine,
        reading(sys.stderr, enabled=not request.quiet) as on_progress,
    ):
        found = Collected(dataset, paths, how)
        for done, path in enumerate(found.each(engine or InProcess()), 1):
            if on_progress is not None:
                on_progress(Path(path).name, done / len(paths))
    if not request.quiet:
        for path, (outcome, said) in zip(paths, found.said, strict=True):
            sys.stdout.write(f"{clean(path)}  {outcome}: {clean(said, 400)}\n")
    counts = Counter(outcome for outcome, _ in found.said)
    told = ", ".join(f"{counts[word]} {what}" for word, what in _WORDS.items() if counts[word])
    many = "run" if len(paths) == 1 else "runs"
    sys.stdout.write(f"{len(paths)} {many} in {clean(request.dataset)}: {told}\n")
    return exits.UNREADABLE if counts[UNREADABLE] else exits.DONE


def _each_once(paths: tuple[str, ...]) -> list[str]:
    """The whole paths in order, the same place once."""
    if "-" in paths:
        raise UsageError("standard input has no place that a dataset could name; give a file")
    return list(dict.fromkeys(str(Path(path).resolve()) for path in paths))


class Collected:
    """Puts the findings of each path into the dataset, as they come; what became of each."""

    def __init__(self, dataset: Dataset, paths: list[str], how: How) -> None:
        self._dataset, self._paths, self._how = dataset, paths, how
        self._said: dict[int, tuple[str, str]] = {}
        self._first: dict[str, int] = {}  # the place of each content

    @property
    def said(self) -> list[tuple[str, str]]:
        """(outcome, verdict or reason) of each path, in order."""
        return [self._said[place] for place in range(len(self._paths))]

    def each(self, engine: Engine) -> Iterator[str]:
        """The paths as they are done and written."""
        work = partial(findings_of, how=self._how)
        for place, found in engine.each(work, self._paths):
            path = self._paths[place]
            if isinstance(found, Failed):
                reason = str(found.error)
                self._put(place, without(path, UNREADABLE, reason, self._how.version))
            else:
                self._put(place, found)
            yield path

    def _put(self, place: int, found: Findings) -> None:
        """Write it. Of two with one content that path has it which was given first."""
        content = found.content
        if content is not None:
            first = self._first.setdefault(content, place)
            if place < first:
                self._first[content] = place
                self._write(first, self._duplicate(first, place, content))
            elif place > first:
                found = self._duplicate(place, first, content)
        self._write(place, found)

    def _duplicate(self, place: int, first: int, content: str) -> Findings:
        reason = f"the same recording as {self._paths[first]}"
        return without(self._paths[place], DUPLICATE, reason, self._how.version, content)

    def _write(self, place: int, found: Findings) -> None:
        self._dataset.put(found)
        self._said[place] = found.outcome, found.said
