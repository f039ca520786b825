"""What the hooks wrote of an engine's server arguments, beside the cycle log of its process.

It names the engine, the models and k where no `run.json` does. A file that cannot be read is
left out: the log says by itself what was measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from .masking import values as mask
from .sniff import printable

PREFIX: Final = "server-args"
VERSION: Final = 1
MAX_BYTES: Final = 4 << 20

_TEXTS: Final = ("model", "draft_model")
_MOST: Final = {"k": 1000, "tp": 1 << 16}  # far above what any server has
_NUMBERS: Final = tuple(_MOST)


def read_server_args(folder: Path, pids: Iterable[str]) -> dict[str, Any]:
    """Keys of a run's context by the file of one of these processes; empty without one.

    The ranks of a server have the same arguments, so the first file that can be read counts;
    where none is of these processes (vLLM's scheduler has one of its own), nothing is taken.
    """
    wanted = frozenset(pids)
    for path in sorted(folder.glob(f"{PREFIX}-*.json")):
        raw = _read(path)
        if raw is not None and str(raw.get("pid")) in wanted:
            return _context(raw, path.name)
    return {}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    good = isinstance(raw, dict) and raw.get("schema_version") == VERSION
    return mask(raw) if good else None


def _context(raw: dict[str, Any], name: str) -> dict[str, Any]:
    summary = raw.get("summary")
    found: dict[str, Any] = {"source": name}
    for key in ("engine", "engine_version"):
        if isinstance(raw.get(key), str) and raw[key]:
            found[key] = printable(raw[key], 80)
    if isinstance(summary, dict):
        for key in _TEXTS:
            if isinstance(summary.get(key), str):
                found[key] = printable(summary[key], 200)
        for key in _NUMBERS:
            if type(summary.get(key)) is int and 0 < summary[key] <= _MOST[key]:
                found[key] = summary[key]
    return found
