"""A table of text, and the lines beside it: what every medium draws in its own way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row: its cells, the stage that gives it its colour, and how far it is set in."""

    cells: tuple[str, ...]
    stage: str | None = None
    depth: int = 0


@dataclass(frozen=True)
class Grid:
    """Rows under headers; the first `left` columns and a last column of words stand left."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    left: int = 1
    words_last: bool = False

    def is_left(self, column: int) -> bool:
        """Does that column hold words?"""
        return column < self.left or (self.words_last and column == len(self.columns) - 1)


@dataclass(frozen=True)
class Fact:
    """One thing that is known of the server, or None: unknown, and `tell` says how to tell."""

    label: str
    text: str | None
    tell: str = ""
