"""From time to tokens: the rate now, and whether speculation pays.

tokens/s of the batch   = batch x accept length / cycle
break-even accept length = cycle / plain step
speed-up                 = accept length / break-even accept length
"""

from __future__ import annotations

from dataclasses import dataclass

from specscope.analyzers.acceptance import Acceptance


@dataclass(frozen=True)
class Baseline:
    """One plain decode step of the same server at the same batch, without speculation."""

    step_ns: float
    source: str


@dataclass(frozen=True)
class Throughput:
    """What the cycle gives; every figure without its input is None.

    `cycle_ns` is the unprofiled cycle where it is known (`profiled` False), else the median
    cycle in the trace.
    """

    cycle_ns: float
    cycle_source: str
    profiled: bool
    batch: int | None
    k: int | None  # draft tokens a sequence
    acceptance: Acceptance | None
    baseline: Baseline | None

    @property
    def tokens_per_second(self) -> float | None:
        """Of the whole batch."""
        if self.acceptance is None or self.batch is None:
            return None
        return self.batch * self.acceptance.accept_length / self.cycle_ns * 1e9

    @property
    def break_even(self) -> float | None:
        """Accept length at which speculation equals the plain step."""
        return None if self.baseline is None else self.cycle_ns / self.baseline.step_ns

    @property
    def speed_up(self) -> float | None:
        """Against plain decoding: above 1 speculation wins."""
        if self.acceptance is None or self.break_even is None:
            return None
        return self.acceptance.accept_length / self.break_even
