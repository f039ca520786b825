"""Which names of options, variables and keys tell of a secret, word by word.

One text in `profiler/` and in `traces/`, as `masking.py` is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Told by any part of a word.
_SURE: Final = re.compile(
    r"secret|passw(?:or)?d|passphrase|passcode|passkey|credential|authorization|bearer|cookie"
)
_HEADERS: Final = re.compile(r"(?:proxy-)?authorization|(?:set-)?cookie", re.IGNORECASE)
_COMPOUND: Final = re.compile(r"(\w*?)(keys?|tokens?)(files?)?")
# Short for one, where a name ends with it (`EMAIL_PASS`, `--auth-pass`, `GITHUB_PAT`).
_SHORT: Final = _set("pass pat creds cred jwt")
_NO_KEYS: Final = frozenset({"monkey", "turkey", "hotkey", "hotkeys", "donkey"})
# With one of these before it, whatever stands behind it (`API_KEY_PROD`).
_OF_KEYS: Final = _set(
    """
    api access admin auth private signing encryption master ssh ssl account license client
    """
)
_OF_TOKENS: Final = _set(
    """
    access auth api refresh bearer hf hub oauth github gitlab
    """
)
# A token of the vocabulary, or a count of them.
_OF_TEXT: Final = _set(
    """
    max min num number total avg mean count new per each first last next prev inter bos eos
    pad unk cls sep mask image video audio stop think special start begin end prompt input
    output completion draft target bonus root accepted proposed cached batched generated
    generation prefill decode verify context reserved speculative spec extra
    """
)
_BEHIND: Final = _set(
    """
    file files path json str string hash id ids b64 base64 pem
    """
)
_PASS_OF: Final = _set(
    """
    db user mysql pg postgres redis smtp proxy admin root http
    """
)


def is_secret_name(name: str) -> bool:
    """Whether what an option, a variable or a key of that name holds may be a secret."""
    return _kind(name)[0]


def is_surely_secret(name: str) -> bool:
    """Whether it is one by more than its last word: `--api-key`, `HF_TOKEN`, not `--sort-key`."""
    return _kind(name)[0] and _is_sure(name)


def is_count_of(name: str) -> bool:
    """Whether a name may also be that of numbers: `tokens`, `key`, `token_id`."""
    return _kind(name)[1]


def is_header(name: str) -> bool:
    """Whether it is a header of HTTP whose value has spaces."""
    return _HEADERS.fullmatch(name) is not None


@lru_cache(4096)
def _kind(name: str) -> tuple[bool, bool]:
    """Whether it may be secret, and whether numbers of that name are not."""
    words = _words(name)
    if _is_sure(name):
        by_word = _SURE.search(name.lower()) or _is_password(words)
        return True, not by_word and _named(words) in {"keys", "tokens"}
    ids = False
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _BEHIND):
        ids = ids or words[-1] in {"id", "ids"}
        words = words[:-1]
    if len(words) > 1 and words[-1] == "value" and words[-2] == "token":
        words = words[:-1]
    last = words[-1] if words else ""
    if last in _SHORT:
        return True, False
    if last in {"token", "tokens"} and not _OF_TEXT.intersection(words):
        return True, ids or last == "tokens" or len(words) == 1
    if last in {"key", "keys"}:
        return True, last == "keys" or len(words) == 1
    return False, False


def _is_sure(name: str) -> bool:
    words = _words(name)
    return bool(_SURE.search(name.lower()) or _is_password(words) or _named(words))


def _named(words: list[str]) -> str:
    """The word that another one before it makes a secret: `key` of `api key`; else nothing."""
    for before, word in pairwise(words):
        if before in _OF_KEYS and word in {"key", "keys"}:
            return word
        if before in _OF_TOKENS and word in {"token", "tokens"}:
            return word
    return ""


def _is_password(words: list[str]) -> bool:
    # PWD alone is the working folder.
    *before, last = words or [""]
    if not before:
        return False
    return (last == "pwd" and before[-1] != "old") or (last == "pass" and before[-1] in _PASS_OF)


def _words(name: str) -> list[str]:
    words: list[str] = []
    for word in map(str.lower, _WORDS.findall(name)):
        parts = None if word in _NO_KEYS else _COMPOUND.fullmatch(word)
        words += [part for part in parts.groups() if part] if parts else [word]
    return words
