"""What a lever is tried on: the replay without the profiler's cost, and what a cycle gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specscope.analyzers.columns import Bool
from specscope.analyzers.perturbation import OTHER_SERVER, Corrected
from specscope.analyzers.replay import Float, replay, replay_each
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.replay_select import Selection
from specscope.analyzers.replay_stages import cycle_of_op
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Throughput

Range = tuple[float, float]


@dataclass(frozen=True)
class Prediction:
    """What a lever would do; `refused` says why not, and then no figure is there.

    `cycle_ns` and `rate` (tokens/s of the batch; None without accept length or batch) are ranges,
    low end first. `bound_ns` is the shortest cycle that the lever could give, were what it
    touches free (Amdahl).
    """

    lever: str
    value: str
    title: str
    cycle_ns: Range | None = None
    rate: Range | None = None
    bound_ns: float | None = None
    assumption: str = ""
    formula: str = ""
    refused: str = ""

    @property
    def middle_ns(self) -> float:
        """The middle of the cycle's range."""
        assert self.cycle_ns is not None
        return sum(self.cycle_ns) / 2


@dataclass
class Bench:
    """A run under test."""

    report: Report
    replay: Replay
    select: Selection
    corrected: Corrected
    base: list[Float] = field(default_factory=list)  # per rank, the counted cycles unchanged

    def __post_init__(self) -> None:
        if not self.base:
            self.base = self.replay.cycles_ns(replay(self.replay.plan, self.lengths))

    @property
    def lengths(self) -> Float:
        """Lengths of the edges that predictions start from."""
        return self.corrected.lengths

    @property
    def cycle_ns(self) -> float:
        """The cycle that predictions start from."""
        return self.corrected.cycle_ns

    @property
    def throughput(self) -> Throughput | None:
        """What a cycle of the run gives."""
        return self.report.throughput

    @property
    def ranks(self) -> int:
        """Ranks of the group, as the server says, else as read."""
        return int(self.report.facts.get("tp") or len(self.replay.ranks))

    def cycle_with(self, lengths: Float) -> float:
        """The cycle with these lengths."""
        return self.cycles_with([lengths])[0]

    def cycles_with(self, lengths: Sequence[Float]) -> list[float]:
        """The cycle with each of these sets of lengths.

        The median change of a cycle, each held against itself, is added to the median cycle: so
        the scatter of the cycles stays out of the difference.
        """
        found = []
        for time in replay_each(self.replay.plan, lengths):
            changed = self.replay.cycles_ns(time)
            change = [np.median(new - old) for new, old in zip(changed, self.base, strict=True)]
            found.append(self.cycle_ns + float(np.median(change)))
        return found

    def spent(self, which: Bool) -> float:
        """What these edges (ops, transfers) take of a counted cycle: mean over the ranks."""
        edges = self.replay.graph.edges
        found = []
        for row, rank in enumerate(self.replay.ranks):
            mine = np.flatnonzero(which & (edges.rank == row) & (edges.item >= 0))
            cycle = cycle_of_op(rank)[edges.item[mine]]
            inside = (cycle >= 0) & rank.counted[cycle]
            ns = np.bincount(cycle[inside], self.lengths[mine[inside]], minlength=len(rank.counted))
            if rank.counted.any():
                found.append(float(np.median(ns[rank.counted])))
        return float(np.mean(found)) if found else 0.0

    def rate(self, cycle: Range, accept_length: float | None = None) -> Range | None:
        """Tokens/s of the batch at both ends of a cycle; None where its inputs are not known."""
        found = self.throughput
        if found is None or found.batch is None:
            return None
        length = accept_length or (found.acceptance.accept_length if found.acceptance else None)
        if length is None:
            return None
        low, high = (
            found.batch * length / (ns * self.anchor) * 1e9 for ns in (max(cycle), min(cycle))
        )
        return low, high

    @property
    def anchor(self) -> float:
        """The cycle that tokens/s are known of, over the one that is replayed.

        So the rate that predictions start from is that of `analyze`, also where the cycle without
        a profiler is a little longer than the recorded one and nothing was corrected.
        """
        found = self.throughput
        if found is None or self.corrected.state == OTHER_SERVER:
            return 1.0
        return found.cycle_ns / self.cycle_ns


def ordered(*values: float) -> Range:
    """The smallest and the largest."""
    return min(values), max(values)
