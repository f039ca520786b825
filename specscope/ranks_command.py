"""What `ranks` does: read, analyse, print what all ranks show together."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from specscope import exits
from specscope.analyzers import activities
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.report import Report
from specscope.dashboards import terminal
from specscope.dashboards.json_group import group_json
from specscope.dashboards.parquet import refuse_other_tables, write_tables
from specscope.dashboards.progress import reading
from specscope.dashboards.writing import prove_folder
from specscope.traces.errors import EvidenceError
from specscope.traces.load import load
from specscope.traces.model_config import read_model_config


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    json: bool = False
    parquet: Path | None = None
    activity_rules: Path | None = None
    no_cache: bool = False
    quiet: bool = False
    model_config: Path | None = None
    draft_model_config: Path | None = None


def run(request: Request) -> int:
    """Do it; the exit code."""
    rules = activities.load_rules(request.activity_rules)
    models = _models(request)
    if request.parquet is not None:
        prove_folder(request.parquet)
        refuse_other_tables(request.parquet)
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        found = load(list(request.paths), cache=not request.no_cache, on_progress=on_progress)
    report = analyze(found, Options(rules=rules, models=models))
    if request.parquet is not None:
        names = write_tables(report, request.parquet)
        if not request.quiet:
            exits.say(f"wrote {len(names)} tables to {request.parquet}")
    why = _why_not(report)
    if request.json:
        sys.stdout.write(json.dumps(group_json(report), indent=2, allow_nan=False) + "\n")
    if why:
        raise EvidenceError(why)
    if models != Models() and not request.quiet and not _sized(report):
        exits.say(
            "the config gave no message size: it takes an all-reduce of a stage whose batch and k "
            "are on record, in the trace or in run.json (docs/ranks.md)"
        )
    if request.quiet and not request.json:
        sys.stdout.write(terminal.group_sentence(report) + "\n")
    elif not request.json:
        terminal.print_group(report, terminal.console_for(sys.stdout))
    return exits.DONE


def _models(request: Request) -> Models:
    """The widths of target and draft, as far as configs were given."""
    given = request.model_config, request.draft_model_config
    return Models(*(None if path is None else read_model_config(path) for path in given))


def _sized(report: Report) -> bool:
    """Did a config give any size?"""
    group = report.group
    parts = group.measured_parts if group else ()
    return any(one.measured is not None and one.measured.sizes.assumption for one in parts)


def _why_not(report: Report) -> str:
    """Why nothing can be said of the ranks together; empty when something can."""
    group = report.group
    if len(report.run.ranks) == 1:
        alone = [note.text for note in report.warnings if note.code == "one_rank"]
        one = alone[0] if alone else "one rank: there is no other to wait for"
        return f"{one}; give the traces of all ranks"
    if group is None:
        return "no collectives on record, so nothing shows what the ranks wait for"
    if group.refused:
        return f"waiting cannot be told from transferring: {group.refused}"
    if not group.rows:
        return "no whole cycle that all ranks have, so nothing can be said of a cycle"
    return ""
