"""Slices of a timeline with their arguments, and the tracks that they lie on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.columns import ABSENT, Bool, Int, codes, ints
from specscope.analyzers.report import Report

# From a rank's own times to those that all ranks share.
Clock = Callable[[Int], Int]


@dataclass(frozen=True)
class Column:
    """An argument of many slices: integers, or codes into `words`; it is not everywhere."""

    values: Int
    there: Bool
    words: Sequence[str] | None = None

    def at(self, rows: Int) -> Column:
        """Of these slices."""
        return Column(self.values[rows], self.there[rows], self.words)


@dataclass(frozen=True)
class Slices:
    """Named intervals with arguments. `flow`: slices with the same number are joined, 0: none."""

    start: Int
    end: Int
    name: Int  # code into `words`
    words: Sequence[str]
    arguments: Mapping[str, Column] = field(default_factory=dict)
    flow: Int | None = None

    def at(self, rows: Int) -> Slices:
        """These of them."""
        return Slices(
            self.start[rows],
            self.end[rows],
            self.name[rows],
            self.words,
            {name: column.at(rows) for name, column in self.arguments.items()},
            None if self.flow is None else self.flow[rows],
        )


@dataclass(frozen=True)
class Track:
    """One track of a rank, or of all (`rank` None). `recorded`: slices that the trace has."""

    rank: int | None
    title: str
    slices: Slices
    note: str = ""
    recorded: str = ""  # the table that its rows are of
    instant: bool = False


def of_rank(report: Report, name: str, rank: int) -> pa.Table:
    """The rows of one rank."""
    table = report.tables[name]
    return table.filter(pc.equal(table["rank"], rank))


def columns(table: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    """Columns as arguments: integers and words."""
    found: dict[str, Column] = {}
    for name in names:
        kind = table.schema.field(name).type
        if pa.types.is_integer(kind):
            values = ints(table, name)
            found[name] = Column(values, values != ABSENT)
        else:
            code, words = codes(table, name)
            found[name] = Column(code.astype(np.int64), code >= 0, words)
    return found
