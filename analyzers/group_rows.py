"""What all ranks of one group show together, as a report holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specscope.analyzers.bandwidth import Bandwidth, Rates
    from specscope.analyzers.clocks import Clocks
    from specscope.analyzers.collective_match import Matched
    from specscope.analyzers.collective_times import Times
    from specscope.analyzers.critical_path import Paths
    from specscope.analyzers.fused_bounds import FusedBound
    from specscope.analyzers.idle_together import IdleSplit
    from specscope.analyzers.message_sizes import Sizes


@dataclass(frozen=True)
class RankStage:
    """The collectives of one rank inside one stage, medians over the counted cycles.

    `rank` None: the median over the ranks (of `late_share` there is none). Sums are a cycle's.
    """

    rank: int | None
    stage: str
    calls: float
    wait_ns: float
    transfer_ns: float
    wait_share: float  # of the cycle
    transfer_share: float
    fused: bool  # holds all-reduces fused with norm: transfer is with the norm's compute
    late_share: float | None  # of the collectives, those in which this rank arrived last
    late_ns: float | None  # a cycle: its arrivals, where last, less the others' median, summed
    lateness_share: float | None  # of the lateness of all ranks
    cause: str | None  # of most of its lateness
    cause_share: float | None  # of its lateness, explained by that cause
    end_skew_ns: float | None  # median of its end less the mean of all ranks' ends
    group: str | None = None  # process group, where there are several
    # 95 % intervals of the medians above, over the counted cycles.
    wait_low_ns: float = nan
    wait_high_ns: float = nan
    transfer_low_ns: float = nan
    transfer_high_ns: float = nan
    wait_share_low: float = nan
    wait_share_high: float = nan
    transfer_share_low: float = nan
    transfer_share_high: float = nan


@dataclass(frozen=True)
class FirstCycle:
    """The first cycle, left out: in it a rank waited for one that began to profile later."""

    cycle: int
    rank: int  # that waited most
    wait_ns: int
    late_rank: int | None


@dataclass(frozen=True)
class PathRow:
    """A part of the group's critical path, median over the counted cycles."""

    rank: int
    stage: str
    state: str  # work, idle
    what: str  # activity, cause of idle, or transfer
    ns: float
    share: float  # of the group's cycle


@dataclass(frozen=True)
class Measured:
    """All ranks on one clock."""

    matched: Matched
    clocks: Clocks
    times: Times
    paths: Paths | None
    base_ns: int  # base of the first rank's clock
    sizes: Sizes
    rates: Rates
    shift: tuple[int, ...] = ()  # from each rank's numbers of cycles to the first rank's


@dataclass(frozen=True)
class Group:
    """The ranks of a run together; `refused` says why not, and then nothing else is there."""

    ranks: tuple[int, ...]
    refused: str = ""
    sentence: str = ""  # is the wire slow, or is a rank late?
    assumption: str = ""
    cycles: tuple[int, ...] = ()  # counted ones, by the first rank's numbers
    first_cycle: FirstCycle | None = None
    rows: tuple[RankStage, ...] = ()
    cycle_ns: float | None = None  # the group's cycle, median
    path: tuple[PathRow, ...] = ()  # the largest first
    critical: tuple[tuple[int, int], ...] = ()  # rank, cycles in which most of the path is its own
    bandwidth: Bandwidth | None = None  # None where the ranks do not correspond
    fused: tuple[FusedBound, ...] = ()  # what of all-reduces fused with norm is the wire's
    idle: tuple[IdleSplit, ...] = ()  # of each rank: while others work, while nobody does
    measured: Measured | None = field(repr=False, default=None)
    title: str = ""  # of one of several process groups
    own_batch: str = ""  # where its cycles are not those of the headline: of which batch they are
    missing: tuple[int, ...] = ()  # its ranks that were not read
    parts: tuple[Group, ...] = ()  # the process groups, where there are several
    left_out: str = ""  # too many collectives did not match: in place of who is late
    lost: tuple[str, ...] = ()  # collectives that could be given to no process group, in words
    paths: Paths | None = field(repr=False, default=None)  # over several process groups
    base_ns: int = 0  # of their times

    @property
    def several(self) -> bool:
        """Do the ranks that were read make up several process groups?"""
        return bool(self.parts)

    @property
    def measured_parts(self) -> tuple[Group, ...]:
        """The process groups with figures: itself, where it is one."""
        return tuple(one for one in self.parts or (self,) if one.measured is not None)

    def row(
        self, stage: str, rank: int | None = None, group: str | None = None
    ) -> RankStage | None:
        """The row of one stage: over the ranks, or of one."""
        wanted = (stage, rank, group)
        found = (row for row in self.rows if (row.stage, row.rank, row.group) == wanted)
        return next(found, None)
