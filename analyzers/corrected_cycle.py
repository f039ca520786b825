"""The cycle without the profiler, once for the whole report.

Every prediction is made on it: what a token costs, what a free draft gains, the bounds of the
causes. Where the run can be replayed, the profiler's cost is taken out of the replay
(`perturbation`, the same as `whatif`); else the simple rule holds: work as recorded, and what is
left of the cycle shared out as idle is in the recording. Which of the two, and why, is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.corrected_parts import StagePart, parts_of
from specscope.analyzers.shares import StageShare

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group
    from specscope.analyzers.perturbation import Corrected
    from specscope.analyzers.report import Unprofiled

REPLAY: Final = "replay"
SIMPLE: Final = "simple"
NONE: Final = "none"
# An unchanged replay that misses the recording by more corrects and predicts nothing.
MOST_ERROR: Final = 0.01


@dataclass(frozen=True)
class CorrectedCycle:
    """Stages of the cycle without the profiler; together they are the cycle.

    `method`: `replay`, `simple`, or `none` (the work as recorded is longer than the cycle, so no
    stage of it is known). `why` says why there is no replay of it.
    """

    method: str
    cycle_ns: float
    stages: tuple[StagePart, ...]
    why: str = ""
    between: tuple[float, ...] = ()  # idle between cycles by cause; empty: not told
    replayed: Corrected | None = None  # what was taken out, and the stages as spans

    @property
    def most(self) -> tuple[str, float] | None:
        """What stretched the cycle most, and by how much; None: not known."""
        taken = self.replayed.taken if self.replayed is not None else ()
        best = max(taken, key=lambda part: part.ns, default=None)
        return None if best is None else (best.what, best.ns)

    def part(self, stage: str) -> StagePart | None:
        """One stage."""
        return next((one for one in self.stages if one.stage == stage), None)


def corrected_cycle(
    attributed: Sequence[Attribution],
    lead: tuple[str, int | None],
    group: Group | None,
    shares: Sequence[StageShare],
    unprofiled: Unprofiled,
    blind: bool,
) -> CorrectedCycle:
    """By the replay where there is one, else by the simple rule."""
    recorded_ns = unprofiled.stretch * unprofiled.cycle_ns
    if any(one.on_host for one in attributed):
        why = "a cycle log or a run on the CPU holds no dependencies to replay"
    elif blind:
        why = "GPU work is not on record, so there is nothing to replay"
    else:
        found = _replayed(attributed, lead, group, unprofiled, recorded_ns)
        if isinstance(found, CorrectedCycle):
            return found
        why = found
    return simple(shares, unprofiled.cycle_ns, recorded_ns, why)


def _replayed(
    attributed: Sequence[Attribution],
    lead: tuple[str, int | None],
    group: Group | None,
    unprofiled: Unprofiled,
    recorded_ns: float,
) -> CorrectedCycle | str:
    """The same from the replay, or why there is none."""
    # Only runs whose cycle is known without a profiler need these.
    from specscope.analyzers import replay_graph
    from specscope.analyzers.perturbation import correct, needless
    from specscope.analyzers.replay import replay

    if no_need := needless(recorded_ns, unprofiled.cycle_ns, unprofiled.source):
        return no_need[1]
    built = replay_graph.assemble(attributed, lead, group)
    if isinstance(built, str):
        return built
    error = built.cycle_ns(replay(built.plan)) / recorded_ns - 1
    if abs(error) > MOST_ERROR:
        return f"the unchanged replay misses the recorded cycle by {100 * error:.1f} %"
    one = correct(built, (unprofiled.cycle_ns, unprofiled.source))
    if one.state != "corrected":
        return one.text
    parts = parts_of(built, replay(built.plan, one.lengths), unprofiled.cycle_ns)
    return CorrectedCycle(
        REPLAY, unprofiled.cycle_ns, parts.stages, between=parts.between, replayed=one
    )


def simple(
    shares: Sequence[StageShare], cycle_ns: float, recorded_ns: float, why: str = ""
) -> CorrectedCycle:
    """Work as recorded; what is left of the cycle in proportion to the idle recorded.

    Nothing where the work alone is longer. Without idle on record (a log of host times) all is
    scaled.
    """
    rows = [share for share in shares if share.rank is None and share.part_of is None]
    whole = sum(row.cycle_share.value for row in rows)
    if not rows or whole <= 0:
        return CorrectedCycle(NONE, cycle_ns, (), why)
    work = sum(row.work_share for row in rows) * recorded_ns
    idle = sum(row.idle_share for row in rows) * recorded_ns
    if idle <= 0:
        scale = cycle_ns / whole
        parts = tuple(StagePart(row.stage, row.cycle_share.value * scale, 0.0) for row in rows)
        return CorrectedCycle(SIMPLE, cycle_ns, parts, why)
    if work > cycle_ns:
        return CorrectedCycle(NONE, cycle_ns, (), why)
    kept = (cycle_ns - work) / idle
    parts = tuple(
        StagePart(row.stage, row.work_share * recorded_ns, row.idle_share * recorded_ns * kept)
        for row in rows
    )
    return CorrectedCycle(SIMPLE, cycle_ns, parts, why)
