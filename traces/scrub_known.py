"""Who and what stands in an input: users, hosts, secrets, and the placeholder of each.

Learnt from environments and keys that say so, and from paths; all of it before anything is
written, for it may stand anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from . import masking
from . import scrub_rules as rules
from .masking import MASK

# Shorter ones are words; they are masked where their name says what they are.
_SECRET_LENGTH: Final = 6


class Known:
    """What was learnt, by its own text."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.secrets: set[str] = set()
        self.changed = True  # since this was last set to False

    def learn_variable(self, name: str, value: Any) -> None:
        """One entry of an environment, or of any mapping: does it name somebody or a secret?"""
        if not isinstance(value, str) or not value:
            return
        if masking.is_secret_name(name):
            self.learn_secret(value)
        elif rules.USER_KEYS.fullmatch(name):
            self.learn_user(value)
        elif rules.HOST_KEYS.fullmatch(name):
            self.learn_host(value)
        elif name in {"HOME", "PWD", "OLDPWD"}:
            self.learn_path(value)
            if name == "HOME":
                self.learn_user(value.rstrip("/").rpartition("/")[2])

    def learn(self, data: Any) -> None:
        """All of that in nested lists and mappings."""
        if isinstance(data, Mapping):
            for key, value in data.items():
                self.learn_variable(str(key), value)
                self.learn(value)
            named, value = data.get("name"), data.get("value")
            if isinstance(named, str):
                self.learn_variable(named, value)
        elif isinstance(data, (list, tuple)):
            for value in data:
                self.learn(value)
        elif isinstance(data, str):
            self.learn_path(data)
            if "=" in data:
                self._learn_assignments(data)

    def _learn_assignments(self, value: str) -> None:
        for line in re.split(r"[\0\n]", value):
            name, equals, rest = line.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
                self.learn_variable(name, rest)

    def learn_user(self, name: str) -> None:
        """A login name."""
        self.add(self.users, name.strip(), "user")

    def learn_host(self, name: str) -> None:
        """A host name, also with a port behind it or domains."""
        bare = re.sub(r":\d+$", "", name.strip())
        if rules.OWN_HOSTS.fullmatch(bare) or rules.ADDRESS.fullmatch(bare):
            return
        placeholder = self.add(self.hosts, bare, "host")
        first = bare.split(".")[0]
        if placeholder and first != bare and re.search("[A-Za-z]", first):
            self.hosts.setdefault(first, placeholder)

    def add(self, known: dict[str, str], name: str, kind: str) -> str | None:
        """The placeholder of a name; None for one that means something else everywhere."""
        if not name or name in known or not re.fullmatch(r"[\w.\-]{1,253}", name):
            return known.get(name)
        if name.lower() in rules.COMMON_WORDS or rules.PLACEHOLDER.fullmatch(name):
            return None
        if name.isdigit():
            return None
        known[name] = f"{kind}{len(set(known.values())) + 1}"
        self.changed = True
        return known[name]

    def learn_secret(self, value: str) -> None:
        """The value of a name that says it is secret: masked wherever it stands."""
        value = value.strip()
        if len(value) >= _SECRET_LENGTH and value != MASK and not value.isdigit():
            self.secrets.add(value)
            self.changed = True

    def learn_path(self, value: str) -> None:
        """A text in which paths tell users by their homes."""
        if "/" in value:
            for match in rules.HOME.finditer(value):
                self.learn_user(match[1] or match[2] or match[3])
