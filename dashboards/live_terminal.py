"""The live view in a terminal: redrawn in place, or line after line where it is a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from specscope.analyzers.live_view import LiveView
from specscope.dashboards import live_sections as words
from specscope.dashboards.layout import BOLD, DIM, grid_lines, hanging
from specscope.dashboards.palette import stage_colour
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import time_text

_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def live_lines(view: LiveView, console: Console, title: str = "") -> list[Text]:
    """The whole view, line by line."""
    colours = console.color_system is not None and not console.no_color
    head = ", ".join(part for part in (title, words.title_line(view)) if part)
    blocks: list[list[Text]] = [hanging(Text(head, DIM), console, indent=0) if head else []]
    first = hanging(Text(words.head_line(view), BOLD), console, indent=0)
    for text in (words.basis_line(view), words.clock_line(view)):
        first += hanging(text, console) if text else []
    blocks.append(first)
    for grid in (words.stage_grid(view), words.rank_grid(view)):
        if grid is not None:
            blocks.append(grid_lines(grid, console, colours=colours))
    blocks.append(_curves(view, console))
    notes = [line for note in words.note_lines(view) for line in hanging(note, console, first="!")]
    blocks.append(notes)
    lines: list[Text] = []
    for block in blocks:
        if block:
            lines += [Text(), *block] if lines else block
    return lines


def _curves(view: LiveView, console: Console) -> list[Text]:
    """The mean cycle, the largest stage and the accept length over time, as small bars."""
    if not view.shares:
        return []
    lines = hanging(words.accept_line(view), console, indent=0)
    room = max(min(len(view.points), console.width - 34), 1)
    points = view.points[-room:]
    cycle = [_mean(point.cycle_ns.values()) for point in points]
    rows: list[tuple[str, str, list[float | None], Callable[[float], str]]] = [
        (f"mean {words.lap(view)}", "schedule", cycle, time_text)
    ]
    top = max(
        (share for share in view.shares if share.rank is None and share.part_of is None),
        key=lambda share: share.share,
    )
    stage = [point.stage_ns.get(top.stage) for point in points]
    rows.append((stage_name(top.stage), top.stage, stage, time_text))
    lengths = [point.accept_length for point in points]
    if any(value is not None for value in lengths):
        rows.append(("accept length", "accept", lengths, "{:.2f}".format))
    lines += [_spark(*row) for row in rows]
    seconds = words.duration_text(view.point_s * len(points))
    lines.append(Text(f"{'':14}a bar is {view.point_s:.0f} s, all of them {seconds}", DIM))
    return lines


def _spark(
    name: str, stage: str, values: list[float | None], write: Callable[[float], str]
) -> Text:
    """A row of bars from the least to the greatest value, both named."""
    known = [value for value in values if value is not None]
    if not known:
        return Text(f"{name:14}nothing on record")
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    bars = "".join(
        " " if value is None else _BLOCKS[int((value - low) / span * (len(_BLOCKS) - 1))]
        for value in values
    )
    return Text.assemble(
        f"{name:14}", (bars, stage_colour(stage)), f" {write(low)} to {write(high)}"
    )


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


class Screen:
    """Shows one view after the other: on a terminal in place, else a line for each that is new.

    Used as a context manager; nothing of the terminal stays changed after it.
    """

    def __init__(self, console: Console, title: str = "") -> None:
        self._console = console
        self._title = title
        self._live: Live | None = None
        self._said = ""

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                screen=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, view: LiveView) -> None:
        """Draw it."""
        if self._live is None:
            line = words.plain_line(view)
            if line != self._said:
                self._said = line
                self._console.print(Text(line), soft_wrap=True)
                self._console.file.flush()
            return
        lines = live_lines(view, self._console, self._title)
        hint = Text("Ctrl-C ends; the server goes on", DIM)
        room = max(self._console.height - 2, 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], Text(f"... {len(lines) - room + 1} more lines", DIM)]
        self._live.update(Group(*lines, hint), refresh=True)
