"""Reads back what `export --perfetto` wrote, as a viewer does: ends close the innermost slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Value = int | bytes


@dataclass
class Slice:
    """A slice as a viewer draws it."""

    track: int
    name: str
    start: int
    end: int = -1  # below 0: never ended
    depth: int = 0
    args: dict[str, Any] = field(default_factory=dict)
    flow: int = 0


@dataclass
class Trace:
    """The tracks by id (name, parent), and the slices on them."""

    names: dict[int, str] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)

    def on(self, title: str, parent: str | None = None) -> list[Slice]:
        """The slices on the tracks of that name, all lanes."""
        return [
            one
            for one in self.slices
            if self.names[one.track].split(" (")[0] == title.split(" (", maxsplit=1)[0]
            and (parent is None or self.names.get(self.parents.get(one.track, -1)) == parent)
        ]


def fields(raw: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of one message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(raw):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        size = 8 if kind == 1 else varint()
        assert kind in (1, 2) and at + size <= len(raw)
        yield tag >> 3, raw[at : at + size]
        at += size


def _message(raw: Value) -> dict[int, Value]:
    assert isinstance(raw, bytes)
    return dict(fields(raw))


def read(raw: bytes) -> Trace:
    """The trace. Packets count by their time, equal ones in the order of the file."""
    found = Trace()
    names: dict[tuple[int, int], str] = {}
    events: list[tuple[int, bytes]] = []
    for number, packet in fields(raw):
        assert number == 1 and isinstance(packet, bytes)
        body = _message(packet)
        if 12 in body:
            for kind, entry in fields(bytes(body[12])):  # type: ignore[arg-type]
                one = _message(entry)
                names[kind, int(one[1])] = bytes(one[2]).decode()  # type: ignore[arg-type]
        elif 60 in body:
            _track(_message(body[60]), found)
        else:
            events.append((int(body[8]), bytes(body[11])))  # type: ignore[arg-type]
    stacks: dict[int, list[Slice]] = {}
    for time, event in sorted(events, key=lambda one: one[0]):
        _event(time, event, names, stacks, found)
    return found


def _track(body: dict[int, Value], found: Trace) -> None:
    uuid = int(body[1])
    found.names[uuid] = bytes(body[2]).decode()  # type: ignore[arg-type]
    if 5 in body:
        found.parents[uuid] = int(body[5])


def _event(
    time: int,
    event: bytes,
    names: dict[tuple[int, int], str],
    stacks: dict[int, list[Slice]],
    found: Trace,
) -> None:
    body = _message(event)
    track = int(body[11])
    stack = stacks.setdefault(track, [])
    if body[9] == 2:
        stack.pop().end = time
        return
    made = Slice(track, names[2, int(body[10])], time, depth=len(stack))
    for number, value in fields(event):
        if number == 4:
            one = _message(value)
            word = names[29, int(one[17])] if 17 in one else _signed(int(one[4]))
            made.args[names[3, int(one[1])]] = word
        elif number == 47:
            made.flow = int.from_bytes(bytes(value), "little")  # type: ignore[arg-type]
    found.slices.append(made)
    if body[9] == 1:
        stack.append(made)
    else:
        made.end = time


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
