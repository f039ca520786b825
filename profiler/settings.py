"""What `specscope run` chooses for every process of a server: environment variables.

A value that cannot be read costs one warning and leaves the default.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .cycle_log import LogConfig
from .metrics import LARGEST_PORT

if TYPE_CHECKING:
    from .range_state import Config

METRICS: Final = "SPECSCOPE_METRICS"
EVENTS_EVERY: Final = "SPECSCOPE_EVENTS_EVERY"
NVTX: Final = "SPECSCOPE_NVTX"
TORCH: Final = "SPECSCOPE_TORCH"
LOG_LIMIT: Final = "SPECSCOPE_LOG_LIMIT"

NVTX_WORDS: Final = ("auto", "package", "torch", "off")
SMALLEST_LOG, LARGEST_LOG = 1 << 20, 1 << 50

_SWITCHES: Final = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}
_logger = logging.getLogger("specscope")


def chosen(environ: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `ranges.Config` that the environment names, and `log_limit` in bytes."""
    out: dict[str, Any] = {}
    for field, (variable, read, wanted) in _READ.items():
        text = environ.get(variable, "").strip().lower()
        if not text:
            continue
        try:
            out[field] = read(text)
        except (KeyError, ValueError):
            # What it holds is not repeated: it may be anything, a secret too.
            _logger.warning("specscope: %s is ignored: it is not %s", variable, wanted)
    return out


def applied(config: Config, choice: Mapping[str, Any]) -> Config:
    """`config` with what was chosen."""
    fields = dict(choice)
    limit = fields.pop("log_limit", None)
    if limit is not None:
        piece = min(LogConfig.piece_bytes, limit // 4)
        fields["log_settings"] = LogConfig(None, piece_bytes=piece, total_bytes=limit)
    return replace(config, **fields)


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def _word(text: str) -> str:
    return NVTX_WORDS[NVTX_WORDS.index(text)]


_READ: Final[dict[str, tuple[str, Callable[[str], Any], str]]] = {
    "metrics": (METRICS, _between(1, LARGEST_PORT), f"a port from 1 to {LARGEST_PORT}"),
    "events_every": (EVENTS_EVERY, _between(0, 1 << 31), "a number of cycles, 0 for never"),
    "nvtx": (NVTX, _word, f"one of {', '.join(NVTX_WORDS)}"),
    "torch": (TORCH, _SWITCHES.__getitem__, "1 or 0"),
    "log_limit": (
        LOG_LIMIT,
        _between(SMALLEST_LOG, LARGEST_LOG),
        f"a number of bytes from {SMALLEST_LOG} to {LARGEST_LOG}",
    ),
}
