"""Parts of a report in the form that the cases give their answers in."""

from __future__ import annotations

from specscope.analyzers.activities import ACTIVITIES, CLASS_OF_ACTIVITY
from specscope.analyzers.report import Report

CLASSES = ("compute", "collective", "copy", "set")


def parts_of(report: Report, rank: int, cycle: int) -> dict[str, int]:
    """`work/<stage>/<class>` and `idle/<stage>/<cause>` -> ns, of one cycle."""
    found: dict[str, int] = {}
    for row in report.tables["parts"].to_pylist():
        if row["rank"] != rank or row["cycle"] != cycle:
            continue
        what = row["what"]
        if row["state"] == "work" and what in ACTIVITIES:
            what = CLASSES[CLASS_OF_ACTIVITY[what]]
        key = f"{row['state']}/{row['stage']}/{what}"
        found[key] = found.get(key, 0) + row["ns"]
    return found


def windows_of(report: Report, rank: int) -> list[tuple[int, int]]:
    """(start_ns, end_ns) of every cycle of one rank, in file time."""
    return [
        (row["start_ns"], row["end_ns"])
        for row in report.tables["cycles"].to_pylist()
        if row["rank"] == rank
    ]
