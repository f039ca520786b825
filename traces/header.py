"""What the top level of a Kineto file says about the run, from a list of known keys.

Harnesses put whole environments with tokens into the top level, so only the keys named here
are ever looked at, and of their values only the fields named here are kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .kineto_names import ROCM_KEYS

# Group lists of very large worlds run to megabytes: beyond this size the ranks are left out.
MAX_GROUP_TEXT = 1 << 18

_VERSION_KEYS = (
    "vllm_version",
    "sglang_version",
    "torch_version",
    "schemaVersion",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "roctracer_version",
    "hip_runtime_version",
    "hip_driver_version",
)
_SWITCH_KEYS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
# All that is looked at, and the unit that viewers show times in.
KNOWN_KEYS = frozenset(
    {
        "baseTimeNanoseconds",
        "deviceProperties",
        "distributedInfo",
        "displayTimeUnit",
        *_VERSION_KEYS,
        *_SWITCH_KEYS,
        *ROCM_KEYS,
    }
)
_GROUP_FIELDS = ("pg_name", "pg_desc", "backend_config", "pg_size", "ranks")


@dataclass
class Header:
    """Facts of the top level; None where the file does not say."""

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    clock_base_ns: int | None = None
    devices: list[str] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)
    is_rocm: bool = False


def read_header(raw: dict[str, bytes]) -> Header:
    """Reads the known keys of a document's top level; a value that is broken counts as absent."""
    header = Header()
    header.clock_base_ns = _integer(_value(raw, "baseTimeNanoseconds"))
    header.versions = {
        key: _short(value)
        for key in _VERSION_KEYS
        if isinstance(value := _value(raw, key), int | float | str)
    }
    header.switches = {key: bool(_value(raw, key)) for key in _SWITCH_KEYS}
    header.devices = _devices(_value(raw, "deviceProperties"))
    header.is_rocm = any(key in raw for key in ROCM_KEYS) or any(
        "AMD" in name for name in header.devices
    )
    _read_distributed(_value(raw, "distributedInfo"), header)
    return header


def _value(raw: dict[str, bytes], key: str) -> Any:
    """The JSON value of a key, or None when it is absent or not JSON."""
    text = raw.get(key)
    if text is None:
        return None
    try:
        return json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def _integer(value: Any) -> int | None:
    """An integer that fits 64 bits, also when it stands in quotes; else None."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def _small(value: Any) -> int | None:
    """A count or rank that fits 31 bits; else None."""
    number = _integer(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _short(value: Any) -> str:
    return str(value)[:200]


def _devices(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [_short(entry.get("name", "")) for entry in value[:1024] if isinstance(entry, dict)]


def _read_distributed(value: Any, header: Header) -> None:
    if not isinstance(value, dict):
        return
    header.rank = _small(value.get("rank"))
    header.world_size = _small(value.get("world_size"))
    backend = value.get("backend")
    header.backend = _short(backend) if isinstance(backend, str) else None
    nccl = value.get("nccl_version")
    if isinstance(nccl, str):
        header.versions["nccl_version"] = _short(nccl)
    config = value.get("pg_config")
    if isinstance(config, str):  # on-demand traces write it as a text
        config = _value({"pg_config": config.encode()}, "pg_config")
    if isinstance(config, list):
        header.groups = _groups(config)


def _groups(config: list[Any]) -> list[dict[str, Any]]:
    groups = [
        {key: _plain(entry[key]) for key in _GROUP_FIELDS if key in entry}
        for entry in config[:4096]
        if isinstance(entry, dict)
    ]
    if len(json.dumps(groups)) > MAX_GROUP_TEXT:
        for group in groups:
            group.pop("ranks", None)
    return groups


def _plain(value: Any) -> Any:
    """A number, a short text or a list of integers; anything deeper becomes None."""
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list):
        return [entry for entry in value if isinstance(entry, int)]
    return value if isinstance(value, int | float) else None
