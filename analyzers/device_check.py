"""The engine's own device timers beside the stages of the trace: an independent check.

SGLang times each forward by CUDA events (SGLANG_ENABLE_METRICS_DEVICE_TIMER) and sums the seconds
by category. No kernel of accepting or sampling is in a category, so stages are compared without
accept, and as parts of their own sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from specscope.analyzers.shares import StageShare
from specscope.traces.server_metrics import DeviceSeconds

# Stages by category; other categories (decode, extend, idle, ...) are no part of a cycle.
STAGE_OF: Final = {
    "target_verify": "verify",
    "eagle_draft": "draft",
    "frozen_kv_draft": "draft",
    "eagle_draft_extend": "draft_extend",
}


@dataclass(frozen=True)
class DeviceRow:
    """One stage: its part of the forwards' seconds, by the engine and by the trace."""

    stage: str
    seconds: float
    share: float
    trace_share: float | None


@dataclass(frozen=True)
class DeviceCheck:
    """All stages that the engine times, and what it timed beside them."""

    source: str
    between: bool
    rows: tuple[DeviceRow, ...]
    left_out: tuple[str, ...]


def check_of(device: DeviceSeconds, shares: Sequence[StageShare]) -> DeviceCheck | None:
    """The check; None where the engine timed no stage of speculation."""
    seconds: dict[str, float] = {}
    for category, value in device.by_category:
        stage = STAGE_OF.get(category)
        if stage is not None:
            seconds[stage] = seconds.get(stage, 0.0) + value
    if len(seconds) < 2:
        return None
    work = {stage: _work(shares, stage) for stage in seconds}
    whole = sum(value for value in work.values() if value is not None)
    known = whole > 0 and None not in work.values()
    rows = tuple(
        DeviceRow(
            stage,
            value,
            value / sum(seconds.values()),
            (work[stage] or 0.0) / whole if known else None,
        )
        for stage, value in sorted(seconds.items(), key=lambda row: -row[1])
    )
    left_out = tuple(category for category, _ in device.by_category if category not in STAGE_OF)
    return DeviceCheck(device.source, device.between, rows, left_out)


def _work(shares: Sequence[StageShare], stage: str) -> float | None:
    """Work of the stage; of verify without accept, where they are told apart."""
    names = ("verify_only", "verify") if stage == "verify" else (stage,)
    for name in names:
        for share in shares:
            if share.rank is None and share.stage == name:
                return share.work_ns
    return None
