"""The files of the cycle log: Arrow IPC streams, one after the other, bounded in all.

Each record batch goes to the file in one write, so whatever kills the process, everything
before is whole. When a write fails the piece is cut back to its last whole batch. Standard
library and pyarrow; pyarrow is imported by `prepare`, never in a hook.
"""

from __future__ import annotations

import array
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .cycle_log_rows import MARK, REASONS, ROWS, VERSION, Row
from .grammar import STAGES

PREFIX: Final = "specscope-cycles"
SUFFIX: Final = ".arrows"

# Columns in the order of `Row`: name, type, may be null.
_COLUMNS: Final = (
    ("row", "word", False),
    ("stage", "word", True),
    ("cycle", "int64", True),
    ("draft_step", "int64", True),
    ("start_ns", "int64", False),
    ("end_ns", "int64", False),
    ("gpu_start_ns", "int64", True),
    ("gpu_end_ns", "int64", True),
    ("batch", "int64", True),
    ("tokens", "int64", True),
    ("k", "int64", True),
    ("thread", "int64", False),
    ("accept_lengths", "lengths", True),
    ("accept_length", "double", True),
    ("lost_rows", "int64", True),
    ("reason", "word", True),
)
_WORDS: Final = {"row": ROWS, "stage": STAGES, "reason": REASONS}


@dataclass(frozen=True)
class Identity:
    """What every piece of a process says about it."""

    rank: int | None
    world_size: int | None
    start_ns: int  # since 1970
    clock_base_ns: int  # add it to times of the log to have them since 1970
    pid: int = field(default_factory=os.getpid)
    engine: str = ""
    engine_version: str = ""

    def metadata(self, piece: int) -> dict[str, str]:
        """As the schema's metadata of that piece."""
        values = {
            MARK: VERSION,
            "rank": self.rank,
            "world_size": self.world_size,
            "pid": self.pid,
            "start_ns": self.start_ns,
            "clock_base_ns": self.clock_base_ns,
            "piece": piece,
            "engine": self.engine or None,
            "engine_version": self.engine_version or None,
        }
        return {key: str(value) for key, value in values.items() if value is not None}

    def file_name(self, piece: int) -> str:
        """Name of that piece: rank, process, start of the log."""
        rank = f"-rank{self.rank}" if self.rank is not None else ""
        return f"{PREFIX}{rank}-pid{self.pid}-{self.start_ns}.{piece:04d}{SUFFIX}"


def prepare() -> None:
    """Import all that writing needs and use it once: later calls only work."""
    rows = [Row.accept(0, [1], 0, 0), Row.cycle_of(0, 0, 0, 0)]
    _batch(rows, schema({}))


def schema(metadata: dict[str, str]) -> Any:
    """The Arrow schema of a piece."""
    import pyarrow as pa

    types = {
        "word": pa.dictionary(pa.int8(), pa.string()),
        "int64": pa.int64(),
        "double": pa.float64(),
        "lengths": pa.list_(pa.int32()),
    }
    fields = [pa.field(name, types[kind], nullable=null) for name, kind, null in _COLUMNS]
    return pa.schema(fields, metadata=metadata)


def _batch(rows: Sequence[Row], to: Any) -> Any:
    """The rows as one record batch."""
    import pyarrow as pa

    columns = [
        _column(values, field, pa)
        for values, field in zip(zip(*rows, strict=True), to, strict=True)
    ]
    return pa.record_batch(columns, schema=to)


def _column(values: tuple[Any, ...], field: Any, pa: Any) -> Any:
    absent = values.count(None)
    if absent == len(values) and field.name not in _WORDS:
        return pa.nulls(len(values), field.type)
    if field.name in _WORDS:
        words = pa.array(_WORDS[field.name], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), words)
    if absent == 0 and field.type == pa.int64():
        data = pa.py_buffer(array.array("q", values))
        return pa.Array.from_buffers(field.type, len(values), [None, data])
    return pa.array(values, field.type)


@dataclass
class _Piece:
    path: Path
    bytes: int = 0
    rows: int = 0


class _Memory:
    """Takes what the stream writer writes, to be put into the file as a whole."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: Any) -> int:
        part = bytes(data)
        self.parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing to do."""

    def take(self) -> bytes:
        data, self.parts = b"".join(self.parts), []
        return data


class Pieces:
    """The pieces of one process, written one after the other.

    `write` raises OSError when the system does not take it; then nothing of the batch is in
    the file. `put_bytes` stands in for `os.write` in tests.
    """

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        *,
        piece_bytes: int,
        total_bytes: int,
        put_bytes: Callable[[int, Any], int] = os.write,
        before: Pieces | None = None,
    ) -> None:
        self.identity = identity
        self._folder = folder
        self._piece_bytes = piece_bytes
        self._total_bytes = total_bytes
        self._put_bytes = put_bytes
        # Pieces written before the process knew its rank count as its own.
        self._pieces: list[_Piece] = before._pieces if before else []
        self._number: int = before._number if before else 0
        self._file: int | None = None
        self._memory = _Memory()
        self._stream: Any = None
        self._schema: Any = None
        self.rows: int = before.rows if before else 0
        self.removed_rows: int = before.removed_rows if before else 0

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(piece.bytes for piece in self._pieces)

    @property
    def path(self) -> Path | None:
        """The piece that is being written, or was last."""
        return self._pieces[-1].path if self._pieces else None

    def write(self, rows: Sequence[Row]) -> None:
        """Append one batch, to a new piece when the current one is full."""
        if self._file is not None and self._pieces[-1].bytes >= self._piece_bytes:
            self.close()
        if self._file is None:
            self._open()
        self.note(rows)
        self._pieces[-1].rows += len(rows)
        self.rows += len(rows)

    def note(self, rows: Sequence[Row]) -> None:
        """Append a batch to the current piece without counting its rows."""
        self._stream.write_batch(_batch(rows, self._schema))
        self._put(self._memory.take())

    def close(self) -> None:
        """End the current piece; the next row opens another."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._stream.close()
            self._put(self._memory.take())
        os.close(self._file)
        self._file = self._stream = None

    def abandon(self) -> None:
        """Let go of the file without a byte more: it is another process's."""
        if self._file is not None:
            os.close(self._file)
        # The stream would write its end when it is collected; into memory, which is let go.
        self._file = self._stream = None

    def _open(self) -> None:
        import pyarrow as pa

        self._trim()
        path = self._folder / self.identity.file_name(self._number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._pieces.append(_Piece(path))
        self._schema = schema(self.identity.metadata(self._number))
        self._number += 1
        self._memory = _Memory()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._memory, "w"), self._schema)

    def _trim(self) -> None:
        """Remove the oldest pieces, so that one more fits into the bound."""
        while self._pieces and self.size + self._piece_bytes > self._total_bytes:
            oldest = self._pieces.pop(0)
            with contextlib.suppress(OSError):
                oldest.path.unlink()
            self.removed_rows += oldest.rows

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        piece = self._pieces[-1]
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += self._put_bytes(self._file, view[done:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, piece.bytes)
                os.lseek(self._file, piece.bytes, os.SEEK_SET)
            raise
        piece.bytes += len(data)


def clock_base_ns() -> int:
    """What to add to `perf_counter_ns` to have the time since 1970, taken closely."""
    best = min(
        (_reading() for _ in range(5)),
        key=lambda reading: reading[0],
    )
    return best[1]


def _reading() -> tuple[int, int]:
    before = time.perf_counter_ns()
    now = time.time_ns()
    after = time.perf_counter_ns()
    return after - before, now - (before + after) // 2
