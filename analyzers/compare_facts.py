"""What is not the same in two runs besides what was changed: said before any figure."""

from __future__ import annotations

from typing import Any, Final

from specscope.analyzers.report import Report

# Fact of the report or key of its context, what it is called, and whether it makes the figures
# those of different work, so that a change may be no change of speed.
FACTS: Final = (
    ("engine", "engine", True),
    ("engine_version", "version of the engine", False),
    ("model", "model", True),
    ("draft_model", "draft model", True),
    ("tp", "tensor-parallel ranks", True),
    ("batch", "batch", True),
    ("k", "draft steps k", True),
    ("topk", "topk", True),
    ("draft_tokens", "draft tokens", True),
    ("prompt_tokens", "prompt tokens", True),
    ("gpus", "GPUs", False),
    ("link", "link", False),
)
# These belong to speculation: a plain run has none, and that is no second difference.
_OF_SPECULATION: Final = ("draft_model", "k", "topk", "draft_tokens")


def openings(a: Report, b: Report, *, against: bool) -> list[str]:
    """Lines to be said first: what differs, and whether the work itself does."""
    other_work: list[str] = []
    other_place: list[str] = []
    for key, name, is_work in FACTS:
        if against and key in _OF_SPECULATION:
            continue
        one, other = _fact(a, key), _fact(b, key)
        if one is None or other is None or one == other:
            continue
        (other_work if is_work else other_place).append(f"{name} {one} against {other}")
    lines = []
    if other_work:
        lines.append(
            f"Not the same work: {', '.join(other_work)}; changes below are of both together"
        )
    if other_place:
        lines.append(f"Different: {', '.join(other_place)}")
    if len(a.run.ranks) != len(b.run.ranks):
        lines.append(f"Ranks read: {len(a.run.ranks)} against {len(b.run.ranks)}")
    if a.clock != b.clock:
        lines.append(f"Times by different clocks: {a.clock} against {b.clock}")
    return lines


def same_files(a: Report, b: Report) -> bool:
    """Are both sides the same traces?"""
    prints = [sorted(one.tables["sources"]["fingerprint"].to_pylist()) for one in (a, b)]
    return prints[0] == prints[1] and all(prints[0])


def _fact(report: Report, key: str) -> Any:
    value = report.facts.get(key)
    return value if value is not None else report.run.context.get(key)
