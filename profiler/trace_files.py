"""The trace files of a capture: which are new, and whether each is there to its last byte.

An engine's ranks write at their own pace, some for minutes. A file counts when its size stands
still, when its gzip trailer is right, and when its JSON is closed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_PIECE = 1 << 20
_TAIL = 64
# Of a worker, not of the front end, and no table or memory dump.
_TRACE = re.compile(r".+\.json(\.gz)?", re.DOTALL)
_OTHER = re.compile(
    r".*(async_llm|profiler_out|graph_capture|-memory).*|merged-.*|(run|meta)\.json", re.DOTALL
)
_WORLD = re.compile(rb'"world_size"\s*:\s*(\d{1,6})')
_RANK_IN_NAME = re.compile(r"-TP-(\d{1,6})|rank[-_]?(\d{1,6})", re.IGNORECASE)
# The header with the size of the world stands before the events, within this much text.
_HEADER = 4 * _PIECE


@dataclass(frozen=True)
class Whole:
    """A file that was read to its end: its size, and the world size its header names."""

    path: Path
    size: int
    world_size: int | None


@dataclass(frozen=True)
class Standing:
    """How far the files of a capture are: whole ones, and those that still grow or are cut."""

    whole: tuple[Whole, ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def world_size(self) -> int | None:
        """As the headers say it."""
        return next((file.world_size for file in self.whole if file.world_size), None)

    def ranks(self) -> tuple[int, ...]:
        """Ranks by the names of the whole files."""
        found = (_RANK_IN_NAME.search(file.path.name) for file in self.whole)
        return tuple(sorted(int(match[1] or match[2]) for match in found if match))


def is_trace(name: str) -> bool:
    """Whether a file of that name is the trace of a worker."""
    return bool(_TRACE.fullmatch(name)) and not _OTHER.fullmatch(name)


def names(folder: Path) -> frozenset[str]:
    """The traces that are in the folder now; none where it is not there."""
    try:
        return frozenset(path.name for path in folder.iterdir() if is_trace(path.name))
    except OSError:
        return frozenset()


class Watch:
    """Looks again and again at the traces that were not in `folder` when it began."""

    def __init__(self, folder: Path, before: Iterable[str] = ()) -> None:
        self.folder = folder
        self._before = frozenset(before)
        self._sizes: dict[str, int] = {}
        self._whole: dict[str, Whole] = {}
        self._cut: dict[str, int] = {}

    def look(self) -> Standing:
        """How far the files are. A file is read once its size was the same at two looks."""
        unfinished = []
        for name in sorted(names(self.folder) - self._before):
            path = self.folder / name
            try:
                size = path.stat().st_size
            except OSError:  # a temporary name, renamed meanwhile
                continue
            known = self._whole.get(name)
            if known is not None and known.size == size:
                continue
            stands = size > 0 and self._sizes.get(name) == size
            self._sizes[name] = size
            if stands and self._cut.get(name) != size:
                found = read_whole(path)
                if found is not None:
                    self._whole[name] = found
                    continue
                self._cut[name] = size
            self._whole.pop(name, None)
            unfinished.append(name)
        return Standing(tuple(self._whole[name] for name in sorted(self._whole)), tuple(unfinished))

    def bytes(self) -> int:
        """What is written so far."""
        return sum(self._sizes.values())


def read_whole(path: Path) -> Whole | None:
    """Read the file to its end; None when it is cut short or cannot be read."""
    head, tail, size = bytearray(), b"", 0

    def take(text: bytes) -> None:
        nonlocal tail
        if len(head) < _HEADER:
            head.extend(text[: _HEADER - len(head)])
        tail = (tail + text)[-_TAIL:]

    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            pieces = iter(lambda: file.read(_PIECE), b"")
            complete = _unpack(pieces, take) if packed else _copy(pieces, take)
            size = file.tell()
    except (OSError, zlib.error):
        return None
    if not complete or tail.rstrip()[-1:] not in (b"}", b"]"):
        return None
    world = _WORLD.search(head)
    return Whole(path, size, int(world[1]) if world else None)


def _unpack(pieces: Iterable[bytes], take: Callable[[bytes], None]) -> bool:
    """Unpack every member of a gzip stream; whether the last trailer was there and right."""
    member = zlib.decompressobj(wbits=31)
    for piece in pieces:
        rest = piece
        while rest:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            take(member.decompress(rest))
            rest = member.unused_data
    return member.eof


def _copy(pieces: Iterable[bytes], take: Callable[[bytes], None]) -> bool:
    for piece in pieces:
        take(piece)
    return True
