"""One recording under two names: no two ranks work to the same nanosecond."""

from __future__ import annotations

from .run import RankTables


def same_recording(one: RankTables, other: RankTables) -> bool:
    """Did both come from one recording? Times in nanoseconds, processes and threads are equal."""
    if one.facts["clock_base_ns"] != other.facts["clock_base_ns"]:
        return False
    pairs = [(one.ops, other.ops), (one.calls, other.calls), (one.ranges, other.ranges)]
    if any(a.num_rows != b.num_rows for a, b in pairs) or not any(a.num_rows for a, _ in pairs):
        return False
    return all(a.equals(b) for a, b in pairs)
