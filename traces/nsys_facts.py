"""What an export says about its recording: clock, window, versions, switches, diagnostics.

Names of settings that matter are listed here; everything else in the settings, the environment of
the profiled program above all, is never looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from . import masking
from . import nsys_names as names
from .events import ABSENT
from .nsys_store import Store

# Most diagnostics kept, and the length of each.
MOST_DIAGNOSTICS: Final = 40
_TEXT_LENGTH: Final = 300

_EXPORT_KEYS: Final = {
    "EXPORT_PRODUCT_VERSION": "nsys",
    "EXPORT_SCHEMA_VERSION": "nsys_schema",
}
# Settings that say that only a part of the recording was exported.
_TRIMMED: Final = re.compile(r"EXPORT_PARAM_TIMES_TO_EXPORT|EXPORT_TIMES_TO_EXPORT|DERIVED_.*")
_SHIFTED: Final = ("EXPORT_PARAM_TIME_SHIFT", "EXPORT_TIME_SHIFT", "EXPORT_CONFIG_TIME_SHIFT")
_NORMALIZED: Final = ("EXPORT_PARAM_TIME_NORMALIZE", "EXPORT_TIME_NORMALIZE")


@dataclass(frozen=True)
class Diagnostic:
    """One message of the profiler about its own recording: severity is warning or error."""

    severity: str
    text: str
    count: int


@dataclass(frozen=True)
class Recording:
    """What is known of the recording; None and empty where the export does not say."""

    versions: dict[str, str] = field(default_factory=dict)
    clock_base_ns: int | None = None
    absolute_times: bool = False
    start_ns: int | None = None
    stop_ns: int | None = None
    trimmed: bool = False
    devices: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_recording(store: Store) -> Recording:
    """Reads the tables about the recording, each of which may be missing."""
    export = [pair for table in names.META_EXPORT for pair in _pairs(store, table)]
    capture = _pairs(store, names.META_CAPTURE)
    said = dict(export)
    normalized = any(said.get(key, "").lower() == "true" for key in _NORMALIZED)
    base, system = _session(store)
    shifted = any(said.get(key, "0") not in ("0", "") for key in _SHIFTED)
    start, stop = _window(store, system)
    return Recording(
        versions={
            short: masking.text(said[key])[:60]
            for key, short in _EXPORT_KEYS.items()
            if key in said
        },
        # Shifted times are of a clock that only who shifted them knows.
        clock_base_ns=0 if normalized else None if shifted else base,
        absolute_times=normalized,
        start_ns=start,
        stop_ns=stop,
        trimmed=any(_TRIMMED.fullmatch(key) and value for key, value in (*export, *capture)),
        devices=_devices(store),
        diagnostics=_diagnostics(store),
    )


def dropped(store: Store) -> dict[str, int]:
    """Rows of tables of events that are in none of ours, by table."""
    left = sorted(
        table for table in store.tables() - names.READ if names.EVENT_TABLE.fullmatch(table)
    )
    counts = {table: store.rows(table) for table in left}
    return {table: count for table, count in counts.items() if count}


def payload_blobs(store: Store) -> int:
    """NVTX ranges with a binary payload, as NCCL writes them."""
    if "binaryData" not in store.columns("NVTX_EVENTS"):
        return 0
    codes, _ = store.read("NVTX_EVENTS", (), ("binaryData",)).texts["binaryData"]
    return int(np.count_nonzero(codes >= 0))


def _pairs(store: Store, table: str) -> list[tuple[str, str]]:
    """Names and values of a table of settings, those of the environment left out."""
    found = store.read(table, (), ("name", "value"))
    keys, texts = found.texts["name"], found.texts["value"]
    return [
        (keys[1][key], texts[1][text])
        for key, text in zip(keys[0].tolist(), texts[0].tolist(), strict=True)
        if key >= 0 and text >= 0 and "ENVIRONMENT" not in keys[1][key].upper()
    ]


def _session(store: Store) -> tuple[int | None, int]:
    """Start of the session since 1970 in ns, and on the clock of ANALYSIS_DETAILS."""
    found = store.read("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs", "systemClockNs"))
    if not found.rows:
        return None, 0
    base, system = int(found["utcEpochNs"][0]), int(found["systemClockNs"][0])
    return (None if base == ABSENT else base), (0 if system == ABSENT else system)


def _window(store: Store, system: int) -> tuple[int | None, int | None]:
    """Begin and end of the recording on the clock of the events."""
    found = store.read("ANALYSIS_DETAILS", ("startTime", "stopTime"))
    if not found.rows or ABSENT in (found["startTime"][0], found["stopTime"][0]):
        return None, None
    return int(found["startTime"][0]) - system, int(found["stopTime"][0]) - system


def _devices(store: Store) -> tuple[str, ...]:
    """Names of the GPUs in order of their CUDA numbers, as far as the file has them."""
    found = store.read("TARGET_INFO_GPU", ("id", "cuDevice"), ("name",))
    codes, texts = found.texts["name"]
    order = np.lexsort((found["id"], found["cuDevice"]))
    return tuple(texts[codes[row]][:200] for row in order.tolist() if codes[row] >= 0)


def _diagnostics(store: Store) -> tuple[Diagnostic, ...]:
    """Warnings and errors, each text once, in order of their first appearance."""
    found = store.read("DIAGNOSTIC_EVENT", ("severity",), ("text",))
    codes, texts = found.texts["text"]
    counts: dict[tuple[str, str], int] = {}
    for severity, code in zip(found["severity"].tolist(), codes.tolist(), strict=True):
        word = names.SEVERITIES.get(severity, "info")
        if word != "info" and code >= 0:
            text = masking.text(" ".join(texts[code].split()))[:_TEXT_LENGTH]
            counts[word, text] = counts.get((word, text), 0) + 1
    kept = list(counts.items())[:MOST_DIAGNOSTICS]
    return tuple(Diagnostic(word, text, count) for (word, text), count in kept)


def engine(texts: list[str], marks: tuple[tuple[str, str], ...]) -> str | None:
    """The engine whose mark stands in one of the texts."""
    return next((name for mark, name in marks if any(mark in text for text in texts)), None)
