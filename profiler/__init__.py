"""What runs inside or beside a serving process: ranges around its stages, and the cycle log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "Config",
    "configure",
    "current_cycle",
    "cycle_range",
    "disable",
    "emitters_report",
    "enable",
    "is_enabled",
    "record_accept",
    "set_rank",
    "shutdown",
    "stage",
]

if TYPE_CHECKING:
    from specscope.profiler.range_state import Config
    from specscope.profiler.ranges import (
        configure,
        current_cycle,
        cycle_range,
        disable,
        emitters_report,
        enable,
        is_enabled,
        record_accept,
        set_rank,
        shutdown,
        stage,
    )


# Loaded on first use: the grammar alone, which the analysis reads, needs none of it.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'specscope.profiler' has no attribute {name!r}")
    from specscope.profiler import ranges

    value = getattr(ranges, name)
    globals()[name] = value
    return value
