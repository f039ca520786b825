"""One file of a cycle log that still grows, read on from where it was left.

Only whole Arrow messages are taken; what is not whole yet is looked at again the next time. A
file is never read twice: what the schema and the dictionaries said is kept, and goes before the
batches that came since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from . import cycle_log, sniff
from .errors import TraceFormatError

# Bytes read in one go; a batch of the writer has about 100 kB.
MOST_BYTES: Final = 8 << 20
# Schema and dictionaries take 2 kB.
_MOST_PREFIX: Final = 1 << 20
_MOST_METADATA: Final = 1 << 20
_MARK: Final = b"\xff\xff\xff\xff"
_HEAD_BYTES: Final = 8


class Tail:
    """A piece of a log, and how far it was read.

    `ended`: the writer closed it. `broken` says why nothing more can be read of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: dict[str, str] = {}
        self.bytes = 0
        self.read_bytes = 0
        self.unsound_rows = 0
        self.ended = False
        self.broken = ""
        self._prefix = b""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are there and not read: an unfinished batch, or there was no time yet."""
        return max(self.bytes - self.read_bytes, 0)

    def read(self) -> pa.Table | None:
        """The rows since the last call, at most `MOST_BYTES` of them; None when there are none.

        Raises OSError where the file is gone or cannot be read.
        """
        if self.ended or self.broken:
            return None
        with self.path.open("rb") as file:
            self.bytes = file.seek(0, 2)
            if self.bytes < self.read_bytes:
                self.broken = "became shorter while it was read"
                return None
            file.seek(self.read_bytes)
            data = file.read(MOST_BYTES)
        try:
            return self._take(data)
        except (TraceFormatError, pa.ArrowException, ValueError, OSError) as error:
            self.broken = f"cannot be read on ({sniff.printable(str(error), 160)})"
            return None

    def _take(self, data: bytes) -> pa.Table | None:
        before, end, batches = self._prefix, 0, 0
        while (kind := self._whole(data, end)) is not None:
            word, length = kind
            if word in ("schema", "dictionary"):
                self._prefix += data[end : end + length]
                if len(self._prefix) > _MOST_PREFIX:
                    raise ValueError("too many dictionaries")
            batches += word == "record batch"
            end += length
            if word == "end":
                self.ended = True
                break
        if end == 0 and len(data) == MOST_BYTES:
            raise ValueError(f"a batch of more than {MOST_BYTES >> 20} MiB")
        self.read_bytes += end
        return self._rows(before + data[:end]) if batches else None

    def _whole(self, data: bytes, at: int) -> tuple[str, int] | None:
        """Kind and length of the message at `at`; None where it is not whole yet."""
        head = data[at : at + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            return None
        size = int.from_bytes(head[4:], "little", signed=True)
        if head[:4] != _MARK or not 0 <= size <= _MOST_METADATA:
            raise ValueError("no Arrow message where one must begin")
        if size == 0:
            return "end", _HEAD_BYTES
        if len(data) < at + _HEAD_BYTES + size:
            return None
        source = pa.BufferReader(pa.py_buffer(data).slice(at))
        try:
            message = pa.ipc.read_message(source)
        except (pa.ArrowException, OSError, EOFError):
            return None  # its body is not there yet
        return str(message.type), int(source.tell())

    def _rows(self, stream: bytes) -> pa.Table | None:
        reader = pa.ipc.open_stream(pa.BufferReader(stream))
        if not self.facts:
            self.facts = cycle_log.facts_of(reader.schema, self.path)
        batches = []
        try:
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
        except (pa.ArrowException, ValueError, OSError):
            self.broken = "holds a damaged batch; the whole ones before it are read"
        table = cycle_log.as_schema(pa.Table.from_batches(batches, reader.schema), self.path)
        sound = table.filter(cycle_log.is_sound(table))
        self.unsound_rows += table.num_rows - sound.num_rows
        return sound if sound.num_rows else None
