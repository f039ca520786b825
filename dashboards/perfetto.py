"""A run as a Perfetto trace: what was recorded and what the analysis says of it, side by side.

The native format, not JSON: there, slices that overlap on a track are dropped by the viewer and
times are rounded. Here times are whole nanoseconds, and what overlaps gets a lane of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Final

import numpy as np

from specscope.analyzers.columns import Int
from specscope.analyzers.report import Report
from specscope.dashboards import perfetto_wire as wire
from specscope.dashboards.perfetto_lanes import in_order, lanes
from specscope.dashboards.perfetto_slices import Column, Slices, Track
from specscope.dashboards.perfetto_tracks import CYCLES, clock_of, tracks
from specscope.dashboards.safe_text import clean
from specscope.traces.errors import UsageError

_PIECE: Final = 200_000  # slices that are written at once
_RANKS: Final = 1 << 20  # ids of the groups of ranks begin here; lanes come behind
_ALL: Final = _RANKS - 1  # the group of what all ranks do together


@dataclass
class Written:
    """What went into the file."""

    slices: dict[str, int] = field(default_factory=dict)  # by table, or `analysis`
    lanes: int = 0
    shift_ns: int = 0  # added to every time, where one would be below 0
    apart: tuple[int, ...] = ()  # ranks that stand on a clock of their own


def write_perfetto(
    report: Report, file: IO[bytes], cycles: tuple[int, int] | None = None
) -> Written:
    """Write the trace, or what of it lies in the cycles from the first to the last; what it has.

    Raises UsageError where there is no such cycle.
    """
    found = list(tracks(report))
    if cycles is not None:
        window = _window(found, *cycles)
        found = [replace(track, slices=_inside(track.slices, window)) for track in found]
    _, aligned = clock_of(report)
    ranks = [one.rank for one in report.run.ranks]
    apart = tuple(rank for rank in ranks if rank not in aligned) if len(ranks) > 1 else ()
    earliest = min((int(t.slices.start.min()) for t in found if len(t.slices.start)), default=0)
    done = Written(shift_ns=max(-earliest, 0), apart=apart)
    file.write(wire.first_packet())
    names = wire.Names()
    for rank in ranks:
        title = f"rank {rank}" + (" (own clock)" if rank in apart else "")
        file.write(wire.track(_RANKS + rank, title, order=rank))
    if any(track.rank is None for track in found):
        file.write(wire.track(_ALL, "all ranks", order=_RANKS))
    for order, track in enumerate(found):
        kind = track.recorded or "analysis"
        done.slices[kind] = done.slices.get(kind, 0) + len(track.slices.start)
        for piece in _track(track, order, names, done):
            file.write(piece)
    return done


def _window(found: list[Track], first: int, last: int) -> tuple[int, int]:
    """From the start of the first of these cycles to the end of the last one, on any rank."""
    start: list[int] = []
    end: list[int] = []
    for track in found:
        if track.title == CYCLES:
            number = track.slices.arguments["cycle"].values
            rows = np.flatnonzero((number >= first) & (number <= last))
            start += track.slices.start[rows].tolist()
            end += track.slices.end[rows].tolist()
    if not start:
        raise UsageError(
            f"no cycle {first} to {last} in this run; analyze lists how many there are"
        )
    return min(start), max(end)


def _inside(slices: Slices, window: tuple[int, int]) -> Slices:
    """The slices that reach into the window, whole."""
    return slices.at(np.flatnonzero((slices.end >= window[0]) & (slices.start <= window[1])))


def _track(track: Track, order: int, names: wire.Names, done: Written) -> Iterator[bytes]:
    slices = track.slices
    if not len(slices.start):
        return
    lane = np.zeros(len(slices.start), np.int64)
    if not track.instant:
        lane = lanes(slices.start, slices.end)
    first = 2 * _RANKS + done.lanes
    count = int(lane.max()) + 1
    done.lanes += count
    parent = _ALL if track.rank is None else _RANKS + track.rank
    for number in range(count):
        title = clean(track.title) + (f" ({number + 1})" if number else "")
        yield wire.track(first + number, title, parent=parent, order=order, note=clean(track.note))
    words = names.numbers("event", [clean(word) for word in slices.words])
    arguments = [_argument(name, one, names) for name, one in slices.arguments.items()]
    if slices.flow is not None:
        arguments.append(wire.Argument(slices.flow, slices.flow != 0, flow=True))
    yield names.packet()
    time_start, time_end = slices.start + done.shift_ns, slices.end + done.shift_ns
    for number in range(count):
        rows = np.flatnonzero(lane == number)
        if track.instant:
            order_of, begin = rows, np.ones(len(rows), dtype=bool)
        else:
            found = in_order(time_start[rows], time_end[rows])
            order_of, begin = rows[found.slice], found.begin
        time = np.where(begin, time_start[order_of], time_end[order_of])
        for at in range(0, len(time), _PIECE):
            part = slice(at, at + _PIECE)
            yield wire.records(
                wire.Marks(
                    time[part],
                    begin[part],
                    np.full(len(time[part]), first + number, np.int64),
                    words[slices.name[order_of[part]]],
                    tuple(_rows(one, order_of[part]) for one in arguments),
                    track.instant,
                )
            )


def _argument(name: str, column: Column, names: wire.Names) -> wire.Argument:
    """A column with its name and its words by their numbers."""
    number = names.number("argument", name)
    if column.words is None:
        return wire.Argument(column.values, column.there, number)
    words = names.numbers("value", [*map(clean, column.words), ""])
    return wire.Argument(words[column.values], column.there, number, is_text=True)


def _rows(one: wire.Argument, rows: Int) -> wire.Argument:
    return wire.Argument(one.value[rows], one.there[rows], one.name, one.is_text, one.flow)
