"""Values that may be secret are masked before anything keeps them.

Harnesses dump environments and command lines into files beside traces; one public trace held a
model hub's access token in clear text.
"""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "***"

SECRET_WORDS: Final = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE")

# Keys that hold one of the words and are known to be harmless.
HARMLESS: Final = re.compile(
    r"(?i)(.*_)?(tokens?_per_s(econd)?|.*_tokens|tokens?_s|num_tokens|tokens|.*tokenizer.*)"
)
# Values that look like access tokens whatever their key: known prefixes, then a long run.
TOKEN_VALUE: Final = re.compile(
    r"(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ)[A-Za-z0-9_\-.]{8,}"
)
# An option and its values inside a command line in one piece.
_WORD: Final = r"""(?:"[^"]*"|'[^']*'|[^\s"'-]\S*)"""
_OPTION: Final = re.compile(rf"(?<!\S)(--?[\w.\-]+)((?:\s+{_WORD})+|={_WORD})")


def is_secret_key(key: str) -> bool:
    """True when the value of that key has to be masked."""
    bare = key.lstrip("-").replace("-", "_")
    upper = bare.upper()
    return any(word in upper for word in SECRET_WORDS) and not HARMLESS.fullmatch(bare)


def mask(value: Any) -> Any:
    """A copy of a JSON value with everything masked that may be secret.

    In lists the entry after a secret option (`--api-key`, X) is masked, and what follows its
    equals sign.
    """
    if isinstance(value, dict):
        return {
            key: MASK if is_secret_key(str(key)) and not _is_number(entry) else mask(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return _mask_list(value)
    if isinstance(value, str):
        return TOKEN_VALUE.sub(MASK, _OPTION.sub(_mask_option, value))
    return value


def _mask_option(match: re.Match[str]) -> str:
    name, rest = match.groups()
    return f"{name}{rest[0]}{MASK}" if is_secret_key(name) else match[0]


def _mask_list(values: list[Any]) -> list[Any]:
    masked: list[Any] = []
    hide_next = False
    for value in values:
        if hide_next and isinstance(value, str) and not value.startswith("-"):
            masked.append(MASK)
        elif isinstance(value, str) and "=" in value and is_secret_key(value.split("=")[0]):
            masked.append(f"{value.split('=')[0]}={MASK}")
        else:
            masked.append(mask(value))
        if not (hide_next and masked[-1] == MASK):  # several values may follow one option
            hide_next = isinstance(value, str) and value.startswith("-") and is_secret_key(value)
    return masked


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
