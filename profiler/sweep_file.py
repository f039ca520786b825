"""sweep.json: every row of a sweep, written after each of them, so that a second call goes on.

docs/sweep.md describes the keys; the schema is `traces/sweep.schema.json`.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from specscope.profiler import run_file, sweep_figures, sweep_identity
from specscope.profiler.server_errors import UnsuitableError
from specscope.profiler.sweep_figures import BASELINE, SPECULATION, Row, measured
from specscope.profiler.sweep_plan import Template

SCHEMA_VERSION: Final = 1
NAME: Final = "sweep.json"
_MOST_BYTES: Final = 64 << 20
# What must be the same for rows to stand in one table; and how a user knows it.
_SAME: Final = {
    "command": "--command",
    "baseline_command": "--baseline-command",
    "prompt_tokens": "--prompt-tokens",
    "tokens": "--tokens",
    "repetitions": "--repetitions",
    "vocabulary": "--vocabulary",
}
_DIGESTS: Final = {"command": "command_digest", "baseline_command": "baseline_command_digest"}
# Keys of a row that came later: files of before are read.
_LATER: Final = frozenset({"origin"})


@dataclass
class Book:
    """The rows of a folder; a context that keeps other sweeps out of it.

    `document` is the whole of sweep.json as it was last written.
    """

    folder: Path
    settings: dict[str, Any]
    producer: str
    secrets: tuple[str | None, ...] = ()
    commands: dict[str, Template | None] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    _lock: int | None = None

    def __enter__(self) -> Book:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__()
            raise UnsuitableError(
                f"another sweep works in {self.folder}; wait for it, or give --out another folder"
            ) from error
        try:
            # As it will be read again: secrets masked in every way.
            self.settings = json.loads(run_file.text_of(self.settings, self.secrets))
            self._read()
            # From now on the folder is known as that of a sweep.
            self._write()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def path(self) -> Path:
        """Where it is written."""
        return self.folder / NAME

    def find(self, steps: int, batch: int) -> Row | None:
        """The row of a setting, or None."""
        for row in self.rows:
            if (row["steps"], row["batch"]) == (steps, batch):
                return row
        return None

    def add(self, row: Row) -> None:
        """Put a row in, in place of an earlier one of its setting, and write all.

        Figures are not given up for a later failure.
        """
        before = self.find(row["steps"], row["batch"])
        if before is not None and measured(before) and not measured(row):
            row = {**before, "not_recorded": row["reason"]}
        others = [r for r in self.rows if (r["steps"], r["batch"]) != (row["steps"], row["batch"])]
        self.rows = sorted([*others, row], key=lambda r: (r["batch"], r["steps"]))
        self._write()

    def _document(self) -> dict[str, Any]:
        rows = sweep_figures.with_comparisons(self.rows)
        return {
            "schema_version": SCHEMA_VERSION,
            "producer": self.producer,
            "written": now(),
            **self.settings,
            "rows": rows,
            "best": sweep_figures.best(rows),
        }

    def _write(self) -> None:
        self.document = self._document()
        run_file.write(self.folder, self.document, self.secrets, name=NAME)

    def _read(self) -> None:
        if not self.path.exists():
            if any(self.folder.iterdir()):
                raise UnsuitableError(
                    f"{self.folder} holds other files, and no {NAME}; give --out another folder"
                )
            for key, name in _DIGESTS.items():
                self.settings[name] = sweep_identity.digest(self.commands.get(key))
            return
        before = read(self.path)
        for key, option in _SAME.items():
            if before.get(key) != self.settings[key] and not self._fills(key, before):
                raise UnsuitableError(
                    f"{self.path} is of another {option} ({_short(before.get(key))}): rows would "
                    "not compare; give --out another folder, or the same option"
                )
        self._compare_what_is_hidden(before)
        if before.get("baseline_command") and not self.settings["baseline_command"]:
            self.settings["baseline_command"] = before["baseline_command"]
        self.rows = [{**dict.fromkeys(_LATER), **row} for row in before["rows"]]

    def _compare_what_is_hidden(self, before: dict[str, Any]) -> None:
        for key, name in _DIGESTS.items():
            was, template = before.get(name), self.commands.get(key)
            if not before.get(key) or template is None or name not in before:
                self.settings[name] = was or sweep_identity.digest(template)
                continue
            if not sweep_identity.is_same(template, was):
                raise UnsuitableError(
                    f"{self.path} is of another {_SAME[key]}, in a word that is masked there: rows "
                    "would not compare; give --out another folder, or the same option"
                )
            self.settings[name] = was

    def _fills(self, key: str, before: dict[str, Any]) -> bool:
        """A baseline that was not named before, or is not named again, changes no row."""
        return key == "baseline_command" and not (before.get(key) and self.settings[key])


def read(path: Path) -> dict[str, Any]:
    """A sweep.json. Raises UnsuitableError, in one line, for anything else."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "no JSON"
        raise UnsuitableError(
            f"{path} cannot be read ({reason}); remove it, or give --out another folder"
        ) from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    rows = found.get("rows") if isinstance(found, dict) else None
    if version != SCHEMA_VERSION or not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise UnsuitableError(
            f"{path} is no sweep of schema {SCHEMA_VERSION}; give --out another folder"
        )
    return dict(found)


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and empty(0, 0, None).keys() - _LATER <= row.keys()


def empty(steps: int, batch: int, reason: str | None, **more: Any) -> Row:
    """A row without figures, and why."""
    return {
        "steps": steps,
        "batch": batch,
        "kind": SPECULATION if steps else BASELINE,
        "source": "command",
        "origin": None,
        "reason": reason,
        "cut": False,
        "tokens_per_second": None,
        "cycle_ms": None,
        "step_ms": None,
        "accept_length": None,
        "accept_by_position": [],
        "running_batch": None,
        "recorded": False,
        "not_recorded": None,
        "shares": None,
        "simulated_acceptance": None,
        "folder": None,
        "log": None,
        "notes": [],
        "measured": None,
        **more,
    }


def of_run(steps: int, batch: int, run: dict[str, Any], **more: Any) -> Row:
    """The row of a run.json, also of one written by hand."""
    known = run.get("measured") or {}

    def figure(name: str) -> dict[str, Any] | None:
        found = known.get(name)
        if found is not None:
            return dict(found)
        value = run.get(name)
        if value is None:
            return None
        return {"value": value, "low": value, "high": value, "values": [value]}

    return empty(
        steps,
        batch,
        None,
        **{
            **{name: figure(name) for name in _FIGURES},
            "accept_by_position": run.get("accept_by_position") or [],
            "running_batch": run.get("running_batch"),
            "simulated_acceptance": run.get("simulated_acceptance"),
            "notes": list(run.get("notes") or []),
            "measured": run.get("created"),
            **more,
        },
    )


_FIGURES: Final = ("tokens_per_second", "cycle_ms", "step_ms", "accept_length")


def now() -> str:
    """The time, as run.json has it."""
    moment = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return moment.isoformat().replace("+00:00", "Z")


def relative(path: Path, folder: Path) -> str:
    """A path inside the folder of the sweep."""
    return os.path.relpath(path, folder)


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 100 else text[:97] + "..."
