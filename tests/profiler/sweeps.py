"""Sweeps over servers that are started, measured, recorded and ended: fakes, as programs."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema

from specscope.profiler.sweep_options import Options

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "profiler" / "fake_program.py"
PROGRAM = shlex.join([sys.executable, str(SCRIPT)])
COMMAND = f"{PROGRAM} --port {{port}} --steps {{steps}}"
PLAIN = f"{PROGRAM} --port {{port}}"
SCHEMA = json.loads((ROOT / "traces" / "sweep.schema.json").read_text("utf-8"))
LOAD: dict[str, Any] = {
    "prompt_tokens": 8, "tokens": 96, "repetitions": 1, "vocabulary": None, "cycles": 3,
    "timeout": 120.0, "api_key": None,
}  # fmt: skip


def options(tmp_path: Path, command: str = COMMAND, **more: Any) -> Options:
    said: list[str] = []
    given = Options(
        command, more.pop("steps", (1, 2)), tmp_path / "out", ready_timeout=600.0, load=LOAD,
        say=said.append,
    )  # fmt: skip
    return replace(given, **more)


def by_setting(document: dict[str, Any]) -> dict[tuple[int, int], dict[str, Any]]:
    jsonschema.validate(document, SCHEMA)
    return {(row["steps"], row["batch"]): row for row in document["rows"]}


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def noted(pids: Path) -> list[int]:
    """The processes that a fake has noted so far."""
    return [int(line) for line in pids.read_text().split()] if pids.exists() else []
