"""How much slower this machine is now than one on which limits of cost were set."""

from __future__ import annotations

import time

# Seconds of CPU that the work below takes on such a machine, when nothing else runs there.
_USUAL_SECONDS = 0.008
_TIMES = 10


def slowness() -> float:
    """1 or more: by what to multiply a limit of CPU time before it is held to."""
    return max(1.0, min(_seconds() for _ in range(_TIMES)) / _USUAL_SECONDS)


def _seconds() -> float:
    start = time.thread_time()
    found: dict[int, int] = {}
    for number in range(50_000):
        found[number & 1023] = found.get(number & 511, 0) + number
    return time.thread_time() - start
