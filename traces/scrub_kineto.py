"""A copy of a Kineto trace without secrets: event by event, in the order of the file.

The file is read twice: first for what tells users, hosts and secrets, then to be written. Events
in which nothing is replaced are written as they stand, so that times keep their digits; of the
others, numbers do. What is no event, and keys of the top level that specscope does not know, are
left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from . import sniff
from .events import Document, ScanOptions
from .header import KNOWN_KEYS
from .read import documents_of
from .scan import scan_text
from .scan_grammar import EventReader
from .scan_parts import MAX_DEPTH, Events
from .scan_pure import PureReader, StrangeError, check_keys, has_strange_keys
from .scrub_events import EventMask
from .scrub_json import Number, dumps, loads
from .scrub_words import Scrubber
from .text import open_text

# Texts of events that may tell a user, a host or a secret; anything else is not looked at twice.
_TELLS: Final = (
    *(
        "/home",
        "/users",
        "@",
        "token",
        "secret",
        "passw",
        "_key",
        "apikey",
        "api-key",
        "credential",
    ),
    *("user", "host", "logname"),
)
_HOMES: Final = ("/home", "/Users", "/users", "/torchinductor_")
_NAMES: Final = 200_000
# Losses that left nothing out.
_MENDED: Final = frozenset({"repaired", "repaired_header", "odd_separator"})

Write = Callable[[bytes], object]


def learn(path: Path, scrubber: Scrubber, options: ScanOptions) -> list[Document]:
    """Learn who is in the trace; its documents, without their events.

    Raises TraceFormatError, in one line, for what is no trace, and OSError.
    """
    sniff.check(path)
    reader = _Learner(scrubber)
    documents = scan_text(open_text(path, options.max_text_bytes), options, reader)
    if not reader.seen:
        documents_of(path, options, path.name)  # says what it is
    for document in documents:
        for value in document.header.values():
            scrubber.learn(_loads_header(value))
    return documents


def write(
    path: Path,
    documents: Sequence[Document],
    scrubber: Scrubber,
    options: ScanOptions,
    sink: Write,
) -> None:
    """Write the copy; `documents` are those of `learn`."""
    reader = _Writer(scrubber, documents, sink)
    found = scan_text(open_text(path, options.max_text_bytes), options, reader)
    for document in found:
        skipped = [loss for loss in document.losses if loss.length and loss.reason not in _MENDED]
        if skipped:
            scrubber.counts["stretches left out"] += sum(loss.count for loss in skipped)


class _EveryEvent(PureReader):
    """Reads events and keeps none: each goes to `event` or `strange`."""

    def __init__(self) -> None:
        super().__init__(ScanOptions(all_frames=True))
        self.seen = 0

    def event(self, event: dict[str, Any], raw: str) -> None:
        """A plain event of ASCII."""
        raise NotImplementedError

    def strange(self, raw: bytes) -> None:
        """Any other that the grammar accepts."""
        raise NotImplementedError

    def _keep(self, event: dict[str, Any], block: str, q: int, end: int) -> None:
        raw = block[q:end]
        if not raw.isascii() or (self._strange_keys and has_strange_keys(event)):
            raise StrangeError
        if end - q > MAX_DEPTH and raw.count("[") + raw.count("{") > MAX_DEPTH:
            raise StrangeError
        args = event.get("args")
        keys = len(event) + (len(args) if isinstance(args, dict) else 0)
        if keys != raw.count('":') or self._odd_colons:
            check_keys(block, q)
        self.seen += 1
        self.event(event, raw)

    def _commit(self, event: EventReader, offset: int) -> None:
        self._events += 1
        self.seen += 1
        self.strange(event.raw())


class _Learner(_EveryEvent):
    def __init__(self, scrubber: Scrubber):
        super().__init__()
        self._told: set[str] = set()  # that told what they have to tell
        self._scrubber = scrubber

    def event(self, event: dict[str, Any], raw: str) -> None:
        args = raw[raw.find('"args"') :].lower()
        if any(word in args for word in _TELLS):
            self._scrubber.learn(event)
        elif any(word in raw for word in _HOMES):
            name = event.get("name")
            if name not in self._told:
                self._scrubber.learn(event)
            if type(name) is str and len(self._told) < _NAMES:
                self._told.add(name)

    def strange(self, raw: bytes) -> None:
        try:
            self._scrubber.learn(json.loads(raw.decode("utf-8", "surrogateescape"), strict=False))
        except (ValueError, RecursionError):
            self._scrubber.learn_path(raw.decode("latin-1"))


class _Writer(_EveryEvent):
    def __init__(self, scrubber: Scrubber, documents: Sequence[Document], sink: Write):
        super().__init__()
        self._scrubber = scrubber
        self._documents = documents
        self._place = 0  # of the document that is read
        self._open = False
        self._sink = sink
        self._mask = EventMask(scrubber)

    # ---- documents

    def _separate(self) -> bytes:
        if self._open:
            return b",\n"
        self._open = True
        document = self._documents[self._place]
        return b"[\n" if document.is_array else _head(document, self._scrubber)

    def finish(self) -> Events:
        """The end of a document."""
        found = super().finish()
        if self._place < len(self._documents):
            document = self._documents[self._place]
            if document.has_events and not self._open:
                self._sink(self._separate())
            if self._open:
                self._sink(b"\n]\n" if document.is_array else b"\n]}\n")
        self._open = False
        self._place += 1
        return found

    # ---- events

    def event(self, event: dict[str, Any], raw: str) -> None:
        text = self._mask.plain(event, raw)
        if text is None:
            self.strange(raw.encode())
        else:
            self._sink(self._separate() + text.encode())

    def strange(self, raw: bytes) -> None:
        try:
            event = loads(raw)
        except (ValueError, RecursionError):
            # What is text in it and what is not cannot be told.
            self._scrubber.counts["stretches left out"] += 1
            return
        masked = self._mask.masked(event)
        self._sink(self._separate() + (raw if masked == event else dumps(masked)))


def _head(document: Document, scrubber: Scrubber) -> bytes:
    """The top level of the copy up to its events; unknown keys are left out and counted."""
    members = []
    for key, raw in document.header.items():
        value = _loads_header(raw) if key in KNOWN_KEYS else None
        if value is None:
            scrubber.counts["header keys left out"] += 1
            continue
        masked = scrubber.values({key: value})[key]
        members.append(json.dumps(key).encode() + b": " + (dumps(masked)))
    return b"{" + b"".join(member + b",\n" for member in members) + b'"traceEvents": [\n'


def _loads_header(raw: bytes) -> Any:
    """The value, with numbers as they were written; None where it is not JSON."""
    try:
        return json.loads(raw.decode("utf-8", "replace"), strict=False, parse_float=Number)
    except (ValueError, RecursionError):
        return None
