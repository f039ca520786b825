"""What a server itself says of its acceptance, whatever the text it stands in.

Counts go before ratios: a ratio means another thing in another version, a count does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import TraceFormatError, UsageError
from .log_rates import LogRate
from .run import Note
from .sniff import printable

SGLANG: Final = "sglang"
VLLM: Final = "vllm"
MOST_POSITIONS: Final = 4096  # draft tokens of a cycle: no engine has as many
MOST_BYTES: Final = 1 << 30  # of one text; of a longer log the end is read
LONGEST_LINE: Final = 64 << 10


@dataclass(frozen=True)
class Served:
    """Acceptance as one text has it, the bonus token included in `accept_length`.

    `cycles` are verify passes of one sequence each. `rate` is as printed: what it divides depends
    on engine and version (`rate_of_drafts`). Without `accept_length` there are `accepted` and
    `drafted` tokens, and it takes k to know the cycles. `used`, `damaged`, `empty` count the
    entries of the text: those that count, those that cannot be read, those without speculation.
    `rates`: tokens/s that a log prints, by batch.
    """

    source: str
    engine: str
    accept_length: float | None = None
    cycles: float | None = None
    by_position: tuple[float, ...] = ()
    accepted: float | None = None
    drafted: float | None = None
    rate: float | None = None
    simulated: bool = False
    convention: str = ""
    used: int = 0
    damaged: int = 0
    empty: int = 0
    rates: tuple[LogRate, ...] = ()


def lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The lines of a text, and whether each is whole: an endless one is cut.

    Of more than `MOST_BYTES` the end is read. Raises UsageError and TraceFormatError.
    """
    size = regular(path)
    try:
        with path.open("rb") as file:
            left = size
            if size > MOST_BYTES:
                file.seek(size - MOST_BYTES)
                file.readline(LONGEST_LINE)
                left = MOST_BYTES
            while left > 0 and (line := file.readline(min(LONGEST_LINE, left))):
                left -= len(line)
                whole = line.endswith(b"\n") or len(line) < LONGEST_LINE
                yield line, whole
    except OSError as error:
        raise _unreadable(path, error) from error


def regular(path: Path) -> int:
    """The size of a file. Raises UsageError for what is none: a pipe would never end."""
    try:
        if not path.exists():
            raise UsageError(f"{printable(str(path), 200)} does not exist; check the path")
        if not path.is_file():
            raise UsageError(f"{printable(str(path), 200)} is no file; give a file of text")
        return path.stat().st_size
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def whole(path: Path, most: int) -> str:
    """The text of a file of bounded size. Raises UsageError and TraceFormatError."""
    if regular(path) > most:
        raise TraceFormatError(
            f"{printable(path.name, 120)} is larger than {most >> 20} MiB; give a part of it"
        )
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UsageError:
    reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
    return UsageError(f"{printable(str(path), 200)} cannot be read: {reason}; check the path")


def notes(one: Served) -> list[Note]:
    """What of a text did not count, where something did not."""
    if not one.damaged:
        return []
    return [
        Note(
            "entries_damaged",
            f"{one.source}: {one.damaged} of {one.used + one.damaged + one.empty} entries on "
            "decoding cannot be read and do not count",
            "give the text as the server wrote it",
        )
    ]
