"""Rates that a server's log prints, by the number of running requests.

SGLang: `gen throughput (token/s): G` of a decode line, over its interval. vLLM: `Avg generation
throughput: G tokens/s, Running: R reqs` of each engine, over ten seconds. The median of the lines
of one batch leaves out those with a prefill, or a pause, in between. Whether a profiler ran
meanwhile the log does not say.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from typing import Final

_NUMBER: Final = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_SGLANG: Final = re.compile(
    rf"#running-req: ([0-9]{{1,6}}),.{{0,2000}}?gen throughput \(token/s\): {_NUMBER},"
)
_VLLM: Final = re.compile(
    rf"Avg generation throughput: {_NUMBER} tokens/s, Running: ([0-9]{{1,6}}) reqs,"
)
_MOST_BATCHES: Final = 1024
_MOST_LINES: Final = 2048  # of one batch; the newest
FEW: Final = 3  # fewer lines of a batch say nothing


@dataclass(frozen=True)
class LogRate:
    """Median rate of the lines with so many running requests."""

    batch: int
    lines: int
    tokens_per_second: float


@dataclass
class Rates:
    """Collects them, line by line, within bounds."""

    by_batch: dict[int, list[float]] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """One line."""
        if "throughput" not in text:
            return
        if match := _SGLANG.search(text):
            self._keep(int(match[1]), float(match[2]))
        elif match := _VLLM.search(text):
            self._keep(int(match[2]), float(match[1]))

    def _keep(self, batch: int, rate: float) -> None:
        known = batch in self.by_batch
        if batch < 1 or rate <= 0 or not (known or len(self.by_batch) < _MOST_BATCHES):
            return
        lines = self.by_batch.setdefault(batch, [])
        lines.append(rate)
        if len(lines) > 2 * _MOST_LINES:
            del lines[:_MOST_LINES]

    def found(self) -> tuple[LogRate, ...]:
        """By batch, where there are lines enough."""
        return tuple(
            LogRate(batch, len(lines), statistics.median(lines[-_MOST_LINES:]))
            for batch, lines in sorted(self.by_batch.items())
            if len(lines) >= FEW
        )
