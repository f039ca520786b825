"""One event of a Kineto trace without secrets: its names by what they are, all else as text."""

from __future__ import annotations

import json
from typing import Any, Final

from . import masking
from . import scrub_rules as rules
from .kineto_names import CATEGORIES
from .scrub_json import Pairs, dumps
from .scrub_words import Level, Scrubber

# What the name of an event is, by what its category becomes.
_LEVELS: Final[dict[str, Level]] = {
    **dict.fromkeys(("kernel", "copy", "set", "call", "operator"), "code"),
    "annotation": "range",
    "frame": "frame",
}
_CLEAN: Final = 300_000


class EventMask:
    """Masks the events of one file."""

    def __init__(self, scrubber: Scrubber):
        self._scrubber = scrubber
        self._clean: set[tuple[Level, str, str]] = set()

    def masked(self, event: Pairs) -> Pairs:
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
            masked = value
            if isinstance(value, str):
                masked = self._scrubber.variable(key, value)
            elif isinstance(value, list) or masking.is_secret_name(key):
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

    def plain(self, event: dict[str, Any], raw: str) -> str | None:
        """The text of an event in which nothing but its name is to be replaced; else None."""
        if self.is_clean(event):
            return raw
        name = event.get("name")
        if type(name) is not str or not self.is_clean({**event, "name": ""}):
            return None
        written = json.dumps(name)
        if raw.count(written) != 1:
            return None
        level = _level(event.get("cat"))
        masked = dumps(self._text(level, "name", name)).decode("utf-8", "replace")
        return raw.replace(written, masked)

    def is_clean(self, event: dict[str, Any]) -> bool:
        """Is there nothing to replace in it? Quick where its texts were seen before."""
        clean = self._clean
        level = _LEVELS_OF.get(event.get("cat"), "range")
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
            elif kind is list or (
                ("", key, "") not in clean and not self._now_clean_key(key, None)
            ):
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
        masked = self._text(level, key, value) if level else self._scrubber.variable(key, value)
        if masked != value or self._key(key) != key:
            self._scrubber.counts = before
            return False
        self._remember((level, key, value))
        return True

    def _now_clean_key(self, key: str, value: Any) -> bool:
        before = self._scrubber.counts.copy()
        if self._key(key) != key:
            self._scrubber.counts = before
            return False
        if masking.is_secret_name(key):
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
