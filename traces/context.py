"""What was measured and set beside the traces: run.json, or meta.json of a recording kit.

A broken or missing file is never an error: it becomes a note, or nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .masking import values as mask
from .run import Note

FILES: Final = ("run.json", "meta.json")
MAX_BYTES: Final = 4 << 20
MOST_POSITIONS: Final = 4096  # draft tokens of a cycle: no engine has as many
SCHEMA_VERSION: Final = 1

# Key of the context: the places in the file where it may stand, best first.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "tokens_per_second": (
        "tokens_per_second",
        "unprofiled.tokens_per_second",
        "unprofiled.tokens_per_s",
    ),
    "cycle_ms": ("cycle_ms", "unprofiled.cycle_ms", "unprofiled.mean_cycle_ms"),
    "accept_length": ("unprofiled.accept_length", "accept_length"),
    "batch": ("batch",),
    "k": ("k", "server_args.speculative_num_steps"),
    "topk": ("topk", "server_args.speculative_eagle_topk"),
    "draft_tokens": ("draft_tokens", "server_args.speculative_num_draft_tokens"),
    "engine": ("engine", "server"),
    "engine_version": ("engine_version", "server_version"),
    "model": ("model", "model_shape", "server_args.model_path"),
    "draft_model": ("draft_model", "draft_shape", "server_args.speculative_draft_model_path"),
    "tp": ("tp", "server_args.tp_size"),
    "gpus": ("gpus", "gpu"),
    "link": ("link",),
    "prompt_tokens": ("prompt_tokens",),
    "step_ms": ("step_ms",),
    "baseline_step_ms": ("baseline_step_ms", "baseline.step_ms"),
    "baseline_batch": ("baseline_batch", "baseline.batch"),
    "accept_by_position": ("accept_by_position", "acceptance_by_position"),
    "accept_histogram": (
        "unprofiled.server_spec_info.spec_correct_drafts_histogram",
        "unprofiled.server_spec_info.spec_accept_histogram",
    ),
    "verified": ("counters.verified", "unprofiled.server_spec_info.spec_verify_ct"),
    "simulated_acceptance": ("simulated_acceptance", "accept_length_simulated"),
    "server_args": ("server_args", "command"),
    "server_command": ("server_command", "command"),
    "env": ("server_environment", "env"),
}
# Variables that change what a server does: of its environment only these are kept.
SETTINGS: Final = ("SGLANG_", "VLLM_", "NCCL_")

_NUMBERS: Final = (
    "tokens_per_second",
    "cycle_ms",
    "accept_length",
    "batch",
    "k",
    "topk",
    "draft_tokens",
    "tp",
    "prompt_tokens",
    "step_ms",
    "baseline_step_ms",
    "baseline_batch",
    "verified",
)
# Far above what any server has.
MOST_DRAFT_TOKENS: Final = 1000
MOST_BATCH: Final = 1_000_000
_MOST: Final[dict[str, float]] = {
    "k": MOST_DRAFT_TOKENS,
    "topk": MOST_DRAFT_TOKENS,
    "draft_tokens": 1 << 16,  # of a tree
    "accept_length": MOST_DRAFT_TOKENS + 1,
    "batch": MOST_BATCH,
    "baseline_batch": MOST_BATCH,
    "tp": 1 << 16,
}
_TEXTS: Final = ("engine", "engine_version", "model", "draft_model", "link")


def read_context(folder: Path) -> tuple[dict[str, Any], list[Note]]:
    """The context beside the traces in `folder`, secrets masked, and notes on what was wrong.

    Rates are of the server without a profiler: tokens_per_second of the running batch, cycle_ms,
    accept_length (bonus token included). `source` is the file's name. Empty without a file.
    """
    for name in FILES:
        path = folder / name
        if not path.is_file():
            continue
        try:
            raw = _read(path)
        except (OSError, ValueError, RecursionError) as error:
            reason = type(error).__name__ if isinstance(error, RecursionError) else str(error)
            return {}, [_unreadable(name, reason)]
        known = _known(raw) | {"source": name}
        return known, [*_newer(raw, name), *_ignored_values(raw, known, name)]
    return {}, []


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    value = json.loads(path.read_bytes().decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _unreadable(name: str, reason: str) -> Note:
    return Note(
        "context_unreadable",
        f"{name} beside the traces cannot be read ({reason[:120]}), so it is ignored",
        f"mend or remove {name}",
    )


def _newer(raw: dict[str, Any], name: str) -> list[Note]:
    """A note on a file of a schema (traces/run.schema.json) that is not known here."""
    version = raw.get("schema_version")
    if version is None or version == SCHEMA_VERSION:
        return []
    return [
        Note(
            "context_version",
            f"{name} beside the traces is of schema {str(version)[:20]!r}, known is "
            f"{SCHEMA_VERSION}: what has the same name is taken from it",
            "a newer specscope may read more of it",
        )
    ]


def _known(raw: dict[str, Any]) -> dict[str, Any]:
    """The known keys, of the types they must have; all else is left out."""
    masked = mask(raw)
    found = {}
    for key, places in PLACES.items():
        values = (_at(masked, place) for place in places)
        value = next((good for value in values if (good := _checked(key, value)) is not None), None)
        if value is not None:
            found[key] = value
    k, length = found.get("k"), found.get("accept_length")
    if k is not None and length is not None and length > k + 1.01:
        del found["accept_length"]  # k draft tokens and the bonus token are the most
    return found


def _ignored_values(raw: dict[str, Any], known: dict[str, Any], name: str) -> list[Note]:
    """A note on keys that stand in the file with a value that cannot be meant."""
    ignored = [
        key
        for key in _CHECKS
        if key not in known and any(_at(raw, place) is not None for place in PLACES[key])
    ]
    if not ignored:
        return []
    text = f"{name} beside the traces: {', '.join(ignored)} left out, the value cannot be meant"
    return [
        Note(
            "context_value",
            text,
            f"numbers above 0 (draft tokens up to {MOST_DRAFT_TOKENS}) and texts; mend {name}",
        )
    ]


def _at(value: Any, place: str) -> Any:
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _checked(key: str, value: Any) -> Any:
    """The value when it has the right type for its key, else None."""
    return _CHECKS.get(key, _as_is)(value)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < 1e15 else None  # a NaN compares false


def _at_most(most: float) -> Callable[[Any], int | float | None]:
    """A number that no server exceeds: work is done for each token, step and sequence."""

    def check(value: Any) -> int | float | None:
        number = _number(value)
        return number if number is not None and number <= most else None

    return check


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _rates(value: Any) -> list[float] | None:
    """Acceptance by position: shares that never rise."""
    found = _list(value)
    if found is None or any(rate > 1 for rate in found):
        return None
    return found if all(a >= b for a, b in itertools.pairwise(found)) else None


def _list(value: Any) -> list[float] | None:
    """A short list of numbers from 0 on."""
    if not isinstance(value, list) or len(value) > MOST_POSITIONS:
        return None
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in value):
        return None
    return value if all(0 <= n < 1e15 for n in value) else None


def _settings(value: Any) -> dict[str, str] | None:
    """Settings by name; empty where it is on record that there are none."""
    if not isinstance(value, dict):
        return None
    return {
        name: str(one)[:200]
        for name, one in value.items()
        if name.startswith(SETTINGS) and isinstance(one, str | int | float)
    }


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_is(value: Any) -> Any:
    return value


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **{key: _at_most(most) for key, most in _MOST.items()},
    **dict.fromkeys(_TEXTS, _text),
    "accept_by_position": _rates,
    "accept_histogram": _list,
    "simulated_acceptance": _flag,
    "env": _settings,
}
