"""What the user has to know about the content of one file, from the facts of its ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import nsys_notes
from .run import Note, RankTables
from .sniff import printable

# Above this share of frames a trace is mostly Python stacks.
FRAMES_SHARE: Final = 0.9

# Reasons in `losses` that the note on a truncated file speaks for.
_GZIP_ENDS: Final = {
    "gzip_truncated": "the gzip stream ends early",
    "gzip_corrupt": "the gzip stream is damaged",
}
_SAID_ELSEWHERE: Final = frozenset({"truncated", *_GZIP_ENDS})


def notes_on(tables: RankTables) -> list[Note]:
    """Notes on one rank; empty for a sound trace."""
    facts = tables.facts
    where = f"rank {tables.rank}"
    notes: list[Note] = []
    if facts["truncated"]:
        notes.append(_truncated(tables, where))
    if not facts["has_header"]:
        text = f"{where}: a bare list of events without a header (no base time, no rank)"
        notes.append(Note("no_header", text))
    rows = tables.cycle_log.num_rows if tables.cycle_log is not None else 0
    if not (tables.ops.num_rows or tables.calls.num_rows or tables.ranges.num_rows or rows):
        text = f"{where}: no work recorded ({facts['events']} events, none of them work)"
        notes.append(Note("no_work", text, "start the profiler while requests are running"))
    if facts["precision_lost_events"]:
        text = (
            f"{where}: a tool printed {facts['precision_lost_events']} times again from floats, "
            "so their nanoseconds are lost"
        )
        notes.append(Note("precision_lost", text, "use the file as the profiler wrote it"))
    if facts["clock_base_ignored"]:
        text = f"{where}: times are since 1970 already, so baseTimeNanoseconds is not added"
        notes.append(Note("clock_base_ignored", text))
    if facts["frames_share"] > FRAMES_SHARE:
        text = f"{where}: {facts['frames_share']:.0%} of the events are Python frames"
        notes.append(Note("mostly_frames", text, "record without stacks (with_stack false)"))
    if "nsys" in facts:
        notes += nsys_notes.notes_on(tables)
    notes += _loss_notes(tables, where)
    return notes


def _truncated(tables: RankTables, where: str) -> Note:
    facts = tables.facts
    reasons = set(tables.losses["reason"].to_pylist())
    ends = "the file ends early"
    for reason, how in _GZIP_ENDS.items():
        if reason in reasons:
            ends = f"{how}; {tables.sources['text_bytes'][0].as_py()} bytes of text came out"
    title = printable(Path(facts["path"]).name, 120)
    return Note(
        "truncated",
        f"{where}: {title}: {ends}; {facts['events']} whole events are read, "
        f"{facts['skipped_bytes']} bytes are not, and the end of the recording is unknown",
        "let the export finish before the server is stopped, then copy the file again",
    )


def _loss_notes(tables: RankTables, where: str) -> list[Note]:
    """One note for each reason in `losses`, with its count."""
    if not tables.losses.num_rows:
        return []
    grouped = tables.losses.group_by("reason").aggregate(
        [("count", "sum"), ("offset", "min"), ("action", "min")]
    )
    notes = []
    for row in sorted(grouped.to_pylist(), key=lambda row: str(row["reason"])):
        if tables.facts["truncated"] and row["reason"] in _SAID_ELSEWHERE:
            continue
        offset, action = row["offset_min"], printable(row["action_min"], 300)
        at = "" if offset is None else f", first at byte {offset}"
        text = f"{where}: {row['count_sum']} x {row['reason']}{at}: {action}"
        notes.append(Note(f"loss_{row['reason']}", text))
    return notes
