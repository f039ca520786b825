"""What a server was told, as far as causes ask for it: from `server_args` of the run's context.

Arguments come as a mapping (SGLang's `server_args`, vLLM's engine arguments) or as the words of
a command line. Where each stands is a table of data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

# Figure: the arguments that give it, as in a mapping; a dot goes into JSON. Of several numbers
# the largest counts. SGLang's graphs are by sequences, vLLM's by tokens.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "graph.batch": (
        "cuda_graph_bs",
        "cuda_graph_max_bs",
        "cuda_graph_bs_decode",
        "cuda_graph_max_bs_decode",
    ),
    "graph.tokens": (
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "compilation_config.cudagraph_capture_sizes",
        "compilation_config.max_cudagraph_capture_size",
    ),
    "draft.tp": (
        "speculative_config.draft_tensor_parallel_size",
        "draft_tensor_parallel_size",
        "speculative_draft_tensor_parallel_size",
        "speculative_draft_tp_size",
        "draft_tp_size",
    ),
}
# Figure: the arguments that say yes by being there.
SWITCHES: Final[dict[str, tuple[str, ...]]] = {
    "graph.off": ("disable_cuda_graph", "enforce_eager"),
}
_SHORT: Final = {"sc": "speculative_config", "cc": "compilation_config"}  # vLLM's
_WORD_LIMIT: Final = 1 << 16
_OPTION: Final = re.compile("--?[A-Za-z]")  # a negative number is a value


def flags(server_args: Any) -> dict[str, float]:
    """The figures that the arguments give; empty where they are not known."""
    told = arguments(server_args)
    found = {}
    for figure, places in PLACES.items():
        numbers = [n for place in places for n in _numbers(at(told, place))]
        if numbers:
            found[figure] = max(numbers)
    for figure, places in SWITCHES.items():
        if told:
            found[figure] = float(any(is_on(told.get(place)) for place in places))
    return found


def is_on(value: Any) -> bool:
    """An option without a value, or one that says so."""
    if isinstance(value, list):
        return not value or str(value[0]).lower() in ("true", "1")
    return value is True


def arguments(server_args: Any) -> dict[str, Any]:
    """Arguments by name; the words of a command line as lists."""
    if isinstance(server_args, Mapping):
        return {str(key): value for key, value in server_args.items()}
    if isinstance(server_args, str):
        server_args = server_args[:_WORD_LIMIT].split()
    if not isinstance(server_args, Sequence):
        return {}
    found: dict[str, Any] = {}
    name = ""
    for word in server_args:
        text = str(word)
        if _OPTION.match(text):
            name, _, value = text.lstrip("-").partition("=")
            name = name.replace("-", "_")
            name = _SHORT.get(name, name)
            found[name] = [value] if value else []
        elif name:
            found[name].append(text)
    return found


def at(told: Mapping[str, Any], place: str) -> Any:
    """The value at a place; None where it is not there. vLLM takes dots in an option as well."""
    if place in told:
        return told[place]
    name, _, inner = place.partition(".")
    value = told.get(name)
    if not inner:
        return value
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return at(value, inner) if isinstance(value, Mapping) else None


def _numbers(value: Any) -> Iterator[float]:
    values = value if isinstance(value, list | tuple) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | float | str):
            continue
        try:
            number = float(one)
        except ValueError:
            continue
        if 0 < number < 1e9:
            yield number
