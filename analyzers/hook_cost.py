"""What the hooks themselves take of a cycle, where their reports say so.

An estimate from one call in 17, which the hooks time; a report is written when its counts have
doubled, so it may be older than the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

# Roles whose calls are the cycles of a process (profiler/roles.py has the same).
_NUMBERING: Final = frozenset({"cycle", "step", "opening"})
_COLLECTIVE: Final = "collective"


@dataclass(frozen=True)
class HookCost:
    """Own time of the hooks of one process, and how many cycles it is known for."""

    pid: int
    ns_per_cycle: float
    cycles: int


def hook_cost(report: dict[str, Any]) -> HookCost | None:
    """Of one attach report; None where it counts no cycle. Collectives belong to none."""
    hooks: Iterable[dict[str, Any]] = report["hooks"]
    fired = [hook for hook in hooks if hook["fired"] and hook["role"] != _COLLECTIVE]
    cycles = sum(hook["fired"] for hook in fired if hook["role"] in _NUMBERING)
    own = sum(hook["own_ns"] for hook in fired)
    if not cycles or not own:
        return None
    return HookCost(int(report["pid"]), own / cycles, cycles)
