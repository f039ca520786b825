"""Opens an input as text: plain files, gzip, standard input or bytes, read once, forwards.

A `Text` answers one question: give me a buffer that holds position P and at least N bytes
behind it. Plain files are mapped and their pages given back as they are read; everything
else arrives in blocks from a thread of its own, so that inflating and scanning overlap.
Nothing is held whole: at any time a few blocks of `BLOCK` bytes, or one event's worth.

A mapped file that another process shortens can end the process with SIGBUS. Small files are
therefore read and not mapped, and the size of a mapped one is checked before every step of a
few MiB (`check`), which raises `TraceFormatError` instead. Between that check and the reads of
the same step there is a gap of some milliseconds in which shortening is still fatal: writers
of traces rename finished files into place and do not shorten them.
"""

from __future__ import annotations

import mmap
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from isal import igzip_lib

from specscope.traces.errors import TraceFormatError
from specscope.traces.events import Loss

BLOCK = 512 << 10  # bytes of text that travel together; small, so that they stay in the cache
PIECE = 128 << 10  # bytes of gzip that are fed together
SMALL = 1 << 20  # files up to this are read, not mapped
RELEASE = 8 << 20  # mapped pages are given back in steps of this
LOOK_BACK = 256  # how far `before` can look

GZIP = b"\x1f\x8b"

Source = str | Path | bytes


@dataclass(frozen=True)
class Window:
    """A buffer and where it lies; `stop`: ask for another window from there on."""

    buf: bytes | mmap.mmap
    base: int
    stop: int
    final: bool  # the text ends with the buffer

    @property
    def end(self) -> int:
        """Position behind the last byte of the buffer."""
        return self.base + len(self.buf)


class Text(Protocol):
    """The unpacked text of one input; positions are bytes from its start."""

    losses: list[Loss]
    whole: bool  # every window is the whole text: far positions cost nothing

    def window(self, pos: int, size: int) -> Window:
        """A buffer with `pos` and `size` bytes from it on, fewer only at the text's end."""

    def before(self, pos: int) -> bytes:
        """Up to LOOK_BACK bytes before `pos`."""

    def release(self, pos: int) -> None:
        """Nothing before `pos` will be asked for again, but for `before(pos)`."""

    def check(self) -> None:
        """Raise TraceFormatError when the file became shorter."""

    def close(self) -> None:
        """Give everything back; buffers of windows must no longer be in use."""


def too_large(limit: int) -> TraceFormatError:
    """The error for text beyond `limit` bytes, with its mend."""
    return TraceFormatError(
        f"the text is larger than the limit of {limit:,} bytes; "
        "if you trust the file, raise it with --max-text SIZE"
    )


class BytesText:
    """Text that is in memory already."""

    whole = True

    def __init__(self, data: bytes, limit: int):
        if len(data) > limit:
            raise too_large(limit)
        self.losses: list[Loss] = []
        self._window = Window(data, 0, len(data), True)

    def window(self, pos: int, size: int) -> Window:
        """All of it."""
        return self._window

    def before(self, pos: int) -> bytes:
        """See Text."""
        return self._window.buf[max(0, pos - LOOK_BACK) : pos]

    def release(self, pos: int) -> None:
        """Nothing to do."""

    def check(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class FileText:
    """A plain file, mapped; its pages leave memory as they are read."""

    whole = True

    def __init__(self, file: BinaryIO, size: int, limit: int):
        if size > limit:
            raise too_large(limit)
        self.losses: list[Loss] = []
        self._file = file
        self._size = size
        self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self._window = Window(self._map, 0, size, True)
        self._released = 0
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)

    def window(self, pos: int, size: int) -> Window:
        """All of it."""
        return self._window

    def before(self, pos: int) -> bytes:
        """See Text."""
        return self._map[max(0, pos - LOOK_BACK) : pos]

    def release(self, pos: int) -> None:
        """Drop the pages up to `pos` from memory; they would be read again if asked for."""
        upto = pos // mmap.PAGESIZE * mmap.PAGESIZE
        if upto - self._released >= RELEASE and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, self._released, upto - self._released)
            self._released = upto

    def check(self) -> None:
        """Raise when the file is shorter than it was."""
        if os.fstat(self._file.fileno()).st_size < self._size:
            raise TraceFormatError(
                "the file became shorter while it was read; wait until its writer is done"
            )

    def close(self) -> None:
        """Unmap and close."""
        self._map.close()
        self._file.close()


@dataclass
class _End:
    """What the producing thread says last."""

    error: BaseException | None = None
    losses: tuple[Loss, ...] = ()


class StreamText:
    """Text that arrives in blocks from `produce`, which runs in a thread of its own."""

    whole = False

    def __init__(self, produce: Iterator[bytes | Loss], limit: int):
        self.losses: list[Loss] = []
        self._limit = limit
        self._queue: queue.Queue[bytes | _End] = queue.Queue(maxsize=3)
        self._stopping = threading.Event()
        self._blocks: deque[tuple[int, bytes]] = deque()  # (position, block), in order
        self._past = b""  # the last bytes before the first block
        self._end = 0  # position behind the last block
        self._done = False
        self._thread = threading.Thread(target=self._run, args=(produce,), daemon=True)
        self._thread.start()

    def _run(self, produce: Iterator[bytes | Loss]) -> None:
        end = _End()
        total = 0
        try:
            for item in produce:
                if isinstance(item, Loss):
                    item.offset = total
                    end.losses += (item,)
                    continue
                total += len(item)
                if total > self._limit:
                    raise too_large(self._limit)
                if not self._put(item):
                    return
        except BaseException as error:  # handed to the reader, who raises it
            end.error = error
        finally:
            if isinstance(produce, Generator):
                produce.close()  # closes its file now, not when the error is forgotten
        self._put(end)

    def _put(self, item: bytes | _End) -> bool:
        while not self._stopping.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _more(self) -> bool:
        """Take one more block; False at the end of the text."""
        if self._done:
            return False
        item = self._queue.get()
        if isinstance(item, _End):
            self._done = True
            self.losses.extend(item.losses)
            if item.error is not None:
                raise item.error
            return False
        if item:
            self._blocks.append((self._end, item))
            self._end += len(item)
        return True

    def window(self, pos: int, size: int) -> Window:
        """One block where that is enough, else a copy that bridges several."""
        size = max(size, 1)
        while self._end - pos < size and self._more():
            pass
        blocks = [(base, block) for base, block in self._blocks if base + len(block) > pos]
        if not blocks:
            return Window(b"", pos, pos, True)
        base, block = blocks[0]
        last = base + len(block)
        at_end = self._done and last == self._end
        if last - pos >= size or at_end:
            return Window(block, base, last, at_end)
        bridge = block[pos - base :] + b"".join(
            other[: max(size - (start - pos), 0)] for start, other in blocks[1:]
        )
        return Window(bridge, pos, last, self._done and pos + len(bridge) == self._end)

    def before(self, pos: int) -> bytes:
        """See Text."""
        parts = [self._past]
        for base, block in self._blocks:
            if base >= pos:
                break
            parts.append(block[max(0, pos - base - LOOK_BACK) : pos - base])
        return b"".join(parts)[-LOOK_BACK:]

    def release(self, pos: int) -> None:
        """Drop the blocks that end at or before `pos`."""
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= pos:
            _, block = self._blocks.popleft()
            self._past = (self._past + block[-LOOK_BACK:])[-LOOK_BACK:]

    def check(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Stop the thread."""
        self._stopping.set()
        self._thread.join()
        self._blocks.clear()


def plain_blocks(file: BinaryIO, head: bytes) -> Iterator[bytes | Loss]:
    """`head` and the rest of a file that cannot be mapped, in blocks."""
    if head:
        yield head
    while block := file.read(BLOCK):
        yield block


def gzip_blocks(file: _Readable, head: bytes) -> Iterator[bytes | Loss]:
    """The text of all members of a gzip stream; what is wrong with it follows as losses.

    A stream that ends early or turns out damaged gives what came before; bytes behind the
    last member that are no member are named. All of these are losses without length, since
    they are no bytes of the text.
    """
    inflate = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    data = head
    fed = 0
    while True:
        if not data and inflate.needs_input:
            data = file.read(PIECE)
            if not data:
                if fed:
                    yield _gzip_loss("gzip_truncated", "the gzip stream ends early")
                return
        fed += len(data)
        try:
            text = inflate.decompress(data, BLOCK)
        except igzip_lib.IsalError as error:  # type: ignore[misc]
            yield _gzip_loss("gzip_corrupt", f"the gzip stream is damaged ({error})")
            return
        data = b""
        if text:
            yield text
        if inflate.eof:
            data = inflate.unused_data or file.read(PIECE)
            if len(data) < 2:
                data += file.read(PIECE)
            if not data:
                return
            if not data.startswith(GZIP):
                extra = len(data) + sum(len(piece) for piece in iter(lambda: file.read(PIECE), b""))
                yield _gzip_loss("gzip_trailing", f"{extra} bytes behind the gzip stream", extra)
                return
            inflate = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            fed = 0


def _gzip_loss(reason: str, what: str, count: int = 1) -> Loss:
    return Loss(0, 0, count, reason, f"{what}; the text before it was kept")


def open_text(source: Source, limit: int) -> Text:
    """Open a path, `-` for standard input, or bytes; gzip is known by its first bytes.

    Raises TraceFormatError beyond `limit` bytes of text (for a stream: when it gets there)
    and OSError when the file cannot be read.
    """
    if isinstance(source, bytes):
        if source.startswith(GZIP):
            return StreamText(gzip_blocks(_Bytes(source), b""), limit)
        return BytesText(source, limit)
    if source == "-":
        return _open_stream(sys.stdin.buffer, limit)
    file = Path(source).open("rb")  # noqa: SIM115 - the text closes it
    try:
        return _open_file(file, limit)
    except BaseException:
        file.close()
        raise


def _open_file(file: BinaryIO, limit: int) -> Text:
    size = os.fstat(file.fileno()).st_size
    head = file.read(2)
    if head == GZIP or not file.seekable() or not size:
        return _open_stream(file, limit, head)
    file.seek(0)
    if size <= SMALL:
        data = file.read()
        file.close()
        return BytesText(data, limit)
    return FileText(file, size, limit)


def _open_stream(file: BinaryIO, limit: int, head: bytes = b"") -> Text:
    while len(head) < 2 and (more := file.read(2 - len(head))):
        head += more
    if head == GZIP:
        return StreamText(_closing(file, gzip_blocks(file, head)), limit)
    return StreamText(_closing(file, plain_blocks(file, head)), limit)


def _closing(file: BinaryIO, blocks: Iterator[bytes | Loss]) -> Iterator[bytes | Loss]:
    """The blocks; the file is closed behind them, unless it is standard input."""
    try:
        yield from blocks
    finally:
        if file is not sys.stdin.buffer:
            file.close()


class _Readable(Protocol):
    """What `gzip_blocks` needs of a file."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class _Bytes:
    """Bytes with the `read` of a file."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def read(self, size: int, /) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece
