"""Bytes of a Perfetto trace: track descriptors, interned names, and slices by the million.

Field numbers are those of protos/perfetto/trace/*.proto. Numbers inside slices are written as
varints of fixed width (protobuf reads those with leading zero groups), so that all slices with
the same fields are records of one length and numpy writes them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from specscope.analyzers.columns import Bool, Int

Bytes = npt.NDArray[np.uint8]

# The first packet names the writer: a file that begins so is ours.
WRITER: Final = b"specscope"
_SEQUENCE: Final = 1
_CLEARED, _NEEDS = 1, 2  # sequence_flags
_BEGIN, _END, _INSTANT = 1, 2, 3  # TrackEvent.Type
# Widths of varints: 63 bits, any 64 bits, ids below 2^35, lengths below 2^14.
_TIME, _WHOLE, _ID, _LENGTH = 9, 10, 5, 2


def varint(value: int) -> bytes:
    """One number, as short as it goes."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _block(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def _packet(body: bytes) -> bytes:
    return _block(1, body + _number(10, _SEQUENCE))


def first_packet() -> bytes:
    """Opens the file: the writer's name, and nothing before it counts."""
    category = _number(1, 1) + _block(2, WRITER)
    return _packet(_block(12, _block(1, category)) + _number(13, _CLEARED | _NEEDS))


def track(
    uuid: int, name: str, *, parent: int | None = None, order: int = 0, note: str = ""
) -> bytes:
    """A track; those of one parent stand in their `order`.

    No track is a process: viewers order the tracks of a process by name.
    """
    body = _number(1, uuid) + _block(2, _text(name)) + _number(11, 3) + _number(12, order)
    if parent is not None:
        body += _number(5, parent)
    if note:
        body += _block(14, _text(note))
    return _packet(_block(60, body))


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class Names:
    """Texts that were written once and are meant by number from then on."""

    _FIELDS: Final = {"event": 2, "argument": 3, "value": 29}

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, int]] = {kind: {} for kind in self._FIELDS}
        self._new: list[bytes] = []

    def number(self, kind: str, text: str) -> int:
        """The number of a text of that kind: `event`, `argument` or `value`."""
        ids = self._ids[kind]
        found = ids.get(text)
        if found is None:
            found = ids[text] = len(ids) + 1
            entry = _number(1, found) + _block(2, _text(text))
            self._new.append(_block(self._FIELDS[kind], entry))
        return found

    def numbers(self, kind: str, words: Sequence[str]) -> Int:
        """The same for many."""
        return np.array([self.number(kind, word) for word in words], np.int64)

    def packet(self) -> bytes:
        """What was named since the last call; it has to stand before what means it."""
        new, self._new = self._new, []
        return _packet(_block(12, b"".join(new)) + _number(13, _NEEDS)) if new else b""


@dataclass(frozen=True)
class Argument:
    """One argument of many slices: integers, or numbers of texts; where it is not, it is left out.

    `flow` makes it a connection: slices with the same number are joined by arrows.
    """

    value: Int
    there: Bool
    name: int = 0  # number of its name
    is_text: bool = False
    flow: bool = False


@dataclass(frozen=True)
class Marks:
    """Begins (True) and ends of slices, or instants, in the order in which they happen."""

    time: Int
    begin: Bool
    track: Int
    name: Int  # number of the name; of an end: not used
    arguments: tuple[Argument, ...] = ()
    instant: bool = False


def records(marks: Marks) -> bytes:
    """The packets of all marks."""
    count = len(marks.time)
    shape = np.where(marks.begin, 0, -1).astype(np.int64)
    for place, argument in enumerate(marks.arguments):
        shape += np.where(marks.begin & argument.there, 1 << place, 0)
    kinds, kind_of = np.unique(shape, return_inverse=True)
    made: list[tuple[Int, Bytes]] = []
    size = np.zeros(count, np.int64)
    for number, kind in enumerate(kinds.tolist()):
        rows = np.flatnonzero(kind_of == number)
        block = _alike(marks, rows, kind)
        size[rows] = block.shape[1]
        made.append((rows, block))
    offset = np.cumsum(size) - size
    out = np.empty(int(size.sum()), np.uint8)
    for rows, block in made:
        out[offset[rows][:, None] + np.arange(block.shape[1])] = block
    return out.tobytes()


def _alike(marks: Marks, rows: Int, kind: int) -> Bytes:
    """Packets with the same fields; `kind` -1 is an end, else the bits of its arguments."""
    begins = kind >= 0
    event: list[bytes | Bytes] = [
        _number(9, (_INSTANT if marks.instant else _BEGIN) if begins else _END),
        varint(11 << 3),
        _varints(marks.track[rows], _ID),
    ]
    if begins:
        event += [_number(3, 1), varint(10 << 3), _varints(marks.name[rows], _ID)]
        for place, argument in enumerate(marks.arguments):
            if kind >> place & 1:
                event += _argument(argument, rows)
    size = _size(event)
    head: list[bytes | Bytes] = [
        varint(8 << 3),
        _varints(marks.time[rows], _TIME),
        _number(10, _SEQUENCE) + _number(13, _NEEDS),
        varint(11 << 3 | 2),
        _padded(size, _LENGTH),
    ]
    packet = varint(1 << 3 | 2) + _padded(_size(head) + size, _LENGTH)
    return _side_by_side([packet, *head, *event], len(rows))


def _argument(argument: Argument, rows: Int) -> list[bytes | Bytes]:
    if argument.flow:
        raw = np.ascontiguousarray(argument.value[rows].astype("<u8"))
        return [varint(47 << 3 | 1), raw.view(np.uint8).reshape(len(rows), 8)]
    value = argument.value[rows]
    field, width = (17, _ID) if argument.is_text else (4, _width(value))
    body: list[bytes | Bytes] = [_number(1, argument.name)]
    body += [varint(field << 3), _varints(value, width)]
    return [varint(4 << 3 | 2) + varint(_size(body)), *body]


def _width(values: Int) -> int:
    """Groups of 7 bits that hold the largest; a negative number takes all 64 bits."""
    if not len(values) or values.min() < 0:
        return _WHOLE
    return max(1, -(-int(values.max()).bit_length() // 7))


def _varints(values: Int, width: int) -> Bytes:
    """Numbers of one width; the last group has no flag. Negative ones take 64 bits, width 10."""
    whole = values.astype(np.uint64)
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = (whole[:, None] >> shifts) & np.uint64(127)
    groups[:, :-1] |= np.uint64(128)
    return groups.astype(np.uint8)


def _padded(value: int, width: int) -> bytes:
    return _varints(np.array([value], np.int64), width).tobytes()


def _size(parts: Iterable[bytes | Bytes]) -> int:
    return sum(len(part) if isinstance(part, bytes) else part.shape[1] for part in parts)


def _side_by_side(parts: Sequence[bytes | Bytes], count: int) -> Bytes:
    out = np.empty((count, _size(parts)), np.uint8)
    at = 0
    for part in parts:
        width = _size([part])
        out[:, at : at + width] = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        at += width
    return out
