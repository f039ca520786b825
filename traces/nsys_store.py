"""What an export of Nsight Systems offers, whatever its container: tables, columns, values.

Tables are made only when they have rows, columns come and go between versions, and exports are
trimmed by hand: what is not there reads as empty or absent, never as an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .events import ABSENT

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Cut:
    """Texts end before the first mark that is in them, with `suffix` in its place."""

    marks: tuple[str, ...]
    suffix: str

    def __call__(self, text: str) -> str:
        """The text as it is kept."""
        for mark in self.marks:
            kept, found, _ = text.partition(mark)
            if found:
                return kept + self.suffix
        return text


@dataclass
class Columns:
    """Columns of one table in file order. `ints` hold ABSENT for NULL and for no such column.

    Of `texts`: codes into a list of distinct texts, -1 for NULL. Unsigned 64-bit numbers are
    their signed twins. Floating-point columns hold NaN for NULL.
    """

    rows: int
    ints: dict[str, Ints] = field(default_factory=dict)
    texts: dict[str, tuple[Codes, list[str]]] = field(default_factory=dict)
    floats: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Ints:
        return self.ints[column]


class Store(Protocol):
    """One export: a database, or a folder with a file a table."""

    format: str

    def tables(self) -> frozenset[str]:
        """Names of the tables that are there, with rows or without."""

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of the columns of a table; empty when it is not there."""

    def rows(self, table: str) -> int:
        """Number of rows; 0 when it is not there."""

    def read(
        self,
        table: str,
        ints: Sequence[str] = (),
        texts: Sequence[str] = (),
        floats: Sequence[str] = (),
        cut: Cut | None = None,
    ) -> Columns:
        """The named columns, texts cut. Raises TraceFormatError for values of another type."""

    def close(self) -> None:
        """Gives back what is open."""


def absent(rows: int) -> Ints:
    """A column that is not there."""
    return np.full(rows, ABSENT, np.int64)


def no_text(rows: int) -> tuple[Codes, list[str]]:
    """A column of texts without one."""
    return np.full(rows, -1, np.int32), []


def coded(values: Sequence[str | None], cut: Cut | None = None) -> tuple[Codes, list[str]]:
    """Texts as codes into their distinct values, in order of first appearance; -1 for None."""
    place: dict[str, int] = {}
    if cut is not None:
        values = [None if value is None else cut(value) for value in values]
    codes = np.fromiter(
        (-1 if value is None else place.setdefault(value, len(place)) for value in values),
        np.int32,
        len(values),
    )
    return codes, list(place)
