"""Makes a trace of any size out of a recording: whole cycles again and again, later each time.

    python benchmarks/generate.py /tmp/500M.json --size 500M

What comes out is one valid trace of one server run. A stretch of whole cycles is cut out of the
recording between two points where the host thread is between iterations; each repetition is
shifted by a whole number of microseconds and has correlation, external, flow and event numbers
of its own. The text keeps the writer's own layout, and every number its own digits: shifts
change whole microseconds only, so no number passes through a float. A repetition is one
`%`-formatting of a template, so memory stays at a few times the recording's own text.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

ROOT: Final = Path(__file__).resolve().parents[1]
# The bundled recording, else the same one beside the repository.
EAGLE3: Final = (
    "examples/tp2-70b-eagle3",
    "../shared/traces/own/tp2-70b-eagle3-k3-nvlink-bs1",
)
# A recording with Python frames: over 40 % of its events.
FRAMES: Final = ("../shared/traces/own/tp2-8b-eagle3-k3-nvlink-bs1-stack",)

# Numbers that a repetition must have for itself, by the counter they come from.
_COUNTERS: Final = {
    b"ts": "ts",
    b"correlation": "correlation",
    b"External id": "external",
    b"external id": "external",
    b"id": "correlation",  # of flows: Kineto numbers them by correlation
    b"Ev Idx": "index",
    b"Python id": "python",
    b"Python parent id": "python",
}
_NUMBER: Final = re.compile(
    rb'("(?:' + b"|".join(re.escape(key) for key in _COUNTERS) + rb')":[ ]?)(\d+)(?=[,.}\s])'
)
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"})
_FLOWS: Final = frozenset("stf")
_ONCE: Final = frozenset("Mi")  # phases that a repetition does not repeat


def find_recording(places: Iterable[str]) -> list[Path]:
    """The rank files of the first of these folders that exists; none: an empty list."""
    for place in places:
        files = sorted((ROOT / place).glob("*.json*"))
        files = [file for file in files if "rank" in file.name or "TP" in file.name]
        if files:
            return files
    return []


def size_of(text: str) -> int:
    """`500M` is 500,000,000 bytes, `4G` is 4,000,000,000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; examples: 20M, 500M, 4G")
    return int(float(match[1]) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[match[2]])


# ---- the recording


@dataclass
class Event:
    """One event: its text, and what is needed of its content."""

    text: bytes
    ph: str
    cat: str
    name: str
    ts: float  # only ever compared, never written
    end: float
    pid: Any
    tid: Any
    link: int | None  # correlation, or the number of a flow
    external: int | None

    @property
    def on_gpu(self) -> bool:
        """Whether its time is that of a GPU."""
        return self.cat in _GPU


@dataclass
class Recording:
    """A trace cut into the text before its events, the events, and the text behind."""

    head: bytes
    events: list[Event]
    separator: bytes
    tail: bytes


def read_recording(path: Path) -> Recording:
    """The events of a trace with the text of each; numbers are not touched."""
    data = path.read_bytes()
    raw = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    found = _EVENTS.search(raw)
    if found is None:
        raise SystemExit(f"{path.name}: no traceEvents in it")
    text = raw.decode("utf-8", "surrogateescape")
    pos = first = text.index("{", len(raw[: found.end()].decode("utf-8", "surrogateescape")))
    decoder = json.JSONDecoder(strict=False)
    events: list[Event] = []
    separator = ",\n"
    while True:
        content, end = decoder.raw_decode(text, pos)
        events.append(_event(content, text[pos:end].encode("utf-8", "surrogateescape")))
        following = text.find("{", end)
        between = text[end:following]
        if following < 0 or between.strip() != ",":
            break
        separator, pos = between, following
    return Recording(
        text[:first].encode("utf-8", "surrogateescape"),
        events,
        separator.encode(),
        text[end:].encode("utf-8", "surrogateescape"),
    )


def _event(content: dict[str, Any], text: bytes) -> Event:
    args = content.get("args") or {}
    ph = content.get("ph", "")
    ts = float(content.get("ts", 0))
    return Event(
        text=text,
        ph=ph,
        cat=content.get("cat", ""),
        name=content.get("name", ""),
        ts=ts,
        end=ts + float(content.get("dur", 0)),
        pid=content.get("pid"),
        tid=content.get("tid"),
        link=content.get("id") if ph in _FLOWS else args.get("correlation"),
        external=args.get("External id", args.get("external id")),
    )


# ---- which part of it is repeated


@dataclass
class Parts:
    """Events that come once (before, around) and those that are repeated, each `period_us`."""

    once: list[Event]
    repeated: list[Event]
    period_us: int


def split(events: list[Event]) -> Parts:
    """Cut out whole cycles; without a mark that comes back, the whole recording is repeated."""
    timed = [e for e in events if e.ph not in _ONCE and e.cat != "Trace"]
    window = _window(timed) or (-float("inf"), float("inf"))
    launched: dict[int | None, float] = {
        e.link: e.ts for e in timed if not e.on_gpu and e.link and e.ph == "X"
    }
    marked: dict[int | None, float] = {
        e.external: e.ts for e in timed if e.cat == "user_annotation" and e.external
    }
    once = [e for e in events if e.ph in _ONCE or e.cat == "Trace"]
    repeated = []
    for event in timed:
        start = event.ts
        if event.link in launched:
            start = launched[event.link]  # what was launched inside belongs to it, done or not
        elif event.cat == "gpu_user_annotation":
            start = marked.get(event.external, start)
        if window[0] <= start < window[1]:
            repeated.append(event)
        elif start < window[0]:
            once.append(event)
    return Parts(once, repeated, _period(repeated, window))


def _window(events: list[Event]) -> tuple[float, float] | None:
    """From the second to the last occurrence of the annotation that opens cycles."""
    marks = [e for e in events if e.cat == "user_annotation" and e.ph == "X"]
    spent: Counter[tuple[str, Any]] = Counter()
    for mark in marks:
        spent[mark.name, mark.tid] += int(mark.end - mark.ts)
    for (name, tid), _ in spent.most_common():
        starts = sorted(e.ts for e in marks if e.name == name and e.tid == tid)
        if len(starts) >= 3:
            thread = [e for e in events if e.tid == tid and e.ph == "X" and not e.on_gpu]
            return _quiet(thread, starts[0], starts[1]), _quiet(thread, starts[-2], starts[-1])
    return None


def _quiet(thread: list[Event], after: float, before: float) -> float:
    """The last moment in between that the fewest ranges of the thread reach across."""
    starts = sorted(e.ts for e in thread)
    ends = sorted(e.end for e in thread)
    candidates = [e.ts for e in thread if after < e.ts <= before]
    return min(
        candidates, key=lambda at: (bisect_left(starts, at) - bisect_left(ends, at + 1e-9), -at)
    )


def _period(events: list[Event], window: tuple[float, float]) -> int:
    """Microseconds from one repetition to the next: at least what each GPU stream needs."""
    spans: dict[Any, tuple[float, float]] = {}
    whole = window[1] == float("inf")
    for event in events:
        if event.ph == "X" and (event.on_gpu or whole):
            low, high = spans.get((event.pid, event.tid), (event.ts, event.end))
            spans[event.pid, event.tid] = min(low, event.ts), max(high, event.end)
    longest = max((high - low for low, high in spans.values()), default=0.0)
    return int(max(longest, 0 if whole else window[1] - window[0])) + 1


# ---- layouts


def _compact(text: str) -> str:
    return "".join(_TOKEN.findall(text))


def _indented(text: str) -> str:
    """One key a line, as `json.dump(indent=2)` lays it out, numbers as they are."""
    out: list[str] = []
    depth = 2
    tokens = _TOKEN.findall(text)
    for at, token in enumerate(tokens):
        if token in "{[":
            depth += 1
            out.append(token if tokens[at + 1] in "}]" else token + "\n" + "  " * depth)
        elif token in "}]":
            depth -= 1
            out.append(token if tokens[at - 1] in "{[" else "\n" + "  " * depth + token)
        elif token == ",":
            out.append(",\n" + "  " * depth)
        else:
            out.append(": " if token == ":" else token)
    return "".join(out)


LAYOUTS: Final[dict[str, tuple[Callable[[str], str] | None, bytes]]] = {
    "own": (None, b""),
    "compact": (_compact, b","),
    "indent": (_indented, b",\n    "),
}


def lay_out(recording: Recording, layout: str) -> None:
    """Re-lay the text of all events; the header stays as it is."""
    change, separator = LAYOUTS[layout]
    if change is None:
        return
    recording.separator = separator
    for event in recording.events:
        text = event.text.decode("utf-8", "surrogateescape")
        event.text = change(text).encode("utf-8", "surrogateescape")


# ---- another rank


def as_rank(recording: Recording, rank: int, ranks: int) -> None:
    """Make it the trace of `rank`: its number, world size, device and process."""
    own = re.search(rb'"rank"\s*:\s*(\d+)', recording.head)
    was = int(own[1]) if own else 0
    recording.head = re.sub(rb'("rank"\s*:\s*)\d+', rb"\g<1>%d" % rank, recording.head, count=1)
    recording.head = re.sub(
        rb'("world_size"\s*:\s*)\d+', rb"\g<1>%d" % ranks, recording.head, count=1
    )
    devices = {str(e.pid) for e in recording.events if e.cat == "kernel"}

    def numbered(match: re.Match[bytes]) -> bytes:
        number = int(match[2])
        if match[1].startswith(b'"device"') or match[2].decode() in devices:
            return match[1] + b"%d" % rank
        return match[1] + b"%d" % (number + 100_000 * (rank - was) if number > 99 else number)

    for event in recording.events:
        event.text = re.sub(rb'("(?:pid|device)":[ ]?)(\d+)', numbered, event.text)
        if event.ph == "M":
            event.text = event.text.replace(b"TP%d" % was, b"TP%d" % rank)


# ---- writing


@dataclass
class Template:
    """The text of many events with a place for every number that changes."""

    text: bytes
    bases: list[int]
    counters: list[str]
    steps: dict[str, int] = field(default_factory=dict)

    def render(self, repetition: int) -> bytes:
        """The text of one repetition."""
        by = {name: step * repetition for name, step in self.steps.items()}
        values = (base + by[name] for base, name in zip(self.bases, self.counters, strict=True))
        return self.text % tuple(values)


def template_of(events: list[Event], separator: bytes, steps: dict[str, int]) -> Template:
    """A template of these events."""
    bases: list[int] = []
    counters: list[str] = []
    is_flow = False

    def place(match: re.Match[bytes]) -> bytes:
        key = match[1].split(b'"')[1]
        number = int(match[2])
        if (key == b"id" and not is_flow) or (number == 0 and key != b"Ev Idx"):
            return match[0]
        bases.append(number)
        counters.append(_COUNTERS[key])
        return match[1] + b"%d"

    parts = []
    for event in events:
        is_flow = event.ph in _FLOWS
        parts.append(_NUMBER.sub(place, event.text.replace(b"%", b"%%")))
    return Template(separator.join(parts), bases, counters, steps)


def steps_of(repeated: Template, every: Template, period_us: int) -> dict[str, int]:
    """By how much each counter grows from one repetition to the next."""
    steps = {}
    for name in set(_COUNTERS.values()):
        used = [b for b, c in zip(repeated.bases, repeated.counters, strict=True) if c == name]
        low = min(
            (b for b, c in zip(every.bases, every.counters, strict=True) if c == name), default=0
        )
        steps[name] = max(used, default=0) - low + 1
    steps["ts"] = period_us
    return steps


class Sink(Protocol):
    """Something to write text to."""

    def write(self, data: bytes, /) -> Any:
        """Write it."""

    def close(self) -> None:
        """Finish."""


class _Gzip:
    def __init__(self, file: BinaryIO, level: int):
        self._file = file
        self._deflate = zlib.compressobj(level, zlib.DEFLATED, 31)

    def write(self, data: bytes, /) -> None:
        self._file.write(self._deflate.compress(data))

    def close(self) -> None:
        self._file.write(self._deflate.flush())
        self._file.close()


def generate(
    source: Path,
    target: Path,
    size: int,
    *,
    layout: str = "own",
    gz: int | None = None,
    rank: int | None = None,
    ranks: int = 1,
) -> int:
    """Write a trace of about `size` bytes of text; how many events are in it."""
    recording = read_recording(source)
    if rank is not None:
        as_rank(recording, rank, ranks)
    lay_out(recording, layout)
    parts = split(recording.events)
    file = target.open("wb")
    sink: Sink = file if gz is None else _Gzip(file, gz)
    with closing(sink):
        count = 0
        for events, text in _pieces(recording, parts, size):
            sink.write(text)
            count += events
    return count


def _pieces(recording: Recording, parts: Parts, size: int) -> Iterator[tuple[int, bytes]]:
    """The text in order, each piece with the number of events in it."""
    separator = recording.separator
    every = template_of(recording.events, separator, {})
    repeated = template_of(parts.repeated, separator, {})
    repeated.steps = steps_of(repeated, every, parts.period_us)
    first = [e for e in parts.once if e.ph not in _ONCE and e.cat != "Trace"]
    last = [e for e in parts.once if e.ph in _ONCE or e.cat == "Trace"]
    around = len(recording.head) + len(recording.tail) + _length(last, separator)
    room = size - around
    each = _length(parts.repeated, separator)
    begun = False

    def joined(text: bytes) -> bytes:
        nonlocal begun
        text = separator + text if begun else text
        begun = True
        return text

    yield 0, recording.head
    if first := _until(first, room, separator):
        room -= _length(first, separator)
        yield len(first), joined(separator.join(e.text for e in first))
    repetition = 0
    while room >= each:
        text = repeated.render(repetition)
        room -= len(text) + len(separator)
        yield len(parts.repeated), joined(text)
        repetition += 1
    if rest := _until(parts.repeated, room, separator):
        cut = template_of(rest, separator, repeated.steps)
        yield len(rest), joined(cut.render(repetition))
    later = repetition * parts.period_us
    yield len(last), joined(separator.join(_ended(e, later) for e in last))
    yield 0, recording.tail


def _length(events: list[Event], separator: bytes) -> int:
    return sum(len(e.text) + len(separator) for e in events)


def _until(events: list[Event], room: int, separator: bytes) -> list[Event]:
    """The earliest events that have room, in the order of the file."""
    kept: set[int] = set()
    for at in sorted(range(len(events)), key=lambda i: events[i].ts):
        room -= len(events[at].text) + len(separator)
        if room < 0:
            break
        kept.add(at)
    return [event for at, event in enumerate(events) if at in kept]


def _ended(event: Event, later: int) -> bytes:
    """An event that comes once, where it names the end of the recording: later by that."""
    if event.cat == "Trace":
        return re.sub(
            rb'("dur":[ ]?)(\d+)',
            lambda match: match[1] + b"%d" % (int(match[2]) + later),
            event.text,
        )
    if event.name == "Record Window End":
        return re.sub(
            rb'("ts":[ ]?)(\d+)',
            lambda match: match[1] + b"%d" % (int(match[2]) + later),
            event.text,
        )
    return event.text


def main(arguments: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Make a large trace out of a recording.")
    parser.add_argument("target", type=Path, help="file to write; a folder with --ranks")
    parser.add_argument("--size", type=size_of, default="500M", help="text of each file: 500M, 4G")
    parser.add_argument("--source", type=Path, action="append", help="a recording, one per rank")
    parser.add_argument("--frames", action="store_true", help="the recording with Python frames")
    parser.add_argument("--layout", choices=LAYOUTS, default="own")
    parser.add_argument("--gz", type=int, choices=range(1, 10), metavar="LEVEL", help="1 to 9")
    parser.add_argument("--ranks", type=int, metavar="N", help="write N rank files into a folder")
    options = parser.parse_args(arguments)
    sources = options.source or find_recording(FRAMES if options.frames else EAGLE3)
    if not sources:
        parser.error("no recording found; give one with --source")
    targets = [options.target]
    if options.ranks:
        options.target.mkdir(parents=True, exist_ok=True)
        ending = ".trace.json" if options.gz is None else ".trace.json.gz"
        targets = [options.target / f"1700000000-TP-{r}{ending}" for r in range(options.ranks)]
    for rank, target in enumerate(targets):
        count = generate(
            sources[rank % len(sources)],
            target,
            options.size,
            layout=options.layout,
            gz=options.gz,
            rank=rank if options.ranks else None,
            ranks=options.ranks or 1,
        )
        print(f"{target}: {count:,} events, {target.stat().st_size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
