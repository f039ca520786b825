"""A copy of a Kineto trace without secrets: event by event, in the order of the file.

The file is read twice: first for what tells users, hosts and secrets, then to be written. Events
in which nothing is replaced are written as they stand, so that times keep their digits; of the
others, numbers do. What is no event, and keys of the top level that specscope does not know, are
left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from . import masking, sniff
from . import scrub_rules as rules
from .events import Document, ScanOptions
from .header import KNOWN_KEYS
from .kineto_names import CATEGORIES
from .read import documents_of
from .scan import scan_text
from .scan_grammar import EventReader
from .scan_parts import MAX_DEPTH
from .scan_pure import PureReader, StrangeError, check_keys, has_strange_keys
from .scan_parts import Events
from .scrub_json import Number, Pairs, dumps, loads
from .scrub_words import Level, Scrubber
from .text import open_text

# What the name of an event is, by what its category becomes.
_LEVELS: Final[dict[str, Level]] = {
    **dict.fromkeys(("kernel", "copy", "set", "call", "operator"), "code"),
    "annotation": "range",
    "frame": "frame",
}
# Texts of events that may tell a user, a host or a secret; anything else is not looked at twice.
_TELLS: Final = (
    *("@", "token", "secret", "passw", "_key", "apikey", "api-key", "credential"),
    *("user", "host", "logname"),
)
_LITERAL: Final = re.compile(
    rb'"((?:[^"\\]|\\.)*)"([\x00-\x20]*:[\x00-\x20]*"((?:[^"\\]|\\.)*)")?', re.DOTALL
)
# Losses that left nothing out.
_MENDED: Final = frozenset({"repaired", "repaired_header", "odd_separator"})
_CLEAN: Final = 300_000

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
        self._scrubber = scrubber

    def event(self, event: dict[str, Any], raw: str) -> None:
        args = raw[raw.find('"args"') :].lower()
        if "/home" in raw or "/Users" in raw or any(word in args for word in _TELLS):
            self._scrubber.learn(event)

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
        self._clean: set[tuple[Level, str, str]] = set()

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
        if self._is_clean(event):
            self._sink(self._separate() + raw.encode())
        else:
            self.strange(raw.encode())

    def strange(self, raw: bytes) -> None:
        try:
            event = loads(raw)
        except (ValueError, RecursionError):
            self._sink(self._separate() + _literals(raw, self._scrubber))
            return
        masked = self._masked(event)
        self._sink(self._separate() + (raw if masked == event else dumps(masked)))

    def _masked(self, event: Pairs) -> Pairs:
        """The event with its texts masked, every key as often as it stands there."""
        level = _level(next((value for key, value in event if key == "cat"), None))
        out = Pairs()
        for key, value in event:
            if isinstance(value, str):
                out.append((self._key(key), self._text(level, key, value)))
            elif isinstance(value, Pairs):
                out.append((self._key(key), self._members(value)))
            elif isinstance(value, list):
                out.append((self._key(key), self._nested(key, value)))
            else:
                out.append((self._key(key), value))
        return out

    def _members(self, members: Pairs) -> Any:
        if len(rules.ENVIRONMENT_MARKS.intersection(key for key, _ in members)) > 1:
            return _as_pairs(self._scrubber.environment(_as_dict(members)))
        out = Pairs()
        for key, value in members:
            if isinstance(value, str):
                masked = self._scrubber.variable(key, value)
            else:
                masked = self._nested(key, value)
            out.append((self._key(key), masked))
        return out

    def _nested(self, key: str, value: Any) -> Any:
        """A value that is no text; numbers come through as they are."""
        return _as_pairs(self._scrubber.values({key: _as_dict(value)}).popitem()[1])

    def _key(self, key: str) -> str:
        return self._scrubber.range_name(key)

    def _text(self, level: Level, key: str, value: str) -> str:
        if key == "name":
            return self._scrubber.frame(value) if level == "frame" else self._named(level, value)
        if key in ("cat", "ph"):
            return self._scrubber.range_name(value)
        return self._scrubber.variable(key, value)

    def _named(self, level: Level, value: str) -> str:
        return self._scrubber.code(value) if level == "code" else self._scrubber.range_name(value)

    def _is_clean(self, event: dict[str, Any]) -> bool:
        """Is there nothing to replace in it? Quick where its texts were seen before."""
        clean = self._clean
        level = _LEVELS_OF.get(event.get("cat"), "range")  # type: ignore[arg-type]
        for key, value in event.items():
            kind = type(value)
            if kind is str:
                if (level, key, value) not in clean and not self._now_clean(level, key, value):
                    return False
            elif kind is dict:
                for inner, member in value.items():
                    if type(member) is str:
                        known = ("", inner, member) in clean
                        if not known and not self._now_clean("", inner, member):
                            return False
                    elif type(member) in (list, dict):
                        if not self._is_plain(inner, member):
                            return False
                    elif ("", inner, "") not in clean and not self._now_clean_key(inner, member):
                        return False
            elif kind is list:
                return False
            elif ("", key, "") not in clean and not self._now_clean_key(key, None):
                return False
        return True

    def _is_plain(self, key: str, value: Any) -> bool:
        """Lists of numbers, as shapes are, and lists of texts that were seen before."""
        if type(value) is not list:
            return False
        if ("", key, "") not in self._clean and not self._now_clean_key(key, value):
            return False
        if all(type(one) is str for one in value):
            known = (key, "[]", "\0".join(value))
            if known not in self._clean:
                before = self._scrubber.counts.copy()
                if self._scrubber.values({key: value}) != {key: value}:
                    self._scrubber.counts = before
                    return False
                self._remember(known)
            return True
        return all(
            type(one) in (int, bytes) or (type(one) is list and self._is_plain(key, one))
            for one in value
        )

    def _now_clean(self, level: Level, key: str, value: str) -> bool:
        before = self._scrubber.counts.copy()
        masked = (
            self._text(level, key, value) if level else self._scrubber.variable(key, value)
        )
        if masked != value or self._key(key) != key:
            self._scrubber.counts = before
            return False
        self._remember((level, key, value))
        return True

    def _now_clean_key(self, key: str, value: Any) -> bool:
        before = self._scrubber.counts.copy()
        if self._key(key) != key or masking.is_secret_name(key):
            self._scrubber.counts = before
            return value is not None and not masking.hides(key, value)
        self._remember(("", key, ""))
        return True

    def _remember(self, item: tuple[Level, str, str]) -> None:
        if len(self._clean) >= _CLEAN:
            self._clean.clear()
        self._clean.add(item)


def _level(category: Any) -> Level:
    return _LEVELS_OF.get(category, "range") if isinstance(category, str) else "range"


_LEVELS_OF: Final[dict[str | None, Level]] = {
    category: _LEVELS[kind] for category, kind in CATEGORIES.items()
}


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


def _as_dict(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: _as_dict(member) for key, member in value}
    if isinstance(value, list):
        return [_as_dict(member) for member in value]
    return value


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((key, _as_pairs(member)) for key, member in value.items())
    if isinstance(value, list):
        return [_as_pairs(member) for member in value]
    return value


def _literals(raw: bytes, scrubber: Scrubber) -> bytes:
    """An event that only the grammar of traces accepts: its texts one by one."""

    def one(match: re.Match[bytes]) -> bytes:
        key = _literal(match[1])
        if match[3] is None:
            masked = scrubber.text(key)
            return match[0] if masked == key else _quoted(masked)
        value = _literal(match[3])
        masked = scrubber.range_name(value) if key == "name" else scrubber.variable(key, value)
        if masked == value:
            return match[0]
        return _quoted(scrubber.range_name(key)) + b": " + _quoted(masked)

    return _LITERAL.sub(one, raw)


def _literal(raw: bytes) -> str:
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _quoted(text: str) -> bytes:
    return dumps(text)
