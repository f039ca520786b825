"""From time to tokens: the rate now, and whether speculation pays.

tokens/s of the batch   = batch x accept length / cycle
break-even accept length = cycle / plain step
speed-up                 = accept length / break-even accept length

docs/throughput.md has the formulas with their sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from specscope.analyzers.accept_positions import Sign
from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.device_check import DeviceCheck
from specscope.analyzers.throughput_growth import Growth
from specscope.analyzers.token_value import Step, TokenValue
from specscope.analyzers.verify_cost import Line
from specscope.traces.log_rates import LogRate
from specscope.traces.run import Note

DRAFT_STAGES = ("draft", "draft_extend")

Range = tuple[float, float]


@dataclass(frozen=True)
class Baseline:
    """One plain decode step of the same server at the same batch, without speculation."""

    step_ns: float
    source: str
    profiled: bool = False  # the profiler stretches a step as it does a cycle


@dataclass(frozen=True)
class StageCost:
    """What one stage takes of the cycle; of an unprofiled one its length is a range."""

    stage: str
    ns: float
    range_ns: Range


@dataclass(frozen=True)
class Throughput:
    """What the cycle gives; every figure without its input is None.

    `cycle_ns` is the unprofiled cycle where it is known (`profiled` False), else the median
    cycle in the trace. `stages` are of that cycle.
    """

    cycle_ns: float
    cycle_source: str
    profiled: bool
    batch: int | None
    k: int | None  # draft tokens a sequence
    acceptance: Acceptance | None
    baseline: Baseline | None
    positions: Acceptance | None = None  # the best source that knows acceptance by position
    others: tuple[Acceptance, ...] = ()  # what further sources say
    stages: tuple[StageCost, ...] = ()
    sign: Sign | None = None  # what acceptance by position says of the draft
    verify_line: Line | None = None  # None: fewer than two points were measured
    step: Step | None = None  # what one more draft token takes of the cycle
    token_values: tuple[TokenValue, ...] = ()
    growth: tuple[Growth, ...] = ()
    device: DeviceCheck | None = None
    log_rate: LogRate | None = None  # what the server's log prints at this batch
    missing: tuple[str, ...] = ()  # what is not known, and what would tell it
    notes: tuple[Note, ...] = ()  # on inputs that are not used

    @property
    def tokens_per_second(self) -> float | None:
        """Of the whole batch."""
        if self.acceptance is None or self.batch is None:
            return None
        return self.batch * self.acceptance.accept_length / self.cycle_ns * 1e9

    @property
    def log_cycle_ns(self) -> float | None:
        """The cycle by the rate that the server's log prints."""
        if self.log_rate is None or self.acceptance is None:
            return None
        rate = self.log_rate
        return cycle_of_rate(rate.tokens_per_second, self.acceptance.accept_length, rate.batch)

    @property
    def plain_tokens_per_second(self) -> float | None:
        """Of the whole batch, without speculation."""
        if self.baseline is None or self.batch is None:
            return None
        return self.batch / self.baseline.step_ns * 1e9

    @property
    def break_even(self) -> float | None:
        """Accept length at which speculation equals the plain step."""
        return None if self.baseline is None else self.cycle_ns / self.baseline.step_ns

    @property
    def break_even_cycle_ns(self) -> float | None:
        """Cycle at which speculation equals the plain step with the accept length it has."""
        if self.acceptance is None or self.baseline is None:
            return None
        return self.acceptance.accept_length * self.baseline.step_ns

    @property
    def speed_up(self) -> float | None:
        """Against plain decoding: above 1 speculation wins."""
        if self.acceptance is None or self.break_even is None:
            return None
        return self.acceptance.accept_length / self.break_even

    @property
    def perfect_speed_up(self) -> float | None:
        """Speed-up if every draft token was accepted: k + 1 tokens a cycle."""
        if self.k is None or self.break_even is None:
            return None
        return (self.k + 1) / self.break_even

    @property
    def perfect_tokens_per_second(self) -> float | None:
        """Rate of the batch if every draft token was accepted."""
        if self.k is None or self.batch is None:
            return None
        return self.batch * (self.k + 1) / self.cycle_ns * 1e9

    @property
    def free_draft_gain(self) -> float | None:
        """Highest gain of a draft model for nothing: draft and draft-extend; None: not known."""
        part = self.stage_ns(*DRAFT_STAGES)
        return free_gain(self.cycle_ns, part) if self.stages and part > 0 else None

    @property
    def free_draft_gains(self) -> Range | None:
        """Its range, by that of the stages."""
        gains = [free_gain(self.cycle_ns, ns) for ns in self.stage_range_ns(*DRAFT_STAGES)]
        low, high = gains
        return (low, high) if low is not None and high is not None else None

    def stage_ns(self, *names: str) -> float:
        """What the stages of these names take of the cycle together."""
        return sum(one.ns for one in self.stages if one.stage in names)

    def stage_range_ns(self, *names: str) -> Range:
        """The range of `stage_ns`: ends added, so no narrower than it is."""
        found = [one.range_ns for one in self.stages if one.stage in names]
        return sum(low for low, _ in found), sum(high for _, high in found)

    def stage_ratio(self, *names: str) -> float | None:
        """Stages over the plain step: with a free draft the accept length must exceed verify's."""
        if self.baseline is None or not any(one.stage in names for one in self.stages):
            return None
        return self.stage_ns(*names) / self.baseline.step_ns

    def per_token_ns(self, stage: StageCost) -> float | None:
        """What the stage costs for each token that the batch emits."""
        if self.acceptance is None or self.batch is None:
            return None
        return stage.ns / (self.batch * self.acceptance.accept_length)


def free_gain(cycle_ns: float, part_ns: float) -> float | None:
    """Highest gain of making a part of the cycle free: cycle / (cycle - part); None: all of it.

    >>> round(free_gain(100, 5), 3)
    1.053
    """
    return cycle_ns / (cycle_ns - part_ns) if part_ns < cycle_ns else None


def cycle_of_rate(tokens_per_second: float, accept_length: float, batch: int = 1) -> float:
    """The cycle, in nanoseconds, of a rate of the whole batch."""
    return 1e9 * batch * accept_length / tokens_per_second
