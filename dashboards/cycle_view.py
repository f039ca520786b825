"""`--cycle N`: every op of one cycle in order, and the idle between them with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console
from rich.text import Text

from specscope.analyzers.report import Report
from specscope.analyzers.words import CAUSES
from specscope.dashboards.cycle_slice import CycleSlice, Idle, Op, cycle_slice, ranks_with_cycles
from specscope.dashboards.layout import BOLD, DIM, hanging
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import CAUSE_MEANINGS, stage_names
from specscope.dashboards.units import count_text, time_text

# Names longer than this are cut also where no terminal asks for it.
_LONGEST_NAME: Final = 300
_SHORTEST_NAME: Final = 8
_NARROW: Final = 110
_ABOUT: Final = (
    "start: since the cycle began; delay: since the launch call began; idle lines say why "
    "nothing ran and stand under the stage whose op ends them"
)
_ABOUT_HOST: Final = "start: since the cycle began; a run on the CPU: the main thread of the rank"
_HEADERS: Final = ("start us", "for us", "delay us", "stage", "activity", "stream", "name")
_WIDTHS: Final = (10, 9, 9, 13, 17, 6)


def print_cycle(report: Report, number: int, console: Console) -> None:
    """Print cycle `number` of the lowest rank there is (`--rank` reads one only).

    Raises:
        EvidenceError: the trace has no whole cycle.
        UsageError: there is no such cycle.
    """
    ranks = ranks_with_cycles(report)
    piece = cycle_slice(report, ranks[0] if ranks else 0, number)
    for line in _head(piece, ranks, console):
        console.print(line, soft_wrap=True)
    room = console.width if console.is_terminal else None
    console.print(_line([Text(header, DIM) for header in _HEADERS], room), soft_wrap=True)
    for line in _lines(piece, stage_names(report), room):
        console.print(line, soft_wrap=True)


def _head(piece: CycleSlice, ranks: list[int], console: Console) -> Iterator[Text]:
    row = piece.row
    batch = "" if row["batch"] is None else f", batch {row['batch']}"
    mark = f", marked as {row['mark']}" if row["mark"] else ""
    ops = "" if piece.host else f", {count_text(len(piece.ops))} ops"
    yield Text(
        f"Cycle {piece.number} of rank {piece.rank}: {row['kind']}{batch}, "
        f"{time_text(piece.ns)}{ops}{mark}",
        BOLD,
    )
    if len(ranks) > 1:
        others = ", ".join(str(rank) for rank in ranks[1:])
        yield Text(f"--rank shows another one of them: {others}", DIM)
    about = _ABOUT_HOST if piece.host else _ABOUT
    yield from hanging(Text(about, DIM), console, indent=0)
    for cause in CAUSES:
        if any(idle.cause == cause for idle in piece.idle):
            name = f"idle: {cause.replace('_', ' ')}"
            yield Text(f"  {name:17}  {CAUSE_MEANINGS[cause]}", DIM)


def _lines(piece: CycleSlice, names: Mapping[str, str], room: int | None) -> Iterator[Text]:
    """Ops and idle in order of time."""
    rows: list[tuple[int, int, Op | Idle]] = [
        *((op.start_ns, 1, op) for op in piece.ops),
        *((idle.start_ns, 0, idle) for idle in piece.idle),
        *((host.start_ns, 1, host) for host in piece.host),
    ]
    on_host = bool(piece.host)
    for _, order, row in sorted(rows, key=lambda row: row[:2]):
        if isinstance(row, Op):
            yield _op_line(row, names, room)
        elif on_host and order:
            yield _idle_line(row, names, row.cause, room)
        else:
            yield _idle_line(row, names, f"idle: {row.cause}", room)


def _op_line(op: Op, names: Mapping[str, str], room: int | None) -> Text:
    marks = [] if op.owns_time else ["hidden"]
    marks += ["carried"] if op.carried else []
    name = clean(op.name, _LONGEST_NAME) + (f" ({', '.join(marks)})" if marks else "")
    return _line(
        [
            Text(_us(op.start_ns)),
            Text(_us(op.ns)),
            Text("-" if op.delay_ns is None else _us(op.delay_ns)),
            Text(names[op.stage], stage_colour(op.stage)),
            Text(op.activity.replace("_", " ")),
            Text(str(op.stream)),
            Text(name),
        ],
        room,
    )


def _idle_line(idle: Idle, names: Mapping[str, str], what: str, room: int | None) -> Text:
    cells = [_us(idle.start_ns), _us(idle.ns), "", names[idle.stage]]
    return _line([Text(cell, DIM) for cell in (*cells, what.replace("_", " "), "", "")], room)


def _us(ns: int) -> str:
    """Microseconds to the nanosecond."""
    return f"{ns / 1e3:.3f}"


def _line(cells: list[Text], room: int | None) -> Text:
    gap = Text(" " if room is not None and room < _NARROW else "  ")
    line = Text()
    for index, width in enumerate(_WIDTHS):
        cell = cells[index]
        blank = Text(" " * max(width - cell.cell_len, 0))
        right = index < 3 or index == 5
        line = line + (blank + cell if right else cell + blank) + gap
    name = cells[-1]
    if room is not None:
        name.truncate(max(room - line.cell_len, _SHORTEST_NAME), overflow="ellipsis")
    line = line + name
    line.rstrip()
    return line
