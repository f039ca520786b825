"""Measured costs of a pass of the target: verify at every batch of the run, and the plain step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from specscope.analyzers.attribution import Attribution
from specscope.analyzers.shares import counted
from specscope.analyzers.throughput import Baseline
from specscope.analyzers.verify_cost import Point
from specscope.analyzers.words import ACCEPT, VERIFY

# As many cycles at least, so that the median is of more than chance.
FEW: Final = 3


def verify_by_batch(attributed: Sequence[Attribution]) -> dict[int, float]:
    """Median verify, accept included, of the cycles of each batch size, over the ranks."""
    found: dict[int, list[float]] = {}
    for one in attributed:
        sizes = {
            int(batch)
            for kind, batch in zip(one.cycles.kind, one.cycles.batch, strict=True)
            if kind == "speculation" and batch is not None
        }
        for batch in sizes:
            cycles = counted(one, "speculation", batch)
            if len(cycles.ns) >= FEW:
                ns = cycles.total[:, [VERIFY, ACCEPT]].sum(axis=(1, 2, 3))
                found.setdefault(batch, []).append(float(np.median(ns)))
    return {batch: float(np.median(ns)) for batch, ns in sorted(found.items())}


def points_of(
    by_batch: Mapping[int, float],
    batch: int | None,
    width: int | None,
    verify_ns: float,
    baseline: Baseline | None,
) -> list[Point]:
    """The points; `verify_ns` is that of the leading batch in the cycle that is spoken of.

    Verify of other batches in the trace is stretched as that of the leading one is.
    """
    if batch is None or width is None or verify_ns <= 0:
        return []
    recorded = by_batch.get(batch)
    scale = verify_ns / recorded if recorded else 1.0
    points = [Point(batch * width, verify_ns, f"verify at batch {batch}")]
    points += [
        Point(other * width, ns * scale, f"verify at batch {other}")
        for other, ns in by_batch.items()
        if other != batch
    ]
    if baseline is not None:
        points.append(Point(batch, baseline.step_ns, f"plain step at batch {batch}", True))
    return points
