"""Texts without secrets, and with users, hosts and paths under names of their own.

The same text gets the same placeholder for as long as one `Scrubber` lives: `user1`, `host2`,
`/p/NAME`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from . import masking
from . import scrub_rules as rules
from .masking import MASK
from .scrub_known import Known

# A shorter secret may be a part of a name in code.
_SURE_SECRET_LENGTH: Final = 10
_MEMO: Final = 200_000
_DIGITS: Final = str.maketrans("0123456789", "1111111111")
_WORD: Final = r"(?<![A-Za-z0-9])(?:%s)(?![A-Za-z0-9])"
# Beyond this a text is no name, and looking for shapes in it could take minutes.
MAX_TEXT: Final = 1 << 20

Level = str  # "code", "range", "frame", "name", "text"


class Scrubber(Known):
    """Masks texts by what they are, and counts what it replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._memo: dict[tuple[Level, str], tuple[str, Counter[str]]] = {}
        self._plain: set[tuple[Level, str]] = set()  # texts that stay, with 1 for every digit
        self._learnt: re.Pattern[str] | None = None
        self._found: Counter[str] = Counter()
        self._words: re.Pattern[str] | None = None
        self._long_words: re.Pattern[str] | None = None
        self._secret: re.Pattern[str] | None = None
        self._sure_secret: re.Pattern[str] | None = None

    # ---- masking

    def text(self, value: str) -> str:
        """A text of any kind: command lines, process names, values of settings."""
        return self._masked("text", value)

    def range_name(self, value: str) -> str:
        """The name of a range: only what is surely no part of a name is replaced."""
        return self._masked("range", value)

    def code(self, value: str) -> str:
        """The name of a kernel, an operator, an API call: of these, only known secrets, tokens
        and paths."""
        return self._masked("code", value)

    def frame(self, value: str) -> str:
        """A Python frame, `path(line): function`: its package and file stay."""
        return self._masked("frame", value)

    def file_name(self, value: str) -> str:
        """The name of a file or folder."""
        return self._masked("name", value)

    def identity(self, value: str) -> str:
        """An id of a device or a machine."""
        if not value or rules.PLACEHOLDER.fullmatch(value) or not value.strip("0-"):
            return value
        self.counts["ids"] += 1
        return self.ids.setdefault(value, f"id{len(self.ids) + 1}")

    def variable(self, name: str, value: str) -> str:
        """The value of one setting or variable, by its name."""
        if masking.hides_word(name, value) and value.lower() not in rules.SETTINGS:
            self.counts["secrets"] += value != MASK
            return MASK
        if rules.ID_KEYS.fullmatch(name):
            return self.identity(value)
        whole = {**self.users, **self.hosts}.get(value)
        if whole and (rules.USER_KEYS.fullmatch(name) or rules.HOST_KEYS.fullmatch(name)):
            self.counts["users" if value in self.users else "hosts"] += 1
            return whole
        return self.text(value)

    def values(self, data: Any) -> Any:
        """Nested lists and mappings with every text in them masked, keys included."""
        masked = masking.values(data)
        if masked != data:
            self.counts["secrets"] += max(_masks(masked) - _masks(data), 1)
        return self._walk(masked)

    def _walk(self, data: Any) -> Any:
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            if len(rules.ENVIRONMENT_MARKS.intersection(data)) > 1:
                return self.environment(data)
            return {
                self.range_name(str(key)): self.variable(str(key), value)
                if isinstance(value, str)
                else self._walk(value)
                for key, value in data.items()
            }
        if isinstance(data, (list, tuple)):
            return [self._walk(value) for value in data]
        return data

    def environment(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """An environment with the values of harmless variables only."""
        out: dict[str, Any] = {}
        for key, value in data.items():
            if rules.HARMLESS_VARIABLES.fullmatch(str(key)) and isinstance(value, str):
                out[str(key)] = self.variable(str(key), value)
            else:
                self.counts["environment"] += value != MASK
                out[self.range_name(str(key))] = MASK
        return out

    def _masked(self, level: Level, value: str) -> str:
        if self.changed:
            self._rebuild()
        known = self._memo.get((level, value))
        if known is not None:
            self.counts.update(known[1])
            return known[0]
        # Names with a number in them are many and alike: what is replaced depends on where
        # digits stand, not on which, but for what was learnt.
        # Which ones matters in addresses with colons.
        colons = level != "code" and value.count(":") > 1
        shape = value if colons else value.translate(_DIGITS)
        if (level, shape) in self._plain and not (self._learnt and self._learnt.search(value)):
            return value
        masked, found = self._worked(level, value)
        if self.changed:  # a path told of another user
            return self._masked(level, value)
        if len(self._memo) >= _MEMO:
            self._memo.clear()
        if len(self._plain) >= _MEMO:
            self._plain.clear()
        if masked == value and shape != value and self._worked(level, shape)[0] == shape:
            self._plain.add((level, shape))
        else:
            self._memo[level, value] = masked, found
        self.counts.update(found)
        return masked

    def _worked(self, level: Level, value: str) -> tuple[str, Counter[str]]:
        """The text after all steps, and what they replaced."""
        self._found = found = Counter[str]()
        masked = self._cut(value)
        for step in _STEPS[level]:
            masked = step(self, masked)
        return masked, found

    def _cut(self, value: str) -> str:
        if len(value) <= MAX_TEXT:
            return value
        self._found["long texts"] += 1
        return f"({len(value):,} letters left out)"

    def _rebuild(self) -> None:
        words = [word for word in (*self.users, *self.hosts) if len(word) > 2]
        self._words = _any_of(words, _WORD)
        self._long_words = _any_of([word for word in words if len(word) > 3], _WORD)
        self._secret = _any_of(list(self.secrets), "%s")
        self._learnt = _any_of([*words, *self.secrets], "(?i:%s)")
        sure = [one for one in self.secrets if len(one) >= _SURE_SECRET_LENGTH]
        self._sure_secret = _any_of(sure, "%s")
        self._memo.clear()
        self._plain.clear()
        self.changed = False

    # ---- the steps, each from text to text

    def _known_secrets(self, value: str) -> str:
        return self._sub("secrets", self._secret, MASK, value)

    def _long_secrets(self, value: str) -> str:
        return self._sub("secrets", self._sure_secret, MASK, value)

    def _tokens(self, value: str) -> str:
        return self._sub("secrets", rules.CODE_TOKEN, MASK, value)

    def _shapes(self, value: str) -> str:
        masked = masking.text(value)
        if masked != value:
            self._found["secrets"] += max(masked.count(MASK) - value.count(MASK), 1)
        return masked

    def _emails(self, value: str) -> str:
        if "@" not in value:
            return value
        for match in rules.EMAIL.finditer(value):
            self.learn_user(match[0].partition("@")[0])
        value = self._sub("emails", rules.EMAIL, "user@host", value)

        def at_host(match: re.Match[str]) -> str:
            self.learn_user(match[1])
            self.learn_host(match[2])
            return match[0]

        rules.USER_AT_HOST.sub(at_host, value)
        return value

    def _urls(self, value: str) -> str:
        return rules.URL.sub(self._url, value) if "://" in value else value

    def _url(self, match: re.Match[str]) -> str:
        scheme, account, host, port, rest = match.groups(default="")
        if not rules.OWN_HOSTS.fullmatch(host) and not rules.PLACEHOLDER.fullmatch(host):
            host = self._address(host) if rules.ADDRESS.fullmatch(host) else self._host(host)
        if rest and not rest.startswith("/p/") and len(rest) > 1:
            self._found["paths"] += 1
            self.learn_path(rest)
            rest = f"/p/{re.split('[?#]', rest)[0].rstrip('/').rpartition('/')[2]}"
        return f"{scheme}://{account}{host}{port}{rest}"

    def _host(self, name: str) -> str:
        self._found["hosts"] += 1
        if name in rules.COMMON_WORDS:
            return name
        return self.hosts.get(name) or self.add(self.hosts, name, "host") or "host"

    def _address(self, value: str) -> str:
        self._found["addresses"] += 1
        return self.addresses.setdefault(value, f"address{len(self.addresses) + 1}")

    def _addresses_by_shape(self, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            return match[0] if rules.OWN_HOSTS.fullmatch(match[0]) else self._address(match[0])

        return rules.ADDRESS.sub(one, value)

    def _hosts_by_shape(self, value: str) -> str:
        return (
            rules.DOMAIN.sub(lambda match: self._host(match[0]), value) if "." in value else value
        )

    def _uuids(self, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            self._found["ids"] += 1
            return self.ids.setdefault(match[0], f"id{len(self.ids) + 1}")

        return rules.UUID.sub(one, value) if "-" in value else value

    def _all_paths(self, value: str) -> str:
        if "\\" in value:
            value = rules.WINDOWS.sub(lambda match: self._path(match[0]), value)
        if "/" not in value:
            return value
        value = rules.PATH.sub(
            lambda match: self._path(match[0]) if rules.PATH_START.match(match[0]) else match[0],
            value,
        )
        return self._rooted_paths(value)

    def _rooted_paths(self, value: str) -> str:
        if "/" not in value:
            return value
        return rules.ROOTED.sub(lambda match: self._path(match[0]), value)

    def _path(self, path: str) -> str:
        """`/p/` and the file's name; in a package known to hold stages, its place there."""
        if path.startswith((*rules.SYSTEM_PATHS, "//")):
            return path  # two slashes: what stands behind the scheme of a URL
        self.learn_path(path)
        self._found["paths"] += 1
        return "/p/" + _place_in_package(path.replace("\\", "/").rstrip("/"))

    def _in_frame(self, value: str) -> str:
        match = rules.FRAME.fullmatch(value)
        if not match:
            return value
        path, rest = match.groups()
        absolute = path.startswith(("/", "~", "..")) or rules.WINDOWS.match(path)
        if absolute or rules.SITE.match(path):
            path = self._path(path)
        return path + rest

    def _known_words(self, value: str) -> str:
        return self._words.sub(self._word, value) if self._words else value

    def _known_long_words(self, value: str) -> str:
        return self._long_words.sub(self._word, value) if self._long_words else value

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        kind, known = ("users", self.users) if word in self.users else ("hosts", self.hosts)
        self._found[kind] += 1
        return known[word]

    def _sub(self, kind: str, pattern: re.Pattern[str] | None, by: str, value: str) -> str:
        if pattern is None:
            return value
        masked, count = pattern.subn(by, value)
        if count:
            self._found[kind] += count
        return masked


_Step = Callable[[Scrubber, str], str]

# What is done to a text, in order, by what it is.
_STEPS: Final[dict[Level, tuple[_Step, ...]]] = {
    "code": (Scrubber._long_secrets, Scrubber._tokens, Scrubber._rooted_paths),
    "range": (
        Scrubber._long_secrets,
        Scrubber._shapes,
        Scrubber._emails,
        Scrubber._urls,
        Scrubber._rooted_paths,
        Scrubber._addresses_by_shape,
        Scrubber._known_long_words,
    ),
    "frame": (
        Scrubber._long_secrets,
        Scrubber._tokens,
        Scrubber._in_frame,
        Scrubber._rooted_paths,
        Scrubber._known_long_words,
    ),
    "name": (
        Scrubber._known_secrets,
        Scrubber._tokens,
        Scrubber._emails,
        Scrubber._addresses_by_shape,
        Scrubber._known_words,
    ),
    "text": (
        Scrubber._known_secrets,
        Scrubber._shapes,
        Scrubber._emails,
        Scrubber._urls,
        Scrubber._all_paths,
        Scrubber._addresses_by_shape,
        Scrubber._hosts_by_shape,
        Scrubber._uuids,
        Scrubber._known_words,
    ),
}


def _any_of(words: list[str], form: str) -> re.Pattern[str] | None:
    """Any of the words, the longest first."""
    if not words:
        return None
    return re.compile(form % "|".join(map(re.escape, sorted(words, key=len, reverse=True))))


def _place_in_package(path: str) -> str:
    """The part of a path that stays: behind site-packages, from a known package on, or the name."""
    site = rules.SITE.match(path + "/")
    if site and site.end() < len(path):
        return path[site.end() :]
    parts = path.split("/")
    if parts[-1].endswith((".py", ".pyx", ".cu", ".cpp")):
        for at in range(len(parts) - 2, 0, -1):
            if parts[at] in rules.PACKAGES:
                return "/".join(parts[at:])
    return parts[-1]


def _masks(data: Any) -> int:
    return str(data).count(MASK)
