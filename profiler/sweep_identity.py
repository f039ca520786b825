"""Whether a command is the one that a sweep began with, though what is shown of it is masked.

A key may be another one tomorrow: what a name surely calls a secret (`--api-key`, `HF_TOKEN`,
passwords) is left out. Everything else that is masked, because its name or its shape only might be
that of a secret, is part of the command. It is compared by a slow digest with a salt of its own,
for a digest of a word that can be guessed tells the word.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shlex
from collections.abc import Iterable
from typing import Final

from specscope.profiler import masking
from specscope.profiler.secret_names import is_surely_secret
from specscope.profiler.sweep_plan import Template

# About half a second: nobody waits for one, and a list of words takes years.
_ROUNDS: Final = 600_000
_SALT_BYTES: Final = 16


def digest(template: Template | None, before: str | None = None) -> str | None:
    """SALT:DIGEST of the command, with the salt of `before`; None where nothing of it is hidden."""
    if template is None:
        return None
    words = [*(f"{name}={value}" for name, value in template.variables), *template.words]
    known = list(_without_keys(words))
    if shlex.join(known) == shlex.join(map(str, masking.command(known))):
        return None
    salt = bytes.fromhex(before.partition(":")[0]) if before else os.urandom(_SALT_BYTES)
    found = hashlib.pbkdf2_hmac("sha256", "\0".join(known).encode(), salt, _ROUNDS)
    return f"{salt.hex()}:{found.hex()}"


def is_same(template: Template | None, before: str | None) -> bool:
    """Whether it is the command of that digest, as far as it is not shown."""
    return hmac.compare_digest(digest(template, before) or "", before or "")


def _without_keys(words: Iterable[str]) -> Iterable[str]:
    """The words; the mask in place of what a name surely calls a secret."""
    hiding = False
    for word in words:
        name, equals, value = word.partition("=")
        if hiding and not word.startswith("-"):
            yield masking.MASK
            continue
        hiding = word.startswith("-") and not equals and is_surely_secret(word)
        secret = equals and value and is_surely_secret(name)
        yield f"{name}={masking.MASK}" if secret else word
