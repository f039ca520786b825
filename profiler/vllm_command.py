"""vLLM's options, out of the command line of its process: the server does not tell them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "sc": "speculative_config",
    "cc": "compilation_config",
    "O": "optimization_level",
}


def arguments(command: Sequence[str]) -> dict[str, Any]:
    """vLLM's options out of its command line, JSON values and dotted names taken apart."""
    words = list(command)
    if len(words) == 1:  # a process title in one piece
        words = _words(words[0])
    if "-m" in words:  # the interpreter's own, and the module
        words = words[words.index("-m") + 2 :]
    found: dict[str, Any] = {}
    name = None
    for word in words:
        if word.startswith("-") and not _is_number(word):
            if name is not None:
                _put(found, name, True)
            name, equals, value = word.lstrip("-").partition("=")
            if equals:
                _put(found, name, _value(value))
                name = None
        elif name is not None:
            _put(found, name, _value(word))
            name = None
    if name is not None:
        _put(found, name, True)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    first, *inner = name.replace("-", "_").split(".")
    first = _SHORT.get(first, first)
    if not inner:
        old = found.get(first)
        both = isinstance(old, dict) and isinstance(value, dict)
        found[first] = {**old, **value} if both and isinstance(old, dict) else value
        return
    place = found.get(first)
    if not isinstance(place, dict):
        place = found[first] = {}
    for key in inner[:-1]:
        deeper = place.get(key)
        if not isinstance(deeper, dict):
            deeper = place[key] = {}
        place = deeper
    place[inner[-1]] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
