"""What a report holds, as the rows that many runs are compared by (traces.schema_findings)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.report import Report
from specscope.analyzers.shares import StageShare
from specscope.traces.run import RankTables, Run
from specscope.traces.schema_findings import FINDINGS

ANSWERED, REFUSED, UNREADABLE, DUPLICATE = "answered", "refused", "unreadable", "duplicate"

# A clock that says an earlier time was never set: it counts from when its machine started.
_NO_CLOCK_BEFORE: Final = datetime(2015, 1, 1, tzinfo=timezone.utc)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_TEXT: Final = 10_000

Row = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """One run as rows: what its partition is named by, and its tables.

    `model`, `engine_version` and `date` are None where nothing says them.
    """

    path: str
    outcome: str
    said: str  # the verdict, or the reason why there is none
    content: str | None
    model: str | None
    engine_version: str | None
    date: str | None
    tables: Mapping[str, pa.Table]


def of_report(report: Report, path: str, version: str) -> Findings:
    """The rows of one report; `version` is that of the program."""
    verdict, facts = report.verdict, report.facts
    withheld = verdict.withheld
    recorded = recorded_at(report.run)
    rows = {
        "runs": [_run(report, path, version, recorded)],
        "ranks": list(_ranks(report)),
        "cycles": [_cycle(asdict(row)) for row in report.cycles],
        "stages": [_stage(share) for share in report.shares],
        "idle": [asdict(row) for row in report.idle],
        "activities": [asdict(row) for row in report.activities],
        "rank_stages": [_plain(vars(row)) for row in report.group.rows] if report.group else [],
        "losses": list(_losses(report.run)),
        "notes": [_plain(vars(note)) for note in report.warnings],
    }
    model, engine_version = facts.get("model"), facts.get("engine_version")
    return Findings(
        path,
        REFUSED if withheld else ANSWERED,
        text("; ".join(verdict.refused) if withheld else verdict.sentence),
        _content(report.run),
        None if model is None else text(model),
        None if engine_version is None else text(engine_version),
        None if recorded is None else recorded.strftime("%Y-%m-%d"),
        _tables(rows),
    )


def without(
    path: str, outcome: str, reason: str, version: str, content: str | None = None
) -> Findings:
    """The row of a run of which there are no figures."""
    row = {
        "path": text(path),
        "outcome": outcome,
        "reason": text(reason),
        "ranks": 0,
        "cycles": 0,
        "losses": 0,
        "notes": 0,
        "content": content,
        "specscope_version": version,
    }
    tables = _tables({"runs": [row]})
    return Findings(path, outcome, text(reason), content, None, None, None, tables)


def text(value: object) -> str:
    """A text that every reader takes, of bounded length."""
    return str(value)[:_LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()


def recorded_at(run: Run) -> datetime | None:
    """When the recording began, as far as clocks say."""
    begins = [begin for rank in run.ranks if (begin := _begin(rank)) is not None]
    return min(begins, default=None)


def _begin(rank: RankTables) -> datetime | None:
    base = rank.facts.get("clock_base_ns")
    if base is None:
        return None
    tables = [rank.ops, rank.calls, rank.ranges]
    tables += [rank.cycle_log] if rank.cycle_log is not None else []
    starts = [pc.min(table["start_ns"]).as_py() for table in tables if table.num_rows]
    known = [start for start in starts if start is not None]
    if not known:
        return None
    try:
        begin = _EPOCH + timedelta(milliseconds=(int(base) + min(known)) // 10**6)
    except OverflowError:
        return None
    return begin if begin >= _NO_CLOCK_BEFORE else None


def _run(report: Report, path: str, version: str, recorded: datetime | None) -> Row:
    verdict, facts = report.verdict, report.facts
    leading = [row for row in report.cycles if row.leads]
    interval = verdict.interval or (None, None)
    group = report.group
    return {
        "path": text(path),
        "outcome": REFUSED if verdict.withheld else ANSWERED,
        "reason": text("; ".join(verdict.refused)) if verdict.refused else None,
        "sentence": text(verdict.sentence),
        "stage": verdict.stage,
        "share": verdict.share,
        "share_low": interval[0],
        "share_high": interval[1],
        "confidence": verdict.confidence,
        "evidence": ", ".join(verdict.evidence) or None,
        "model_name": _text(facts.get("model")),
        "draft_model": _text(facts.get("draft_model")),
        "engine": _text(facts.get("engine")),
        "engine_version_name": _text(facts.get("engine_version")),
        "gpus": _text(facts.get("gpus")),
        "link": _text(facts.get("link")),
        "tp": _whole(facts.get("tp")),
        "batch": _whole(facts.get("batch")),
        "k": _whole(facts.get("k")),
        "accept_length": _number(facts.get("accept_length")),
        "simulated_acceptance": _text(facts.get("simulated_acceptance")),
        "tokens_per_second": _number(facts.get("tokens_per_second")),
        "recorded_at": recorded,
        "ranks": len(report.run.ranks),
        "speculates": report.speculates,
        "clock": report.clock,
        "cycles": min((row.count for row in leading), default=0),
        "cycle_ns": float(np.median([row.median_ns for row in leading])) if leading else None,
        "unprofiled_cycle_ns": report.unprofiled.cycle_ns if report.unprofiled else None,
        "idle_share": report.idle_share.value if report.idle_share else None,
        "other_activity_share": _number(report.other_share),
        "linked_share": _least(row.linked_share for row in report.coverage),
        "placed_share": _least(row.placed_share for row in report.coverage),
        "group_sentence": (_text(group.sentence) or None) if group else None,
        "losses": sum(row["count"] for row in _losses(report.run)),
        "notes": len(report.warnings),
        "content": _content(report.run),
        "specscope_version": version,
    }


def _ranks(report: Report) -> Iterator[Row]:
    covered = {row.rank: row for row in report.coverage}
    for rank in report.run.ranks:
        source = rank.sources.slice(0, 1).to_pylist()
        known = covered.get(rank.rank)
        yield {
            "rank": rank.rank,
            "path": text(rank.facts.get("path", "")),
            "bytes": source[0]["bytes"] if source else 0,
            "events": source[0]["events"] if source else 0,
            "fingerprint": source[0]["fingerprint"] if source else "",
            "cycles": known.cycles if known else None,
            "linked_share": known.linked_share if known else None,
            "placed_share": known.placed_share if known else None,
            "placed_cycle_share": known.placed_cycle_share if known else None,
            "launches_without_op": known.launches_without_op if known else None,
        }


def _cycle(row: Row) -> Row:
    low, high = row.pop("interval_ns")
    return {**row, "low_ns": low, "high_ns": high}


def _stage(share: StageShare) -> Row:
    cycle, busy = share.cycle_share, share.busy_share
    low, high = share.unprofiled or (None, None)
    return {
        "rank": share.rank,
        "stage": share.stage,
        "part_of": share.part_of,
        "work_ns": share.work_ns,
        "idle_ns": share.idle_ns,
        "total_ns": share.total_ns,
        "collective_ns": share.collective_ns if share.collectives_known else None,
        "hidden_collective_ns": share.hidden_collective_ns,
        "cycle_share": cycle.value,
        "cycle_share_low": cycle.low,
        "cycle_share_high": cycle.high,
        "busy_share": busy.value if busy else None,
        "unprofiled_share_low": low,
        "unprofiled_share_high": high,
    }


def _losses(run: Run) -> Iterator[Row]:
    """Losses of one reason in one file as one row: a damaged file may have millions."""
    for rank in run.ranks:
        names = ("source", "reason", "action")
        counts: Counter[tuple[str, ...]] = Counter()
        columns = [map(text, rank.losses[name].to_pylist()) for name in names]
        for key, count in zip(zip(*columns, strict=True), rank.losses["count"], strict=True):
            counts[key] += count.as_py()
        for key, total in counts.items():
            yield {
                "rank": rank.rank,
                **dict(zip(names, key, strict=True)),
                "count": total,
            }


def _content(run: Run) -> str | None:
    """One hash of all that was read, whatever its files are called."""
    prints = sorted(text for rank in run.ranks for text in rank.sources["fingerprint"].to_pylist())
    return hashlib.sha256("\n".join(prints).encode()).hexdigest() if prints else None


def _tables(rows: Mapping[str, list[Row]]) -> dict[str, pa.Table]:
    """Every table, also those without a row: all runs have the same files."""
    return {
        name: pa.Table.from_pylist(
            [
                {f.name: _known(row.get(f.name), f.nullable) for f in schema}
                for row in rows.get(name, [])
            ],
            schema=schema,
        )
        for name, schema in FINDINGS.items()
    }


def _known(value: Any, nullable: bool) -> Any:
    """The value; null in place of NaN, which some readers take for a number."""
    return None if nullable and isinstance(value, float) and not np.isfinite(value) else value


def _plain(values: Mapping[str, Any]) -> Row:
    """Texts such as every reader takes."""
    return {key: text(value) if isinstance(value, str) else value for key, value in values.items()}


def _text(value: object) -> str | None:
    return None if value is None else text(value)


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None


def _whole(value: Any) -> int | None:
    known = _number(value)
    return int(known) if known is not None and abs(known) < 2**62 else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
