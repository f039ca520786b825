"""What `whatif` does: read, analyse, replay, print."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from specscope import exits, measured_inputs
from specscope.analyzers import activities
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.report import Report
from specscope.analyzers.whatif import Asked, WhatIf, whatif
from specscope.dashboards import terminal, whatif_sections
from specscope.dashboards.json_whatif import whatif_json
from specscope.dashboards.progress import reading
from specscope.measured_options import Measured
from specscope.traces.errors import EvidenceError
from specscope.traces.load import load


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    draft_tp: int | None = None
    steps: tuple[int, ...] = ()
    allreduce_speedup: float | None = None
    verify_speedup: float | None = None
    draft_tokens: int | None = None
    draft_graph: bool = False
    no_gaps: bool = False
    transfers_from: str | None = None
    measured: Measured = field(default_factory=Measured)
    as_json: bool = False
    activity_rules: Path | None = None
    no_cache: bool = False
    quiet: bool = False


def run(request: Request) -> int:
    """Do it; the exit code."""
    levers = levers_of(request)
    found = whatif(*_read(request, levers))
    if request.as_json:
        sys.stdout.write(json.dumps(whatif_json(found), indent=2, allow_nan=False) + "\n")
    elif request.quiet:
        sys.stdout.write(whatif_sections.headline(found) + "\n")
    elif not found.refused:
        whatif_sections.print_whatif(found, terminal.console_for(sys.stdout))
    if why := _missing(found):
        raise EvidenceError(why)
    return exits.DONE


def levers_of(request: Request) -> tuple[tuple[str, float], ...]:
    """The levers that were asked for, in the order of the help."""
    measured = request.measured
    # Beside a rate, accept length and batch say how it was measured.
    free = measured.tokens_per_second is None
    given: list[tuple[str, float | None]] = [
        ("draft-tp", request.draft_tp),
        *(("steps", number) for number in request.steps),
        ("allreduce-speedup", request.allreduce_speedup),
        ("verify-speedup", request.verify_speedup),
        ("accept-length", measured.accept_length if free else None),
        ("batch", measured.batch if free else None),
        ("draft-tokens", request.draft_tokens),
        ("draft-graph", 1.0 if request.draft_graph else None),
        ("no-gaps", 1.0 if request.no_gaps else None),
        ("transfers-from", 1.0 if request.transfers_from is not None else None),
    ]
    return tuple((name, float(value)) for name, value in given if value is not None)


def _read(request: Request, levers: tuple[tuple[str, float], ...]) -> tuple[Report, Asked]:
    rules = activities.load_rules(request.activity_rules)
    measured = request.measured
    if measured.tokens_per_second is None:
        measured = replace(measured, accept_length=None, batch=None)
    cache = not request.no_cache
    inputs = measured_inputs.read(measured, cache=cache)
    reference = measured_inputs.reference_of(measured)
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        run_read = load(list(request.paths), cache=cache, on_progress=on_progress)
    report = analyze(run_read, Options(reference, rules, inputs=inputs))
    other = None
    if request.transfers_from is not None:
        other = analyze(load([request.transfers_from], cache=cache), Options(rules=rules))
    return report, Asked(levers, other, Path(request.transfers_from or "").name)


def _missing(found: WhatIf) -> str:
    """Why the run, or something that was asked, cannot be answered; empty where all is."""
    if found.refused:
        return "nothing can be predicted: " + "; ".join(found.refused)
    refused = [f"--{row.lever}: {row.refused}" for row in found.asked if row.refused]
    return "; ".join(dict.fromkeys(refused))  # a range of steps is refused once
