"""What the hooks wrote of each process beside its cycle log, read and checked.

A report is taken as it is or not at all: who uses one can rely on the shape that is checked
here. Its texts are of a server, and hostile until they are cleaned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from . import schema
from .run import RankTables
from .sniff import path_text, printable

PATTERN: Final = "attach-*.json"
VERSION: Final = 1
MAX_FILES: Final = 4096
MAX_BYTES: Final = 8 << 20

Report = dict[str, Any]

# Keys that a report must have, and those that it may have; the type of each value.
_NEEDED: Final = {"host": str, "pid": int, "process": str, "active": bool, "engines": dict}
_MORE: Final = {"reason": str, "left_over": list, "emitters": dict, "hooks": list}
_HOOK_NEEDED: Final = {
    **dict.fromkeys(("engine", "target", "role", "stage", "state"), str),
    "fired": int,
}
_HOOK_MORE: Final = {"reason": str, "fault": str, "live": bool, "faults": int, "own_ns": int}
_LOG: Final = {"active": bool, "rows": int, "lost": dict, "left_out": int, "error": str}
_PAGE: Final = {"active": bool, "reason": str}

# Reasons of the writer, as `losses` names them.
LOST: Final = {
    "queue_full": ("log_queue_full", "dropped in the server, for the writer did not keep up"),
    "rotated_away": ("log_rotated_away", "the oldest pieces went for the log's bound in bytes"),
    "write_failed": ("log_write_failed", "the disk did not take them"),
}
# What a report says where nobody asked for a log or a page.
_UNASKED: Final = ("", "no folder given", "no port given", "not configured", "closed")
_OF_LOG: Final = re.compile(r"-pid(\d{1,19})-(\d{1,19})\.")


def read(folder: Path) -> tuple[list[Report], list[str]]:
    """The reports of a log folder, and a line for each file that is none."""
    reports, broken = [], []
    paths = sorted(folder.glob(PATTERN))
    for path in paths[:MAX_FILES]:
        try:
            reports.append(read_report(path))
        except OSError as error:
            broken.append(f"{printable(path.name, 120)}: {error.strerror or error}")
        except ValueError as error:
            broken.append(f"{printable(path.name, 120)}: {error}")
    if len(paths) > MAX_FILES:
        broken.append(f"{len(paths) - MAX_FILES} more attach reports are not read")
    return reports, broken


def read_report(path: Path) -> Report:
    """One report. Raises ValueError, in one line, for what is none, and OSError."""
    if not path.is_file():
        raise ValueError("no regular file")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES >> 20} MiB, no attach report")
    try:
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON, or cut off ({type(error).__name__})") from None
    if not isinstance(raw, dict) or not _is(raw.get("schema_version"), int):
        raise ValueError(f"no attach report of version {VERSION}")
    if raw["schema_version"] != VERSION:
        raise ValueError(f"no attach report of version {VERSION}")
    return _checked(raw)


def part_of(report: Report, name: str) -> dict[str, Any]:
    """What the report says of `cycle_log` or `metrics`; empty when nothing."""
    part: dict[str, Any] = report["emitters"].get(name, {})
    return part


def reason_of(report: Report, name: str) -> str:
    """Why that log or page is not there; empty where it is, or where none was asked for."""
    part = part_of(report, name)
    reason = str(part.get("error") or part.get("reason") or "")
    return "" if part.get("active") or reason in _UNASKED else reason


def lost_of(report: Report) -> dict[str, int]:
    """Rows that the log of this process lost, by reason of the writer."""
    lost = part_of(report, "cycle_log").get("lost", {})
    return {reason: count for reason, count in lost.items() if count > 0}


def with_losses(
    ranks: Sequence[RankTables], folder: Path, *, whole: bool
) -> tuple[RankTables, ...]:
    """The ranks with what reports beside their logs say was lost and is not in the logs.

    A log that ended early could not say so itself. `whole`: processes of the same run that
    left no log count too, with the first rank; files are older where they are of another run.
    """
    logs = [_logs_of(tables) for tables in ranks]
    starts = [start for found in logs for start in found.values()]
    if not starts:
        return tuple(ranks)
    began = min(starts)
    more: list[list[dict[str, Any]]] = [[] for _ in ranks]
    for path, report in _of_run(folder, began):
        pid = report["pid"]
        at = next((index for index, found in enumerate(logs) if pid in found), None)
        if at is not None:
            more[at] += _losses(path, report, ranks[at])
        elif whole:
            more[0] += _losses(path, report, None)
    return tuple(
        replace(tables, losses=_joined(tables.losses, rows)) if rows else tables
        for tables, rows in zip(ranks, more, strict=True)
    )


def _of_run(folder: Path, began_ns: int) -> Iterator[tuple[Path, Report]]:
    """Reports written since then: those of earlier runs stay in the folder."""
    for path in sorted(folder.glob(PATTERN))[:MAX_FILES]:
        try:
            if path.stat().st_mtime_ns >= began_ns:
                yield path, read_report(path)
        except (OSError, ValueError):
            continue  # `specscope doctor` names it


def _logs_of(tables: RankTables) -> dict[int, int]:
    """Start of each process whose log is in these tables, by its number."""
    names = (Path(path).name for path in tables.sources["path"].to_pylist())
    return {int(found[1]): int(found[2]) for name in names if (found := _OF_LOG.search(name))}


def _losses(path: Path, report: Report, tables: RankTables | None) -> list[dict[str, Any]]:
    known: dict[str, int] = {}
    if tables is not None:
        mark = f"-pid{report['pid']}-"
        for row in tables.losses.to_pylist():
            if mark in Path(str(row["source"])).name:
                known[row["reason"]] = known.get(row["reason"], 0) + (row["count"] or 0)
    rows = []
    for word, count in lost_of(report).items():
        reason, action = LOST.get(word, ("log_rows_lost", "not in the log"))
        if count > known.get(reason, 0):
            rows.append(_loss(path, count - known.get(reason, 0), reason, action))
    why = reason_of(report, "cycle_log")
    if why:
        who = f"{printable(report['process'])} (pid {report['pid']})"
        rows.append(
            _loss(path, 1, "log_off", f"the cycle log of {who} ended: {printable(why, 120)}")
        )
    return rows


def _loss(path: Path, count: int, reason: str, action: str) -> dict[str, Any]:
    return {
        "source": path_text(path),
        "offset": None,
        "length": None,
        "count": count,
        "reason": reason,
        "action": action,
    }


def _joined(losses: pa.Table, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.concat_tables([losses, pa.Table.from_pylist(rows, schema.LOSSES)])


# ---------------------------------------------------------------- the shape


def _checked(raw: Report) -> Report:
    """The report with what may be absent filled in. Raises ValueError."""
    report = _filled(raw, _NEEDED, _MORE, "report")
    for name, version in report["engines"].items():
        _want(_is(version, str), f"the version of {name!r}")
    for where in report["left_over"]:
        _want(_is(where, str), "left_over")
    hooks = []
    for hook in report["hooks"]:
        _want(isinstance(hook, dict), "a hook")
        hooks.append(_filled(hook, _HOOK_NEEDED, _HOOK_MORE, "hook"))
    report["hooks"] = hooks
    emitters = report["emitters"]
    for name, keys in (("cycle_log", _LOG | {"reason": str}), ("metrics", _PAGE)):
        part = emitters.get(name, {})
        _want(isinstance(part, dict), name)
        for key, kind in keys.items():
            _want(key not in part or _is(part[key], kind), f"{name}.{key}")
    for count in emitters.get("cycle_log", {}).get("lost", {}).values():
        _want(_is(count, int), "cycle_log.lost")
    port = emitters.get("metrics", {}).get("port")
    _want(port is None or _is(port, int), "metrics.port")
    return report


def _filled(
    raw: dict[str, Any], needed: Mapping[str, type], more: Mapping[str, type], what: str
) -> dict[str, Any]:
    found = dict(raw)
    for key, kind in needed.items():
        _want(_is(raw.get(key), kind), f"{what}.{key}")
    for key, kind in more.items():
        found.setdefault(key, True if kind is bool else kind())
        _want(_is(found[key], kind), f"{what}.{key}")
    return found


def _is(value: Any, kind: type) -> bool:
    """Of that type; a number is one that 64 bits hold, and never below 0."""
    return type(value) is kind and (type(value) is not int or 0 <= value < 1 << 63)


def _want(good: bool, what: str) -> None:
    if not good:
        raise ValueError(f"no attach report: {printable(what, 80)} is missing or cannot be")
