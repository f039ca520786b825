"""What `specscope convert` does: read, write the tables, say what and what is not in them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from specscope import exits
from specscope.analyzers.columns import ints
from specscope.analyzers.links import link, read_calls, thread_index
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import size_text
from specscope.traces import table_files
from specscope.traces.errors import UsageError
from specscope.traces.load import load
from specscope.traces.read import STDIN
from specscope.traces.run import RankTables


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    out: Path
    rank: int | None = None
    tables: str = ""
    frames: bool = False
    force: bool = False
    no_cache: bool = False
    quiet: bool = False


def run(request: Request) -> int:
    """Do it; the exit code."""
    table_files.format_of(request.out)
    names = tuple(dict.fromkeys(name.strip() for name in request.tables.split(",") if name.strip()))
    if request.tables and not names:
        raise UsageError("--tables names no table; --tables ops,calls (docs/tables.md)")
    sources = [Path(path) for path in request.paths if path != STDIN]
    # Before minutes of reading, and once more before it is written.
    table_files.check_target(request.out, keep=sources, force=request.force, folder=len(names) != 1)
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        found = load(
            list(request.paths),
            rank=request.rank,
            all_frames=request.frames,
            cache=not request.no_cache,
            on_progress=on_progress,
        )
    found = replace(found, ranks=tuple(map(_linked, found.ranks)))
    written = table_files.write_tables(found, request.out, names, force=request.force, keep=sources)
    if request.quiet:
        return exits.DONE
    for note in found.notes:
        exits.say(note.text)
    for file in written:
        rows = f"{file.rows:,} row{'' if file.rows == 1 else 's'}"
        exits.say(f"wrote {clean(file.path)} ({rows}, {size_text(file.bytes)})")
    ranks = ", ".join(str(rank.rank) for rank in found.ranks)
    exits.say(f"rank{'' if len(found.ranks) == 1 else 's'} {ranks} of {clean(request.paths[0])}")
    return exits.DONE


def _linked(rank: RankTables) -> RankTables:
    """The rank with the launch call of each op in `ops.call_id`."""
    threads = thread_index(ints(rank.calls, "pid"), ints(rank.calls, "tid"))
    call = link(rank.ops, read_calls(rank.calls, *threads)).call
    column = rank.ops.schema.get_field_index("call_id")
    field = rank.ops.schema.field(column)
    return replace(rank, ops=rank.ops.set_column(column, field, pa.array(call, mask=call < 0)))
