"""The ranks of one run from the tables of its files: numbered, checked, and what is off named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

import pyarrow.compute as pc

from .copies import same_recording
from .errors import UsageError
from .file_names import read_name
from .run import Note, RankTables
from .sniff import printable

# Windows of one capture that lie further apart than this were not recorded together; clocks of
# different hosts differ by much less.
APART_NS: Final = 10**9

# Annotations that tell what a by-stage file holds, the wanted ones first: one mark a group, the
# file with more of the first group is read. A name such as EXTEND decides nothing: SGLang's
# by-stage profiler filed verify steps as prefill.
STAGE_MARKS: Final[tuple[tuple[str, ...], ...]] = (
    ("specscope:verify", "step[TARGET_VERIFY", "step[VERIFY"),
    ("specscope:draft", "step[DRAFT", "draft"),
    ("step[DECODE", "_generation_"),
)


@dataclass(frozen=True)
class FileTables:
    """What one file held: its path as given (or a title) and one set of tables a rank."""

    path: str
    ranks: tuple[RankTables, ...]


@dataclass(frozen=True)
class Assembled:
    """Ranks in order, notes, and files left out as `name: reason`."""

    ranks: tuple[RankTables, ...]
    notes: tuple[Note, ...]
    listed: tuple[str, ...]


def assemble(files: Sequence[FileTables], *, chosen_by_us: bool) -> Assembled:
    """One run from what the files held.

    `chosen_by_us` is True for the files of a folder: what does not fit is left out and named.
    For paths that the user gave, two files with the same rank are a UsageError that names both.
    """
    notes: list[Note] = []
    listed: list[str] = []
    ranks = [(file.path, tables) for file in files for tables in file.ranks]
    _refuse_windows_of_one_process(files)
    for file in files:
        notes += _many_in_one(file)
    ranks = _numbered(ranks, notes)
    ranks = _without_copies(ranks, notes, listed, chosen_by_us=chosen_by_us)
    ranks = _one_per_rank(ranks, notes, listed, chosen_by_us=chosen_by_us)
    ranks = _of_one_time(ranks, notes, listed, chosen_by_us=chosen_by_us)
    found = tuple(tables for _, tables in ranks)
    notes += _beyond_world(ranks)
    notes += _missing(found)
    return Assembled(found, tuple(notes), tuple(listed))


# Path as given, and one set of tables from it.
_Named = tuple[str, RankTables]


def _title(path: str) -> str:
    """Name of the file, safe to print."""
    return printable(_name(path), 120)


def _name(path: str) -> str:
    return PurePath(path).name


def _many_in_one(file: FileTables) -> list[Note]:
    if len(file.ranks) < 2:
        return []
    if "nsys" in file.ranks[0].facts:
        return _nsys_ranks(file)
    names = ", ".join(f"rank {tables.rank}" for tables in file.ranks)
    title = _title(file.path)
    if file.ranks[0].facts["label"] is not None:
        text = f"{title} holds {len(file.ranks)} ranks merged by a tool ({names}); split by label"
        return [Note("merged_file", text)]
    text = f"{len(file.ranks)} traces in one file ({names}): {title}; all are read"
    mend = "several ranks wrote to one path: give each rank a file of its own"
    return [Note("many_documents", text, mend)]


def _nsys_ranks(file: FileTables) -> list[Note]:
    """One export may hold every rank; a note where only their order tells which is which."""
    if file.ranks[0].facts["nsys"]["ranks_by"] != "order":
        return []
    order = ", ".join(f"{tables.facts['pid']} is rank {tables.rank}" for tables in file.ranks)
    text = f"nothing in {_title(file.path)} numbers its ranks: by order, process {order}"
    return [Note("rank_unknown", text)]


def _refuse_windows_of_one_process(files: Sequence[FileTables]) -> None:
    """Two recordings of one process that do not overlap are windows, and no ranks of one run."""
    seen: dict[int, list[tuple[str, int, int]]] = {}
    for file in files:
        for tables in file.ranks:
            if "nsys" not in tables.facts:
                continue
            known, pid = tables.facts["nsys"], tables.facts["pid"]
            base = tables.facts["clock_base_ns"] or 0
            start, end = base + known["first_ns"], base + known["last_ns"]
            for path, other_start, other_end in seen.get(pid, ()):
                if (start, end) == (other_start, other_end) and path != file.path:
                    raise UsageError(
                        f"{printable(path, 200)} and {printable(file.path, 200)} are the same "
                        "recording; give one of them"
                    )
                if max(start, other_start) >= min(end, other_end):
                    raise UsageError(
                        f"{printable(path, 200)} and {printable(file.path, 200)} are two windows "
                        f"of process {pid}, not two ranks; give one of them"
                    )
            seen.setdefault(pid, []).append((file.path, start, end))


def _numbered(ranks: Sequence[_Named], notes: list[Note]) -> list[_Named]:
    """Gives every set its rank: as recorded, else by the file's name, else the next free one."""
    sets = Counter(path for path, _ in ranks)
    known = [_rank_of(path, tables, alone=sets[path] == 1) for path, tables in ranks]
    taken = {number for number in known if number is not None}
    free = (number for number in range(len(ranks) + len(taken)) if number not in taken)
    result: list[_Named] = []
    for (path, tables), number in zip(ranks, known, strict=True):
        rank = next(free) if number is None else number
        if number is None:
            text = f"no rank recorded in {_title(path)}: taken as rank {rank}"
            notes.append(Note("rank_unknown", text))
        result.append((path, replace(tables, rank=rank)))
    return result


def _rank_of(path: str, tables: RankTables, *, alone: bool) -> int | None:
    """Rank as recorded, else as the name of the file says when it holds nothing else."""
    if tables.facts["rank"] is not None:
        return tables.rank
    return read_name(_name(path)).rank if alone else None


def _without_copies(
    ranks: Sequence[_Named], notes: list[Note], listed: list[str], *, chosen_by_us: bool
) -> list[_Named]:
    """Each recording once: no two ranks have the same ops and calls at the same times."""
    kept: list[_Named] = []
    for path, tables in sorted(ranks, key=lambda named: (not _named_alike(*named), named[1].rank)):
        same = next(
            (one for one in kept if path != one[0] and same_recording(one[1], tables)), None
        )
        if same is None:
            kept.append((path, tables))
            continue
        if not chosen_by_us:
            both = (same[1].rank, tables.rank)
            # Under one number "ranks 0 and 0" would name two ranks where there is one.
            of = f"of rank {both[0]}" if both[0] == both[1] else f"(ranks {both[0]} and {both[1]})"
            raise UsageError(
                f"{printable(same[0], 200)} and {printable(path, 200)} are the same recording "
                f"{of}; give one of them"
            )
        listed.append(f"{_title(path)}: the same recording as {_title(same[0])}")
        text = f"{_title(path)} is the same recording as {_title(same[0])}: it is not read"
        notes.append(Note("rank_duplicate", text, "check how the files were copied"))
    places = {id(tables): place for place, (_, tables) in enumerate(ranks)}
    return sorted(kept, key=lambda named: places[id(named[1])])


def _named_alike(path: str, tables: RankTables) -> bool:
    """Does the file's name say no other rank than its content?"""
    return read_name(_name(path)).rank in (None, tables.rank)


def _beyond_world(ranks: Sequence[_Named]) -> list[Note]:
    """Names files whose rank is none of their world."""
    notes = []
    for path, tables in ranks:
        size = tables.facts["world_size"]
        if size is None or tables.rank < size or len(ranks) < 2:
            continue
        text = f"{_title(path)} is taken as rank {tables.rank} and says a world of {size}"
        notes.append(Note("rank_beyond_world", text, "check that the files are of one run"))
    return notes


def _one_per_rank(
    ranks: Sequence[_Named], notes: list[Note], listed: list[str], *, chosen_by_us: bool
) -> list[_Named]:
    """One set for each rank: of by-stage files the one with the wanted steps."""
    by_rank: dict[int, list[_Named]] = {}
    for named in ranks:
        by_rank.setdefault(named[1].rank, []).append(named)
    if all(len(group) == 1 for group in by_rank.values()):
        return [group[0] for _, group in sorted(by_rank.items())]
    stage = _wanted_stage(ranks)
    result: list[_Named] = []
    for rank, group in sorted(by_rank.items()):
        best = max(group, key=lambda named: _preference(named, stage))
        result.append(best)
        others = [path for path, _ in group if path != best[0]]
        if len(group) - 1 > len(others):  # the same file holds the rank twice
            raise UsageError(f"{_title(best[0])} holds rank {rank} twice; split it")
        if not others:
            continue
        by_stage = all(read_name(_name(path)).stage for path, _ in group)
        if not chosen_by_us and not by_stage:
            raise UsageError(
                f"{printable(best[0], 200)} and {printable(others[0], 200)} both hold rank {rank};"
                " give the files of one capture, one for each rank"
            )
        why = "holds another stage" if by_stage else f"holds rank {rank} as well"
        listed += [f"{_title(path)}: {why}" for path in others]
        notes.append(_chosen_note(rank, best[0], others, by_stage=by_stage))
    return result


def _chosen_note(rank: int, best: str, others: list[str], *, by_stage: bool) -> Note:
    rest = ", ".join(_title(path) for path in others)
    if by_stage:
        text = f"rank {rank}: {_title(best)} is read, for it holds the verify or decode steps"
        return Note(
            "stage_file_chosen", f"{text}; not read: {rest}", "name the other file to read it"
        )
    text = f"rank {rank} stands in several files: {_title(best)} is read, not {rest}"
    return Note("rank_duplicate", text, "name the files to read")


def _wanted_stage(ranks: Sequence[_Named]) -> str | None:
    """The by-stage word whose files hold the most wanted steps, over all ranks."""
    scores: dict[str, tuple[int, ...]] = {}
    for path, tables in ranks:
        stage = read_name(_name(path)).stage
        if stage:
            before = scores.get(stage, (0,) * len(STAGE_MARKS))
            scores[stage] = tuple(a + b for a, b in zip(before, _marks(tables), strict=True))
    return max(scores, key=lambda word: scores[word], default=None)


def _preference(named: _Named, stage: str | None) -> tuple[Any, ...]:
    name = read_name(_name(named[0]))
    replica = -name.parallel.get("dp", 0)
    alike = _named_alike(*named)
    return name.stage == stage, replica, alike, name.stamp_ns or 0, named[0]


def _marks(tables: RankTables) -> tuple[int, ...]:
    """Number of annotations with each group of marks."""
    annotations = tables.ranges.filter(pc.equal(tables.ranges["kind"], "annotation"))
    counts = Counter(annotations["name"].to_pylist())
    return tuple(
        sum(count for name, count in counts.items() if any(mark in name for mark in group))
        for group in STAGE_MARKS
    )


def _of_one_time(
    ranks: Sequence[_Named], notes: list[Note], listed: list[str], *, chosen_by_us: bool
) -> list[_Named]:
    """Ranks whose windows lie far from that of the newest were not recorded with it."""
    windows = [_window(tables) for _, tables in ranks]
    if len(ranks) < 2 or any(window is None for window in windows):
        return list(ranks)
    known = [window for window in windows if window is not None]
    newest = max(known, key=lambda window: window[1])
    result: list[_Named] = []
    for (path, tables), (start, end) in zip(ranks, known, strict=True):
        apart = max(newest[0] - end, start - newest[1])
        if apart <= APART_NS:
            result.append((path, tables))
            continue
        where = f"rank {tables.rank} ({_title(path)})"
        text = f"{where} was recorded {apart / 1e9:.1f} s away from the others"
        if chosen_by_us:
            listed.append(f"{_title(path)}: recorded at another time")
            notes.append(Note("file_foreign", f"{text}: left out", "record all ranks together"))
        else:
            result.append((path, tables))
            notes.append(Note("times_apart", f"{text}: not one capture", "check the files given"))
    return result


def _window(tables: RankTables) -> tuple[int, int] | None:
    """First start and last end since 1970 in ns, or None when the file does not say."""
    base = tables.facts["clock_base_ns"]
    given = (tables.calls, tables.ops, tables.ranges, tables.cycle_log)
    spans = [table for table in given if table is not None and table.num_rows]
    if base is None or not spans:
        return None
    start = min(pc.min(table["start_ns"]).as_py() for table in spans)
    end = max(pc.max(table["end_ns"]).as_py() for table in spans)
    return base + start, base + end


def _missing(ranks: Sequence[RankTables]) -> list[Note]:
    """Names ranks that the recorded world size asks for, and worlds that differ."""
    sizes = {tables.facts["world_size"] for tables in ranks} - {None}
    if len(sizes) > 1:
        text = f"the files name different world sizes ({', '.join(map(str, sorted(sizes)))})"
        return [Note("world_size_differs", text, "check that the files are of one run")]
    if not sizes:
        return []
    size = sizes.pop()
    present = {tables.rank for tables in ranks}
    absent = [rank for rank in range(min(size, 1 << 16)) if rank not in present]
    if not absent:
        return []
    shown = ", ".join(map(str, absent[:8])) + (", ..." if len(absent) > 8 else "")
    text = f"{size - len(absent) if size <= 1 << 16 else len(ranks)} of {size} ranks read; "
    text += f"missing: {shown}"
    mend = "waiting for other ranks cannot be told from transfer without their traces"
    return [Note("ranks_missing", text, mend)]
