"""Secrets are masked before anything is written: command lines, server arguments, reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"

_KEY = re.compile(
    r"(?:^|[_\-.])(?:api|access|admin|private|secret|ssl|hf|hub|auth)?[_\-]?"
    r"(?:key|keys|token|secret|secrets|password|passwd|passphrase|credential|credentials|"
    r"authorization|bearer|cookie)(?:[_\-]?(?:file|id|json))?$",
    re.IGNORECASE,
)
# Counts of tokens are no secrets: max_tokens, num_draft_tokens, token_usage end otherwise.
_INSIDE = (
    # A password before the host, or a token alone.
    (re.compile(r"(://)[^/\s@\"']+@"), rf"\g<1>{MASK}@"),
    (re.compile(r"\b(bearer|basic)\s+[\w\-.~+/=]{6,}", re.IGNORECASE), rf"\g<1> {MASK}"),
    (re.compile(r"\b(?:sk|hf|ghp|gho|ghs|xox[abp]|glpat|nvapi)[-_][\w\-]{8,}"), MASK),
    (re.compile(r"\bgithub_pat_\w{8,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"), MASK),
    (re.compile(r"\beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*"), MASK),
    # In quotes it may hold spaces.
    (
        re.compile(
            r"((?:^|[\s\"'{(,;&?])[\w.\-]*?(?:key|token|secret|password|passwd|passphrase|"
            r"credentials?|authorization)[\"']?\s*[=:]\s*)([\"'])(?:(?!\2).)+\2",
            re.IGNORECASE,
        ),
        rf"\g<1>\g<2>{MASK}\g<2>",
    ),
    (
        re.compile(
            r"((?:^|[\s\"'{(,;&?])[\w.\-]*?(?:key|token|secret|password|passwd|passphrase|"
            r"credentials?|authorization)[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&}]+)",
            re.IGNORECASE,
        ),
        rf"\g<1>{MASK}",
    ),
)


# An option and its value inside a longer text, such as a command line in one piece.
# Several values may follow, as vLLM's --api-key takes them.
_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s"'-]\S*)"""
_OPTION = re.compile(rf"(?<!\S)(--?[\w.\-]+)((?:\s+{_WORD})+|={_WORD})")


def is_secret_name(name: str) -> bool:
    """Whether an option or variable of that name holds a secret."""
    return bool(_KEY.search(name.lstrip("-")))


def text(value: str) -> str:
    """`value` with the secrets inside it masked."""
    for pattern, mask in _INSIDE:
        value = pattern.sub(mask, value)
    return _OPTION.sub(_masked_option, value)


def _masked_option(match: re.Match[str]) -> str:
    name, value = match.groups()
    return f"{name}{value[0]}{MASK}" if is_secret_name(name) else match[0]


def command(arguments: Iterable[str]) -> list[str]:
    """A command line with the values of secret options, and secrets inside others, masked."""
    out: list[str] = []
    hide = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if hide and not argument.startswith("-"):
            out.append(MASK)
            continue
        hide = False
        if equals and is_secret_name(name):
            out.append(f"{name}={MASK}")
            continue
        hide = argument.startswith("-") and not equals and is_secret_name(argument)
        out.append(text(argument))
    return out


def values(data: Any) -> Any:
    """Nested lists and mappings with every secret in them masked."""
    if isinstance(data, str):
        return text(data)
    if isinstance(data, Mapping):
        return {
            str(key): MASK if is_secret_name(str(key)) and value else values(value)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [values(item) for item in data]
    return data
