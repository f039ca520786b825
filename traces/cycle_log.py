"""The cycle log of specscope's hooks: Arrow streams of one process, read as one rank.

The pieces of a process are joined in order. A piece that ends inside a batch (the process was
killed, the disk was full) is read up to there; what is missing is a row of `losses`, as are
the rows that the writer says it dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from . import attach_reports, log_lengths, schema, sniff
from .cache import fingerprint
from .errors import TraceFormatError
from .run import RankTables
from .sniff import CYCLE_LOG_MARK, path_text

VERSION: Final = 1
ROWS: Final = ("stage", "cycle", "accept", "lost")
STAGES: Final = ("draft", "verify", "accept", "draft_extend", "schedule", "decode", "prefill")
# Bounds of times that can be: of any clock, and of a range, on the host or the GPU.
LATEST_NS: Final = 1 << 61
LONGEST_NS: Final = 86_400 * 10**9
_MEND: Final = "give a cycle log (*.arrows) that specscope's hooks wrote"


@dataclass(frozen=True)
class Piece:
    """One file: what its schema says, its whole batches, and how far they reach."""

    path: Path
    facts: dict[str, str]
    table: pa.Table
    bytes: int
    read_bytes: int

    @property
    def process(self) -> tuple[str, str, str]:
        """Equal for the pieces of one process as one rank."""
        return tuple(self.facts.get(key, "") for key in ("rank", "pid", "start_ns"))  # type: ignore[return-value]


def is_log(path: Path) -> bool:
    """Do the first bytes say that the file is a cycle log?"""
    try:
        with path.open("rb") as file:
            return sniff.is_cycle_log(file.read(sniff.HEAD_BYTES))
    except OSError:
        return False


def read_logs(paths: Iterable[Path]) -> list[tuple[str, RankTables]]:
    """The pieces at `paths` as one set of tables for each process, with the first path of each.

    A process without a rank that logged nothing but accept lengths goes into those of the ranks.

    Raises TraceFormatError, in one line, and OSError.
    """
    by_process: dict[tuple[str, str, str], list[Piece]] = {}
    for path in paths:
        piece = read_piece(path)
        by_process.setdefault(piece.process, []).append(piece)
    logs = [(path_text(pieces[0].path), _joined(pieces)) for pieces in by_process.values()]
    return log_lengths.joined(logs)


def read_piece(path: Path) -> Piece:
    """One file, up to its last whole batch."""
    size = path.stat().st_size
    batches: list[pa.RecordBatch] = []
    end = 0
    # By Python's `open`: Arrow's takes no name that is not UTF-8.
    with path.open("rb") as plain, pa.PythonFile(plain, "r") as file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _refusal(path, "a cycle log that ends before its first row") from error
        facts = facts_of(reader.schema, path)
        end = file.tell()
        while True:
            try:
                batch = reader.read_next_batch()
                batch.validate(full=True)
            except StopIteration:
                end = file.tell()
                break
            except (pa.ArrowException, OSError, ValueError):
                break
            batches.append(batch)
            end = file.tell()
    table = pa.Table.from_batches(batches, reader.schema)
    return Piece(path, facts, as_schema(table, path), size, min(end, size))


def facts_of(found: pa.Schema, path: Path) -> dict[str, str]:
    """What the schema's metadata says. Raises TraceFormatError for another version."""
    metadata = found.metadata or {}
    facts = {key.decode("utf-8", "replace"): _text(value) for key, value in metadata.items()}
    if facts.get(CYCLE_LOG_MARK) != str(VERSION):
        version = sniff.printable(facts.get(CYCLE_LOG_MARK, "none"))
        raise _refusal(path, f"a cycle log of version {version}, {VERSION} is known")
    return facts


def as_schema(table: pa.Table, path: Path) -> pa.Table:
    """The columns that the schema names; those of a later writer are left out."""
    try:
        names = table.column_names
        columns = []
        for field in schema.CYCLE_LOG:
            if field.name == "rank":
                columns.append(pa.nulls(table.num_rows, field.type).fill_null(0))
            elif field.name in names:
                columns.append(table[field.name].cast(field.type))
            elif field.nullable:
                columns.append(pa.nulls(table.num_rows, field.type))
            else:
                raise KeyError(field.name)
        return pa.Table.from_arrays(columns, schema=schema.CYCLE_LOG)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _refusal(path, "a cycle log with other columns, or a damaged one") from error


def _joined(pieces: Sequence[Piece]) -> RankTables:
    pieces = sorted(pieces, key=lambda piece: integer(piece.facts.get("piece")) or 0)
    facts = pieces[0].facts
    rank = small(facts.get("rank"))
    found = pa.concat_tables([piece.table for piece in pieces]).unify_dictionaries()
    table = found.filter(is_sound(found))
    table = table.take(pc.sort_indices(table, sort_keys=[("start_ns", "ascending")]))
    table = table.combine_chunks()
    number = pa.array([rank or 0] * table.num_rows, pa.int32())
    table = table.set_column(0, schema.CYCLE_LOG.field("rank"), number)
    losses = [row for piece in pieces for row in _cut_off(piece)]
    losses += _missing_pieces(pieces)
    losses += _dropped(table, path_text(pieces[0].path))
    if table.num_rows < found.num_rows:
        unsound = found.num_rows - table.num_rows
        losses.append(_loss(path_text(pieces[0].path), unsound, "log_row_invalid", "left out"))
    return RankTables(
        rank=rank or 0,
        facts=_facts(pieces, facts, rank, table),
        sources=pa.Table.from_pylist([_source(piece) for piece in pieces], schema.SOURCES),
        losses=pa.Table.from_pylist(losses, schema.LOSSES),
        cycle_log=table,
        **{
            name: schema.empty(name) for name in ("ops", "calls", "ranges", "collectives", "tracks")
        },
    )


def is_sound(table: pa.Table) -> pa.Array:
    """Rows whose words and times can be; the others are of a damaged file."""
    start, end = table["start_ns"], table["end_ns"]
    word, stage = (table[name].cast(pa.string()) for name in ("row", "stage"))
    conditions = [
        pc.is_in(word, pa.array(ROWS)),
        pc.or_(pc.not_equal(word, "stage"), pc.is_in(stage, pa.array(STAGES))),
        _between(start, -LATEST_NS, LATEST_NS),
        _between(end, -LATEST_NS, LATEST_NS),
        # Once the bounds hold, the difference cannot overflow into something that passes.
        _between(pc.subtract(end, start), 0, LONGEST_NS),
        *(_between(table[name], 0, LONGEST_NS) for name in ("gpu_start_ns", "gpu_end_ns")),
    ]
    sound = conditions[0]
    for condition in conditions[1:]:
        sound = pc.and_(sound, condition)
    return sound


def _between(column: pa.ChunkedArray, low: int, high: int) -> pa.ChunkedArray:
    """Absent values are."""
    inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    return pc.fill_null(inside, True)


def _cut_off(piece: Piece) -> list[dict[str, Any]]:
    if piece.read_bytes >= piece.bytes:
        return []
    return [
        {
            "source": path_text(piece.path),
            "offset": piece.read_bytes,
            "length": piece.bytes - piece.read_bytes,
            "count": 1,
            "reason": "log_truncated",
            "action": "the piece ends inside a batch of rows; the whole ones before it are read",
        }
    ]


def _missing_pieces(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    numbers = [integer(piece.facts.get("piece")) or 0 for piece in pieces]
    missing = numbers[-1] - numbers[0] + 1 - len(set(numbers))
    if missing <= 0:
        return []
    return [_loss(path_text(pieces[0].path), missing, "log_piece_missing", "read without them")]


def _dropped(table: pa.Table, path: str) -> list[dict[str, Any]]:
    """What the writer says it lost; its rows hold totals, the largest is the newest."""
    rows = table.filter(pc.equal(table["row"].cast(pa.string()), "lost"))
    counts: dict[str, int] = {}
    for row in rows.select(["reason", "lost_rows"]).to_pylist():
        reason = str(row["reason"])
        counts[reason] = max(counts.get(reason, 0), int(row["lost_rows"] or 0))
    return [
        _loss(path, count, *attach_reports.LOST.get(reason, ("log_rows_lost", "not in the log")))
        for reason, count in counts.items()
    ]


def _loss(path: str, count: int, reason: str, action: str) -> dict[str, Any]:
    return {
        "source": path,
        "offset": None,
        "length": None,
        "count": count,
        "reason": reason,
        "action": action,
    }


def _source(piece: Piece) -> dict[str, Any]:
    facts = piece.facts
    return {
        "path": path_text(piece.path),
        "format": "cycle-log",
        "producer": facts.get("engine"),
        "bytes": piece.bytes,
        "text_bytes": piece.bytes,
        "fingerprint": fingerprint(piece.path),
        "rank": small(facts.get("rank")),
        "world_size": small(facts.get("world_size")),
        "groups": None,
        "devices": None,
        "clock_base_ns": integer(facts.get("clock_base_ns")),
        "resolution_ns": 1,
        "events": piece.table.num_rows,
        "dropped": "{}",
    }


def _facts(
    pieces: Sequence[Piece], facts: dict[str, str], rank: int | None, table: pa.Table
) -> dict[str, Any]:
    """The facts of `RankTables` that a log can know, the others as of a sound trace."""
    engine = facts.get("engine")
    version = facts.get("engine_version")
    return {
        "rank": rank,
        "world_size": small(facts.get("world_size")),
        "backend": None,
        "groups": [],
        "devices": [],
        "versions": {f"{engine}_version": version} if engine and version else {},
        "switches": {},
        "with_stack": False,
        "clock_base_ns": integer(facts.get("clock_base_ns")),
        "clock_base_ignored": False,
        "absolute_times": False,
        "resolution_ns": 1,
        "precision_lost_events": 0,
        "window_end_ns": None,
        "truncated": False,
        "has_header": True,
        "has_frames": False,
        "frames_share": 0.0,
        "events": table.num_rows,
        "categories": {},
        "scan_dropped": {},
        "producer": engine,
        "is_rocm": False,
        "label": None,
        "path": path_text(pieces[0].path),
        "reader": "arrow",
        "offset": 0,
        "event_bytes": sum(piece.read_bytes for piece in pieces),
        "structure_bytes": 0,
        "skipped_bytes": sum(piece.bytes - piece.read_bytes for piece in pieces),
        "replaced_names": 0,
        "repaired_events": 0,
        "nulled_events": 0,
        "odd_id_events": 0,
    }


def _text(value: bytes) -> str:
    return sniff.printable(value.decode("utf-8", "replace"), 80)


def integer(text: str | None) -> int | None:
    """A whole number that 64 bits hold, of the metadata."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if abs(value) < 1 << 63 else None


def small(text: str | None) -> int | None:
    """The same of a rank or a number of them."""
    value = integer(text)
    return value if value is not None and 0 <= value < 1 << 31 else None


def _refusal(path: Path, what: str) -> TraceFormatError:
    return sniff.refusal(path.name, what, _MEND)
