"""The engine's own server arguments, beside the cycle log: as the engine has them, masked.

A hook on a constructor remembers the object that holds them; the thread that writes the attach
report reads it, once it and again when the rank is known. Only plain values are written; what
is none is shown by its `repr`, cut short. Secrets are masked before anything is cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import os
from collections.abc import Callable, Mapping, Set
from pathlib import Path, PurePath
from typing import Any, Final

from . import attach_report, masking, ranks

SCHEMA_VERSION: Final = 1
PREFIX: Final = "server-args"

# Bounds of what is written.
DEEPEST: Final = 8
MOST_VALUES: Final = 10_000
MOST_ITEMS: Final = 500
LONGEST_TEXT: Final = 2_000
LONGEST_REPR: Final = 300

# Where an engine's arguments say what the others are compared by.
_SUMMARY: Final = {
    "sglang": {
        "model": "model_path",
        "draft_model": "speculative_draft_model_path",
        "method": "speculative_algorithm",
        "k": "speculative_num_steps",
        "draft_tokens": "speculative_num_draft_tokens",
        "tp": "tp_size",
        "pp": "pp_size",
        "dp": "dp_size",
    },
    "vllm": {
        "model": "model_config.model",
        "draft_model": "speculative_config.model",
        "method": "speculative_config.method",
        "k": "speculative_config.num_speculative_tokens",
        "tp": "parallel_config.tensor_parallel_size",
        "pp": "parallel_config.pipeline_parallel_size",
        "dp": "parallel_config.data_parallel_size",
    },
}


@dataclasses.dataclass
class _Seen:
    engine: str = ""
    arguments: Any = None
    written: tuple[object, ...] = ()


_SEEN: Final = _Seen()


def remember(engine: str, arguments: Any) -> None:
    """The object that holds the arguments; the first of the process counts."""
    if _SEEN.arguments is None:
        _SEEN.engine, _SEEN.arguments = engine, arguments


def forget() -> None:
    """As before any was seen."""
    _SEEN.engine, _SEEN.arguments, _SEEN.written = "", None, ()


def ranks_before() -> int | None:
    """How many ports a process without a rank leaves to the ranks, where the engine says so.

    vLLM's EngineCore schedules for workers in processes of their own.
    """
    config = getattr(_SEEN.arguments, "parallel_config", None)
    size = getattr(config, "world_size_across_dp", None)
    replica = getattr(config, "data_parallel_rank", None)
    if type(size) is not int:
        return None
    return size + (replica if type(replica) is int else 0)


def write(folder: Path, version_of: Callable[[str], str]) -> Path | None:
    """Write the file of this process, unless it is there with all that is known now."""
    if _SEEN.arguments is None:
        return None
    world = ranks.distributed()
    state = (os.getpid(), world)
    if state == _SEEN.written:
        return None
    made = document(_SEEN.engine, _SEEN.arguments, version_of(_SEEN.engine), world)
    path = folder / f"{PREFIX}-{made['host']}-{made['pid']}.json"
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(json.dumps(made, indent=1) + "\n")
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    _SEEN.written = state
    return path


def document(
    engine: str, arguments: Any, version: str, world: tuple[int, int] | None
) -> dict[str, Any]:
    """What is written: who, the arguments that others are compared by, and all of them."""
    summary = {
        name: plain(value)
        for name, path in _SUMMARY.get(engine, {}).items()
        if (value := _reached(arguments, path)) is not None
    }
    return {
        "schema_version": SCHEMA_VERSION,
        **attach_report.identity(),
        "rank": world[0] if world else None,
        "world_size": world[1] if world else None,
        "engine": engine,
        "engine_version": masking.text(version),
        "summary": summary,
        "arguments": plain(arguments),
    }


def plain(value: Any) -> Any:
    """The value as JSON can hold it, without secrets."""
    return _Plain().of(value, 0)


class _Plain:
    """Goes through an object once, within bounds."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool) or type(value) is int:
            return value
        if isinstance(value, float):
            return value if abs(value) < float("inf") else str(value)
        if isinstance(value, str) and not isinstance(value, enum.Enum):
            return _cut(str(value), LONGEST_TEXT)
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, PurePath):
            return _cut(str(value), LONGEST_TEXT)
        if depth >= DEEPEST or self._left <= 0:
            return "..."
        names = () if isinstance(value, type) else _field_names(value)
        if names:
            pairs = [(name, getattr(value, name, None)) for name in names]
            return {name: self._named(name, one, depth) for name, one in pairs}
        if isinstance(value, Mapping):
            items = list(value.items())[:MOST_ITEMS]
            return {
                _cut(str(key), LONGEST_REPR): self._named(str(key), one, depth)
                for key, one in items
            }
        if isinstance(value, (list, tuple, Set)):
            listed = [self.of(item, depth + 1) for item in list(value)[:MOST_ITEMS]]
            return masking.command(listed)
        return _shown(value)

    def _named(self, name: str, value: Any, depth: int) -> Any:
        return masking.MASK if masking.hides(name, value) else self.of(value, depth + 1)


def _field_names(value: Any) -> tuple[str, ...]:
    """The fields of a dataclass, a msgspec Struct (SGLang 0.5.23) or a pydantic model."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    for attribute in ("__struct_fields__", "model_fields"):
        names = getattr(kind, attribute, None)
        if isinstance(names, (tuple, dict)):
            return tuple(map(str, names))
    return ()


def _shown(value: Any) -> str:
    """An object of any kind; of a tensor only the type, for to print it would wait for it."""
    if isinstance(value, type) or any(base.__name__ == "Tensor" for base in type(value).__mro__):
        kind = value if isinstance(value, type) else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    try:
        return _cut(repr(value), LONGEST_REPR)
    except Exception:
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _cut(text: str, most: int) -> str:
    """Masked first: of a secret that is cut, the mask would not see enough."""
    masked = masking.text(text)
    return masked if len(masked) <= most else masked[:most] + "..."


def _reached(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
