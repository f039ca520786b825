"""What a verify costs at other numbers of tokens: from other recordings of the same server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from specscope.analyzers.report import Report
from specscope.analyzers.verify_cost import Point
from specscope.traces.errors import UsageError

# Facts in which the recordings must agree, where both know them.
_SAME: Final = (("engine", "engine"), ("model", "model"), ("tp", "TP"), ("link", "link"))


def points_from(
    others: Sequence[Report], facts: Mapping[str, Any], *, profiled: bool
) -> list[Point]:
    """One point a recording: tokens that its verify reads, and what that takes.

    `profiled` says of which kind the cycle is that they are held against.

    Raises:
        UsageError: a recording is of another server, does not say its width, or is of the other
            kind (profiled, or measured without a profiler).
    """
    return [_point(other, facts, profiled=profiled) for other in others]


def _point(other: Report, facts: Mapping[str, Any], *, profiled: bool) -> Point:
    found = other.throughput
    if found is None or not found.stage_ns("verify"):
        raise UsageError("--also holds no verify; give a recording of the server that speculates")
    for key, word in _SAME:
        own, its = facts.get(key), other.facts.get(key)
        if own is not None and its is not None and own != its:
            raise UsageError(
                f"--also is of {word} {str(its)[:60]!r}, this run of {str(own)[:60]!r}: what a "
                "verify costs there says nothing of it; give a recording of the same server"
            )
    if found.profiled != profiled:
        without = "this run" if profiled else "--also"
        raise UsageError(
            f"the cycle without a profiler is not known of {without}, so the two do not compare; "
            "put it into the run.json beside the traces"
        )
    width = other.run.context.get("draft_tokens") or (found.k + 1 if found.k else None)
    if width is None or found.batch is None:
        raise UsageError(
            "--also does not say how many tokens its verify reads; its run.json gives it "
            "(batch, k or draft_tokens)"
        )
    return Point(
        found.batch * int(width),
        found.stage_ns("verify"),
        f"verify of {int(width)} tokens at batch {found.batch} (--also)",
    )
