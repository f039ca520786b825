"""The words of the tables: stages, states, activities, causes, and their order.

Codes are indices into these tuples; tables hold the words themselves.
"""

from __future__ import annotations

STAGES = (
    "draft",
    "verify",
    "accept",
    "draft_extend",
    "schedule",
    "decode",
    "prefill",
    "unplaced",
)
DRAFT, VERIFY, ACCEPT, DRAFT_EXTEND, SCHEDULE, DECODE, PREFILL, UNPLACED = range(len(STAGES))

STATES = ("work", "idle")
WORK, IDLE = range(2)

CAUSES = ("sync", "host", "launch_call", "queue", "graph", "unknown")
SYNC, HOST, LAUNCH_CALL, QUEUE, GRAPH, UNKNOWN = range(len(CAUSES))

CYCLE_KINDS = ("speculation", "decode", "prefill", "mixed", "empty")
MARKS = ("", "warmup", "outlier")

# Evidence, best first (design 5.2).
EVIDENCE = ("specscope", "engine", "frames", "structure")


def percent(share: float, digits: int = 1) -> str:
    """A share in words, as everywhere in specscope: `90.2 %`."""
    return f"{100 * share:.{digits}f} %"
