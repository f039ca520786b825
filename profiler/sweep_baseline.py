"""Whether the baseline that a sweep is given is the one that its rows were held against before.

Each batch has one: a server that the sweep starts, one that runs already, or a run.json.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

from specscope.profiler.sweep_figures import Row, measured

COMMAND, URL, FILE = "command", "url", "file"
_NOW: Final = {
    COMMAND: "by a server that the sweep starts",
    URL: "at {}",
    FILE: "as in the --baseline given now",
}
_BEFORE: Final = {**_NOW, FILE: "as in another --baseline"}


class Origin(NamedTuple):
    """`source` as in a row; `origin` is a URL, the digest of a run.json, or None."""

    source: str
    origin: str | None = None


def digest(run: dict[str, Any]) -> str:
    """Tells what one run.json says from what another does."""
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def is_another(row: Row | None, given: Origin | None) -> str:
    """How the row was measured and how it is not, in words; empty where nothing contradicts.

    A row without figures holds nothing, and so does one of a time when origins were not kept.
    """
    if row is None or given is None or not measured(row):
        return ""
    was = Origin(row["source"], row["origin"])
    if was == given or (was.origin is None and was.source == given.source):
        return ""
    before = _BEFORE[was.source].format(was.origin or "another server")
    return f"{before}, not {_NOW[given.source].format(given.origin)}"
