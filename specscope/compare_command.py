"""What `compare` does: read both runs, compare, write what was asked for, decide the checks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specscope import exits
from specscope.analyzers import activities, checks, compare_checks
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.compare import compare
from specscope.analyzers.compare_report import Comparison
from specscope.analyzers.report import Report
from specscope.dashboards import compare_sections, compare_terminal, terminal
from specscope.dashboards.checked import Checked, check_line
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import size_text
from specscope.dashboards.writing import prove_file, write_text
from specscope.traces.errors import EvidenceError, UsageError
from specscope.traces.load import load

STDOUT = "-"
# First bytes of what this command writes: another file of that name was not meant.
_OWN_BEGINNINGS = (b'{\n  "schema_version":', b"<!-- specscope", b"<?xml")


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    a: str
    b: str
    checks: tuple[str, ...] = ()
    json: str | None = None
    markdown: str | None = None
    junit: Path | None = None
    activity_rules: Path | None = None
    no_cache: bool = False
    quiet: bool = False

    @property
    def documents(self) -> tuple[str, ...]:
        """Where documents go, `-` for stdout."""
        return tuple(
            STDOUT if one == "" else one for one in (self.json, self.markdown) if one is not None
        )

    def to_stdout(self, value: str | None) -> bool:
        """Does that document go to stdout?"""
        return value in ("", STDOUT)


def run(request: Request) -> int:
    """Do it; the exit code."""
    if request.documents.count(STDOUT) > 1:
        raise UsageError("--json and --markdown both go to stdout; give one of them a FILE")
    wanted = [checks.parse(text, compare_checks.COMPARISON) for text in request.checks]
    rules = activities.load_rules(request.activity_rules)
    for path in _files(request):
        _prove(path)
    reports = tuple(_report(request, path, rules) for path in (request.a, request.b))
    found = compare(reports[0], reports[1], (request.a, request.b), rules)
    results = [_decide(check, found) for check in wanted]
    # The answer first: it is there also when a file cannot be written.
    _print(request, found, results)
    sys.stdout.flush()
    for path, text in _written(request, found, results):
        _keep_inputs(path, reports)
        size = write_text(path, text)
        if not request.quiet:
            exits.say(f"wrote {path} ({size_text(size)})")
    return _exit_code(results)


def _report(request: Request, path: str, rules: activities.Rules) -> Report:
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        found = load([path], cache=not request.no_cache, on_progress=on_progress)
    return analyze(found, Options(rules=rules))


def _decide(check: checks.Check, found: Comparison) -> Checked:
    try:
        outcome = compare_checks.decide(check, found)
    except EvidenceError as error:
        return Checked(check, None, None, (), str(error))
    return Checked(check, outcome.value, outcome.passed)


def _print(request: Request, found: Comparison, results: list[Checked]) -> None:
    """The result on stdout; the lines of checks too, unless a document is there."""
    if request.to_stdout(request.json):
        sys.stdout.write(_json(found, results))
    elif request.to_stdout(request.markdown):
        sys.stdout.write(_markdown(found, results))
    elif request.quiet:
        sys.stdout.write(compare_sections.sentence(found) + "\n")
    else:
        compare_terminal.print_comparison(found, terminal.console_for(sys.stdout))
    for result in results:
        if STDOUT in request.documents:
            if result.passed is not True:
                exits.say(check_line(result))
        else:
            sys.stdout.write(check_line(result) + "\n")


def _files(request: Request) -> Iterator[Path]:
    for name in (request.json, request.markdown):
        if name is not None and not request.to_stdout(name):
            yield Path(name)
    if request.junit is not None:
        yield request.junit


def _written(
    request: Request, found: Comparison, results: list[Checked]
) -> Iterator[tuple[Path, str]]:
    if request.json is not None and not request.to_stdout(request.json):
        yield Path(request.json), _json(found, results)
    if request.markdown is not None and not request.to_stdout(request.markdown):
        yield Path(request.markdown), _markdown(found, results)
    if request.junit is not None:
        from specscope.dashboards.compare_junit import junit_text

        yield request.junit, junit_text(found, results)


def _prove(path: Path) -> None:
    """Before anything long: that the file can be written, and none of somebody else is lost."""
    prove_file(path)
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if file.read(64).startswith(_OWN_BEGINNINGS):
            return
    raise UsageError(
        f"{clean(path, 200)} is there and was not written by specscope, so it is not overwritten; "
        "name another file"
    )


def _keep_inputs(path: Path, reports: tuple[Report, ...]) -> None:
    """Never write over a trace that was read."""
    for rank in (rank for report in reports for rank in report.run.ranks):
        with contextlib.suppress(OSError):
            if Path(str(rank.facts.get("path", ""))).samefile(path):
                raise UsageError(f"{clean(path, 200)} is a trace that was read; name another file")


def _json(found: Comparison, results: list[Checked]) -> str:
    from specscope.dashboards.compare_json import json_text

    return json_text(found, results)


def _markdown(found: Comparison, results: list[Checked]) -> str:
    from specscope.dashboards.compare_markdown import markdown_text

    return markdown_text(found, results)


def _exit_code(results: list[Checked]) -> int:
    if any(result.passed is False for result in results):
        return exits.CHECK_FAILED
    if any(result.passed is None for result in results):
        return exits.UNSUPPORTED
    return exits.DONE
