"""What evidence of any kind comes down to: stage spans and the openings of cycles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specscope.analyzers.spans import Span, timeline


@dataclass(frozen=True)
class Opening:
    """Where the host begins a cycle (or a plain step).

    On the GPU the cycle begins with the first op launched from here on, before the next
    opening, by a span of `stage`; with `stage` None any op of `thread` will do.
    """

    start: int
    thread: int
    stage: int | None
    cycle: int | None = None
    batch: int | None = None
    tokens: int | None = None
    k: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Placement:
    """Stages of one rank by one kind of evidence (or several together).

    `sources` names every kind of evidence that took part, best first. `accept_apart` tells
    whether accept is told from verify. `notes` are sentences for the report.
    """

    spans: list[Span]
    openings: list[Opening]
    sources: tuple[str, ...]
    speculates: bool
    accept_apart: bool = False
    complete: bool = False  # the evidence names every stage, none is what is left over
    notes: tuple[str, ...] = field(default=())
    clock: str = "host"  # of the spans; `cuda_events` where a log gives the GPU's times


def merged_openings(spans: Sequence[Span], opening_stage: int) -> list[Opening]:
    """Openings at the spans of `opening_stage`, those of one round taken as one.

    Spans with the same cycle number, or with no time of another stage between them, are one
    opening (draft steps). `spans` are of one thread.
    """
    openings: list[Opening] = []
    opened: set[int] = set()
    last: Span | None = None
    elsewhere = True
    _, owners = timeline(spans)
    for owner in owners.tolist():
        if owner < 0:
            continue
        span = spans[owner]
        if span.stage != opening_stage:
            elsewhere = True
            continue
        same = owner in opened or not elsewhere
        if span.cycle is not None and last is not None and last.cycle is not None:
            same = span.cycle == last.cycle
        if not same or last is None:
            openings.append(
                Opening(
                    span.start, span.thread, span.stage, span.cycle, span.batch, span.tokens, span.k
                )
            )
        opened.add(owner)
        last, elsewhere = span, False
    return openings


def with_batches(
    openings: Sequence[Opening], forwards: Sequence[tuple[int, int | None]]
) -> list[Opening]:
    """Openings that know no batch, with that of the first target forward after them.

    `forwards` are (host start, batch) in order of start.
    """
    starts = [start for start, _ in forwards]
    out = []
    for number, opening in enumerate(openings):
        at = bisect_left(starts, opening.start)
        until = openings[number + 1].start if number + 1 < len(openings) else None
        known = at < len(starts) and (until is None or starts[at] < until)
        if opening.batch is None and known:
            opening = replace(opening, batch=forwards[at][1])  # noqa: PLW2901
        out.append(opening)
    return out


def busiest_thread(spans: Sequence[Span], stage: int) -> int | None:
    """The thread with the most spans of that stage."""
    threads = [span.thread for span in spans if span.stage == stage]
    if not threads:
        return None
    values, counts = np.unique(threads, return_counts=True)
    return int(values[np.argmax(counts)])
