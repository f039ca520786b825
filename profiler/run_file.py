"""run.json: what was measured without a profiler, and on which server, beside the traces.

docs/capture.md describes every key; the schema is `traces/run.schema.json`. Secrets are masked
here, and only here: everything goes through `text_of`.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specscope.profiler import masking
from specscope.profiler.engine_probe import Engine
from specscope.profiler.measure import Measured
from specscope.profiler.server_errors import UnsuitableError

SCHEMA_VERSION = 1
NAME = "run.json"
MOST_BYTES = 4 << 20
# A shorter key is not searched for: it could be part of any word.
_LEAST_KEY = 4


def server(engine: Engine, url: str) -> dict[str, Any]:
    """What is known of a server, as both the run and its baseline have it."""
    local = engine.local
    return {
        "url": url,
        "engine": engine.name,
        "engine_version": engine.version,
        "model": engine.model,
        "draft_model": engine.draft_model,
        "speculation": engine.speculation,
        "k": engine.k,
        "topk": engine.topk,
        "draft_tokens": engine.draft_tokens,
        "tp": engine.tp,
        "pp": engine.pp,
        "dp": engine.dp,
        "nodes": engine.nodes,
        "simulated_acceptance": engine.simulated,
        "server_args": engine.arguments,
        "server_args_from": engine.arguments_from,
        "server_command": list(local.command) if local else None,
        "server_environment": dict(local.environment) if local else None,
    }


def figures(found: Measured) -> dict[str, Any]:
    """The figures of a measurement; a cycle where the server speculates, else a step."""
    accept = found.accept_length
    name = "cycle_ms" if found.speculates else "step_ms"
    measured = {
        "tokens_per_second": found.tokens_per_second.as_json(),
        name: found.step_ms.as_json(),
    }
    if accept is not None:
        measured["accept_length"] = accept.as_json()
    return {
        "batch": found.load.batch,
        "prompt_tokens": found.load.prompt_tokens,
        "tokens": [found.load.short, found.load.tokens],
        "vocabulary": found.load.vocabulary,
        "seed": found.load.seed,
        "repetitions": len(found.step_ms.values),
        "tokens_per_second": round(found.tokens_per_second.value, 4),
        name: round(found.step_ms.value, 4),
        "running_batch": round(found.running_batch, 4),
        "accept_length": round(accept.value, 4) if accept else None,
        "accept_by_position": [round(rate, 4) for rate in found.position_rates],
        "counters": found.counts or None,
        "measured": measured,
    }


def document(
    run: Mapping[str, Any],
    *,
    producer: str,
    baseline: Mapping[str, Any] | None,
    gpus: Sequence[Mapping[str, Any]] | None,
    profile: Mapping[str, Any] | None,
    notes: Iterable[str],
) -> dict[str, Any]:
    """The whole of run.json, from `server` and `figures` of the run and of its baseline."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return {
        "schema_version": SCHEMA_VERSION,
        "producer": producer,
        "created": now.isoformat().replace("+00:00", "Z"),
        **run,
        "baseline": dict(baseline) if baseline else None,
        "gpus": [dict(gpu) for gpu in gpus] if gpus is not None else None,
        "profile": dict(profile) if profile else None,
        "notes": list(notes),
    }


def text_of(run: Mapping[str, Any], secrets: Iterable[str | None] = ()) -> str:
    """The document as JSON, with everything masked that is secret by name, shape or value."""
    masked = masking.values(run)
    known = [secret for secret in secrets if secret and len(secret) >= _LEAST_KEY]
    return json.dumps(_without(masked, known), indent=1, ensure_ascii=True) + "\n"


def write(
    folder: Path,
    run: Mapping[str, Any],
    secrets: Iterable[str | None] = (),
    *,
    name: str = NAME,
) -> Path:
    """Write run.json, or a document of another name, whole or not at all; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    try:
        temporary.write_text(text_of(run, secrets), "utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_plain(path: Path) -> dict[str, Any]:
    """The run.json of a server without speculation, to be another run's baseline.

    Raises UnsuitableError, in one line, for anything else.
    """
    file = path / NAME if path.is_dir() else path
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        run = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "no JSON"
        raise UnsuitableError(f"{file}: no run.json of a plain server ({reason})") from error
    step = run.get("step_ms") if isinstance(run, dict) else None
    if not isinstance(step, int | float) or isinstance(step, bool) or not step > 0:
        raise UnsuitableError(
            f"{file} has no step_ms: it is no run.json of a server without speculation"
        )
    dropped = {"baseline", "profile", "schema_version", "notes"}
    return {key: value for key, value in run.items() if key not in dropped}


def _without(value: Any, secrets: Sequence[str]) -> Any:
    """No string, and no key, holds one of the secrets."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, masking.MASK)
        return value
    if isinstance(value, dict):
        return {_without(key, secrets): _without(entry, secrets) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without(entry, secrets) for entry in value]
    return value
