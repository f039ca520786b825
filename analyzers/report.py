"""The report: everything that is printed, drawn or written about one run.

`analyze(run)` makes it; the dashboards draw it and compute nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from specscope.analyzers.coverage import Coverage
from specscope.analyzers.shares import StageShare
from specscope.analyzers.statistics import Estimate
from specscope.traces.run import Note, Run

if TYPE_CHECKING:
    from specscope.analyzers.causes import Causes
    from specscope.analyzers.corrected_cycle import CorrectedCycle
    from specscope.analyzers.graph_rows import Graphs
    from specscope.analyzers.group_rows import Group
    from specscope.analyzers.stage_parts import StageIdle, StageLaunches
    from specscope.analyzers.throughput import Throughput

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CycleRow:
    """The cycles of one rank, kind and batch size."""

    rank: int
    kind: str
    batch: int | None
    count: int
    warmup: int
    outliers: int
    median_ns: float
    interval_ns: tuple[float, float]
    leads: bool  # the row that the headline speaks of


@dataclass(frozen=True)
class IdleRow:
    """Idle of one cause on one rank (`rank` None: median over ranks), medians a cycle."""

    rank: int | None
    cause: str
    ns: float
    cycle_share: float


@dataclass(frozen=True)
class ActivityRow:
    """Work of one activity inside one stage, median over ranks of the medians a cycle."""

    stage: str
    activity: str
    ns: float
    cycle_share: float


@dataclass(frozen=True)
class Verdict:
    """What the run shows, in pieces that a page may lay out; `sentence` is all of them.

    Withheld when `withheld`: then `refused` says why and there is no `share`. Without
    speculation there is an answer, yet no share: `refused` says so, `withheld` is False.
    `share_kind` is `cycle`: work and the idle that the stage's ops end, over the cycle.
    """

    headline: str
    basis: str = ""  # what the share of the headline is made of
    clauses: tuple[str, ...] = ()  # the other shares
    claims: tuple[str, ...] = ()  # whole sentences: is verify 95 %, what a free draft gains
    stage: str | None = None
    share: float | None = None
    share_kind: str = "cycle"
    interval: tuple[float, float] | None = None
    evidence: tuple[str, ...] = ()
    confidence: str = "none"
    confidence_reason: str = ""
    refused: tuple[str, ...] = ()
    withheld: bool = False
    recapture: str = ""  # the exact call for a capture that would answer

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        first = f"{self.headline} ({self.basis})" if self.basis else self.headline
        return " ".join(("; ".join((first, *self.clauses)) + ".", *self.claims))


@dataclass(frozen=True)
class Unprofiled:
    """Length of a cycle without the profiler, and where it comes from."""

    cycle_ns: float
    source: str
    stretch: float  # median cycle in the trace over it


@dataclass(frozen=True)
class Report:
    """The answer for one run."""

    run: Run
    facts: dict[str, Any]  # engine, version, model, batch, k, gpus, links: None when unknown
    coverage: tuple[Coverage, ...]
    cycles: tuple[CycleRow, ...]
    shares: tuple[StageShare, ...]  # per rank, and with rank None over the ranks
    idle: tuple[IdleRow, ...]
    idle_share: Estimate | None  # idle in all, over the ranks
    activities: tuple[ActivityRow, ...]
    other_share: float  # of busy time, activity `other`
    verdict: Verdict
    warnings: tuple[Note, ...]
    unprofiled: Unprofiled | None
    speculates: bool
    on_host: bool
    clock: str = "gpu"  # `host`: a run on the CPU or a log without events; `cuda_events`: a log
    graphs: Graphs | None = None  # the inside of graph launches, where capture traces were given
    group: Group | None = None  # the ranks together: waiting told from transferring
    stage_idle: tuple[StageIdle, ...] = ()  # idle by stage and cause
    launches: tuple[StageLaunches, ...] = ()  # launches by stage
    causes: Causes | None = None  # why it is slow, where there is speculation
    corrected: CorrectedCycle | None = None  # without the profiler; None: its length is not known
    throughput: Throughput | None = None  # None: no speculation, or no cycle is known
    tables: Mapping[str, pa.Table] = field(repr=False, default_factory=dict)

    @property
    def blind(self) -> bool:
        """Is GPU work missing in the trace? Then nothing that looks idle is known to be."""
        return any(one.blind for one in self.coverage)

    def share(self, stage: str, rank: int | None = None) -> StageShare | None:
        """The row of one stage: of the run, or of one rank."""
        for row in self.shares:
            if row.stage == stage and row.rank == rank:
                return row
        return None
