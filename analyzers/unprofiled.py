"""The cycle as it is without a profiler: given, or from the run's own measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specscope.traces.errors import UsageError


@dataclass(frozen=True)
class Reference:
    """What the user gave; None where nothing was given."""

    cycle_ms: float | None = None
    tokens_per_second: float | None = None
    accept_length: float | None = None
    batch: int | None = None


def cycle_ns(
    given: Reference, context: Mapping[str, Any], batch: int | None
) -> tuple[float, str] | None:
    """Length of an undisturbed cycle and where it comes from, or None when nothing is known.

    cycle = batch x accept length / tokens per second; batch and accept length come from the
    options, else from the run's own measurement, the batch also from the trace.

    Raises:
        UsageError: tokens per second were given and something else is missing; it is asked for.
    """
    if given.accept_length is not None and not given.accept_length >= 1:
        raise UsageError("--accept-length includes the bonus token and is 1 or more")
    k = context.get("k")
    if given.accept_length is not None and isinstance(k, int) and given.accept_length > k + 1.01:
        raise UsageError(
            f"--accept-length {given.accept_length:g} cannot be: {k} draft tokens "
            f"({context.get('source', 'run.json')}) give at most {k + 1}"
        )
    if given.cycle_ms is not None:
        if not given.cycle_ms > 0:
            raise UsageError("--cycle-ms must be above 0")
        return given.cycle_ms * 1e6, "--cycle-ms"
    if given.tokens_per_second is not None:
        return _from_rate(given, context, batch)
    measured = context.get("cycle_ms")
    if batch is not None and context.get("batch") not in (None, batch):
        return None  # measured at another batch than the cycles that lead
    if isinstance(measured, int | float) and measured > 0:
        return float(measured) * 1e6, str(context.get("source", "run.json"))
    return None


def _from_rate(
    given: Reference, context: Mapping[str, Any], batch: int | None
) -> tuple[float, str]:
    rate = given.tokens_per_second
    accept = given.accept_length or context.get("accept_length")
    size = given.batch or batch or context.get("batch")
    missing = [
        name
        for name, value in (("--accept-length", accept), ("--batch", size))
        if not isinstance(value, int | float)
    ]
    if missing:
        raise UsageError(
            f"--tokens-per-second needs {' and '.join(missing)} as well: "
            "cycle = batch x accept length / tokens per second"
        )
    assert rate is not None
    assert accept is not None
    assert size is not None
    if not (rate > 0 and accept > 0 and size > 0):
        raise UsageError("--tokens-per-second, --accept-length and --batch must be above 0")
    return 1e9 * size * accept / rate, "--tokens-per-second"
