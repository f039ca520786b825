"""What two runs show beside each other: everything that `specscope compare` prints or writes.

`compare(a, b)` makes it; the dashboards draw it and compute nothing. A is before, B after: a
change is B less A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specscope.analyzers.throughput import Throughput

SCHEMA_VERSION = 1

# Kinds of rows, in the order in which they are shown.
CYCLE, STAGE, ACTIVITY, STAGE_IDLE, IDLE, CAUSE, WAIT, COUNT, KERNEL = (
    "cycle",
    "stage",
    "activity",
    "stage_idle",
    "idle",
    "cause",
    "collective",
    "count",
    "kernel",
)
KINDS = (CYCLE, STAGE, ACTIVITY, STAGE_IDLE, IDLE, CAUSE, WAIT, COUNT, KERNEL)
UNITS = ("ns", "count", "share")


@dataclass(frozen=True)
class Side:
    """One run, as it enters the comparison."""

    label: str
    kind: str | None  # of its leading cycles; None: there are none
    batch: int | None
    ranks: tuple[int, ...]
    cycles: int  # steady whole ones, the same on all ranks
    left_out: int  # warm-up, outliers, and the first where ranks began to profile apart
    cycle_ns: float | None


@dataclass(frozen=True)
class Change:
    """One figure of a cycle in both runs: medians over the cycles of the mean over the ranks."""

    name: str  # as checks name it: `verify`, `verify.gemm`, `idle.host`, `launches`
    kind: str
    unit: str
    stage: str | None
    what: str | None
    family: str | None  # kernels only
    a: float
    b: float
    least: float | None  # smallest change that this data could show; None: no change at all
    noise: float | None  # 95 % half-width of the change, this row alone
    p: float | None  # over all rows together
    differs: bool

    @property
    def change(self) -> float:
        """B less A."""
        return self.b - self.a

    @property
    def relative(self) -> float | None:
        """The change over A; 0 where both are 0, None where only A is."""
        if self.a:
            return self.change / self.a
        return None if self.b else 0.0

    @property
    def least_relative(self) -> float | None:
        """The smallest change that could be shown, over A."""
        return None if self.least is None or not self.a else self.least / self.a

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the change, 95 % for all rows together; None: the cycles are too few."""
        if self.least is None:
            return None
        return self.change - self.least, self.change + self.least


@dataclass(frozen=True)
class KernelChange:
    """A kernel that only one side runs in that stage, by its full name."""

    side: str  # `a`: removed, `b`: added
    stage: str
    activity: str
    family: str
    name: str
    calls: float  # a cycle; in the whole capture where there are no cycles
    ns: float | None  # a cycle; None where there are no cycles
    replaces: bool  # the other side has other kernels of its own in that stage and activity


@dataclass(frozen=True)
class Part:
    """A part of the explanation: mean over the steady cycles, whole nanoseconds that add up."""

    stage: str
    state: str
    what: str
    a_ns: int
    b_ns: int

    @property
    def change_ns(self) -> int:
        """B less A."""
        return self.b_ns - self.a_ns


@dataclass(frozen=True)
class Against:
    """Speculation against plain decoding: which side is which, and what that costs."""

    plain: str  # `a` or `b`
    step_ns: float  # medians in the traces
    cycle_ns: float
    verify_ns: float
    traced: Throughput
    unprofiled: Throughput | None  # where both lengths are known without a profiler
    parts: tuple[Part, ...]  # plain (a) against speculation (b), whatever the order given


@dataclass(frozen=True)
class Comparison:
    """Two runs beside each other."""

    a: Side
    b: Side
    openings: tuple[str, ...]  # what is not the same in both, said before anything else
    refused: tuple[str, ...]  # why no verdict is given
    headline: str
    details: tuple[str, ...]
    rows: tuple[Change, ...]
    small: int  # figures that are too small for a row
    kernels: tuple[KernelChange, ...]
    against: Against | None
    blocks: tuple[int, int] | None = None
    ways: int = 0
    exact: bool = True
    same_files: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def differs(self) -> bool:
        """Is there a row that differs?"""
        return any(row.differs for row in self.rows)

    def row(self, name: str) -> Change | None:
        """The row of that name."""
        return next((row for row in self.rows if row.name == name), None)
