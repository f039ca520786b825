"""What `ranks` does: read, analyse, print what all ranks show together."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specscope import exits
from specscope.analyzers import activities, refusals
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.bandwidth import MOST_BYTES
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.report import Report
from specscope.dashboards import terminal
from specscope.dashboards.json_group import group_json
from specscope.dashboards.parquet import refuse_other_tables, write_tables
from specscope.dashboards.progress import reading
from specscope.dashboards.writing import prove_folder
from specscope.engine_options import IN_PROCESS, chosen
from specscope.traces.errors import EvidenceError, UsageError
from specscope.traces.load import load
from specscope.traces.model_config import read_model_config
from specscope.traces.sniff import printable

_MOST_NAMED: Final = 3
_SIZED_STAGES: Final = ("draft", "verify", "draft_extend", "decode", "prefill")
# Why a file is listed that could be no rank.
_NO_TRACE: Final = (
    "not a trace",
    "not a trace by its name",
    "what is known of the run, not a trace",
)


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
    engine: str = IN_PROCESS
    ray_address: str | None = None
    message_bytes: tuple[str, ...] = ()


def run(request: Request) -> int:
    """Do it; the exit code."""
    rules = activities.load_rules(request.activity_rules)
    models = _models(request)
    if request.parquet is not None:
        prove_folder(request.parquet)
        refuse_other_tables(request.parquet)
    with (
        chosen(request.engine, request.ray_address) as engine,
        reading(sys.stderr, enabled=not request.quiet) as on_progress,
    ):
        found = load(
            list(request.paths),
            cache=not request.no_cache,
            on_progress=on_progress,
            engine=engine,
        )
    report = analyze(found, Options(rules=rules, models=models))
    if request.parquet is not None:
        names = write_tables(report, request.parquet)
        if not request.quiet:
            exits.say(f"wrote {len(names)} tables to {request.parquet}")
    why = _why_not(report)
    if request.json:
        sys.stdout.write(json.dumps(group_json(report), indent=2, allow_nan=False) + "\n")
    if why:
        raise EvidenceError(why + _left_out(report))
    if (models.target or models.draft) and not request.quiet and not _sized(report):
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
    target, draft = (None if path is None else read_model_config(path) for path in given)
    return Models(target, draft, _given_bytes(request.message_bytes))


def _given_bytes(texts: Sequence[str]) -> dict[str, int]:
    """Bytes of an all-reduce by stage, as `verify=524288`."""
    found: dict[str, int] = {}
    for text in texts:
        stage, _, number = text.partition("=")
        stage = stage.strip().replace("-", "_")
        digits = number.strip().replace(",", "").replace("_", "")
        known = stage in _SIZED_STAGES and digits.isascii() and digits.isdigit()
        if not known or not 0 < int(digits[:20]) <= MOST_BYTES or len(digits) > 19:
            raise UsageError(
                f"--message-bytes {printable(text, 60)}: write STAGE=BYTES, such as verify=524288, "
                f"with one of {', '.join(_SIZED_STAGES)}"
            )
        if stage in found:
            raise UsageError(f"--message-bytes says {stage} twice; give one size")
        found[stage] = int(digits)
    return found


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
        return f"{_no_collectives(report)}, so nothing shows what the ranks wait for"
    if group.refused:
        return f"waiting cannot be told from transferring: {group.refused}"
    if not group.rows:
        return "the ranks have no whole cycle of one kind and batch in common"
    return ""


# Warnings that say why a rank shows no collectives, the plainest first.
_WITHOUT: Final = ("no_gpu_events", "no_gpu_rows", "ranks_without_cuda", "graph_spans")


def _no_collectives(report: Report) -> str:
    """What is missing, and how to record it."""
    for code in _WITHOUT:
        found = [note for note in report.warnings if note.code == code]
        if found:
            mend = f" ({found[0].mend})" if found[0].mend else ""
            return f"{'; '.join(note.text for note in found[:_MOST_NAMED])}{mend}"
    lost = [one for one in report.coverage if one.graphs_without_op]
    if lost:
        ranks = ", ".join(str(one.rank) for one in lost[:_MOST_NAMED])
        return (
            f"no collectives on record: of the {lost[0].graph_launches:,} graph launches of rank "
            f"{ranks} no kernel is there ({refusals.graph_switch(report.run)})"
        )
    return "no collectives on record"


def _left_out(report: Report) -> str:
    """Files that were found and not read, in words: a rank may be among them."""
    listed = [line for line in report.run.listed if not line.endswith(_NO_TRACE)]
    if not listed:
        return ""
    more = f"; and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"; left out: {'; '.join(listed[:_MOST_NAMED])}{more}"
