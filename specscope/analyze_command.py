"""What `analyze` does: read, analyse, write what was asked for, decide the checks."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from specscope import __version__, exits, measured_inputs
from specscope.analyzers import activities, checks
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.report import Report
from specscope.dashboards import terminal
from specscope.dashboards.checked import Checked, check_line
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import size_text
from specscope.dashboards.writing import prove_file, prove_folder, write_text
from specscope.engine_options import IN_PROCESS, chosen
from specscope.measured_options import Measured
from specscope.traces.errors import EvidenceError, UsageError
from specscope.traces.load import DEFAULT_MAX_TEXT_BYTES, load
from specscope.traces.run import Run
from specscope.traces.scan import reader_name

if TYPE_CHECKING:
    from specscope.analyzers.whatif import WhatIf
    from specscope.traces.graph_capture import CaptureTrace

STDIN = STDOUT = "-"
# From here on the replays of a page take more than some seconds.
_MANY_OPS = 100_000
# First bytes of what specscope writes: only such a file may be overwritten by `--json PATH`,
# where PATH may have been meant as a trace.
_OWN_PAGE = b'<meta name="generator" content="specscope '
_OWN_BEGINNINGS = (b'{\n  "schema_version":', b"<!-- specscope report -->")


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    json: str | None = None
    markdown: str | None = None
    html: Path | None = None
    no_whatif: bool = False
    with_environment: bool = False
    parquet: Path | None = None
    checks: tuple[str, ...] = ()
    measured: Measured = field(default_factory=Measured)
    rank: int | None = None
    cycle: int | None = None
    capture_traces: tuple[str, ...] = ()
    activity_rules: Path | None = None
    frames: bool = False
    max_text: int | None = None
    engine: str = IN_PROCESS
    ray_address: str | None = None
    no_cache: bool = False
    nsys: str | None = None
    export_timeout: float | None = None
    quiet: bool = False
    debug: bool = False

    def talk(self, text: str) -> None:
        """Say something on stderr, unless asked to be quiet."""
        if not self.quiet:
            exits.say(text)


def run(request: Request) -> int:
    """Do it; the exit code."""
    request = _sorted_out(request)
    wanted = [checks.parse(text) for text in request.checks]
    rules = activities.load_rules(request.activity_rules)
    _prove_files(request)
    _say_reader(request)
    with _timed(request, "read"):
        found = _load(request)
        captures = _load_captures(request)
        inputs = measured_inputs.read(request.measured, cache=not request.no_cache)
    with _timed(request, "analysed"):
        reference = measured_inputs.reference_of(request.measured)
        report = analyze(found, Options(reference, rules, captures=captures, inputs=inputs))
    results = [_decide(check, report) for check in wanted]
    with _timed(request, "written"):
        # The answer first: it is there also when a file cannot be written.
        _print(request, report, results)
        sys.stdout.flush()
        _write_files(request, report, results)
    return _exit_code(results)


def _sorted_out(request: Request) -> Request:
    """The request with every PATH in its place, also one that stood behind `--json`."""
    json, more = _file_or_path("json", request.json, request)
    request = replace(request, json=json, paths=(*request.paths, *more))
    markdown, more = _file_or_path("markdown", request.markdown, request)
    request = replace(request, markdown=markdown, paths=(*request.paths, *more))
    if not request.paths:
        raise UsageError("no trace given; give a trace for each rank, or a folder with them")
    if request.json == request.markdown == STDOUT:
        raise UsageError("--json and --markdown both go to stdout; give one of them a FILE")
    return request


def _file_or_path(
    option: str, value: str | None, request: Request
) -> tuple[str | None, tuple[str, ...]]:
    """Where the document goes, and the PATH that stood in place of its FILE."""
    if value is None:
        return None, ()
    if value == "" or (value == STDOUT and request.paths):
        return STDOUT, ()
    if _is_path(value, option, request):
        return STDOUT, (value,)
    return value, ()


def _is_path(value: str, option: str, request: Request) -> bool:
    """Was the word behind `--json` meant as a trace? Nothing but a report is overwritten."""
    path = Path(value)
    if value == STDIN or path.is_dir():
        return True
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        if file.read(64).startswith(_OWN_BEGINNINGS):
            return False
    if not request.paths:
        return True
    raise UsageError(
        f"--{option} {clean(value, 200)}: that file is there and is no report, so it is not "
        f"overwritten; for stdout write --{option} behind the paths"
    )


def _prove_files(request: Request) -> None:
    """Before anything long: that every file can be written, and none of somebody else is lost."""
    if request.parquet is not None:
        from specscope.dashboards.parquet import refuse_other_tables

        prove_folder(request.parquet)
        refuse_other_tables(request.parquet)
    if request.html is not None:
        prove_file(request.html)
        _refuse_other_page(request.html)
    for name in (request.json, request.markdown):
        if name not in (None, STDOUT):
            prove_file(Path(str(name)))


def _refuse_other_page(path: Path) -> None:
    """A page of specscope may be written anew; another file was not meant."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if _OWN_PAGE in file.read(4096):
            return
    raise UsageError(
        f"{clean(path, 200)} is there and is no page of specscope, so it is not overwritten; give "
        "--html another file"
    )


def _say_reader(request: Request) -> None:
    if request.debug:
        exits.say(
            f"version {__version__}, Python {platform.python_version()}, "
            f"reader {reader_name()}, cache {'off' if request.no_cache else 'on'}"
        )


@contextlib.contextmanager
def _timed(request: Request, what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    if request.debug:
        exits.say(f"{what} in {time.perf_counter() - start:.2f} s")


def _load(request: Request) -> Run:
    if STDIN in request.paths and sys.stdin.isatty():
        request.talk("reading a trace from standard input")
    limit = DEFAULT_MAX_TEXT_BYTES if request.max_text is None else request.max_text
    with (
        chosen(request.engine, request.ray_address) as engine,
        reading(sys.stderr, enabled=not request.quiet) as on_progress,
    ):
        return load(
            list(request.paths),
            rank=request.rank,
            all_frames=request.frames,
            max_text_bytes=limit,
            cache=not request.no_cache,
            on_progress=on_progress,
            nsys=request.nsys,
            export_timeout=request.export_timeout,
            engine=engine,
        )


def _load_captures(request: Request) -> tuple[CaptureTrace, ...]:
    if not request.capture_traces:
        return ()
    from specscope.traces.graph_capture import load_capture_traces

    limit = DEFAULT_MAX_TEXT_BYTES if request.max_text is None else request.max_text
    with reading(sys.stderr, enabled=not request.quiet) as on_progress:
        return load_capture_traces(
            request.capture_traces, max_text_bytes=limit, on_progress=on_progress
        )


def _decide(check: checks.Check, report: Report) -> Checked:
    try:
        outcome = checks.decide(check, report)
    except EvidenceError as error:
        return Checked(check, None, None, (), str(error))
    return Checked(check, outcome.value, outcome.passed, outcome.dissent)


def _write_files(request: Request, report: Report, results: list[Checked]) -> None:
    """Everything that goes into files; tables first, they do not depend on a verdict."""
    if request.parquet is not None:
        from specscope.dashboards.parquet import write_tables

        names = write_tables(report, request.parquet)
        request.talk(f"wrote {len(names)} tables to {request.parquet}")
    for path, text in _documents(request, report, results):
        _keep_inputs(path, report)
        size = write_text(path, text)
        request.talk(f"wrote {path} ({size_text(size)})")


def _documents(
    request: Request, report: Report, results: list[Checked]
) -> Iterator[tuple[Path, str]]:
    if request.html is not None:
        from specscope.dashboards.html import html_page

        found = None if request.no_whatif else _replayed(request, report)
        environment = request.with_environment
        yield request.html, html_page(report, request.cycle, found, environment=environment)
    if request.json not in (None, STDOUT):
        yield Path(str(request.json)), _json(report, results)
    if request.markdown not in (None, STDOUT):
        yield Path(str(request.markdown)), _markdown(report)


def _replayed(request: Request, report: Report) -> WhatIf:
    """What changes would do; of a large run it is said before that it takes a while."""
    from specscope.analyzers.whatif import whatif

    ops = report.tables["ops"].num_rows
    if ops >= _MANY_OPS:
        request.talk(f"replaying {ops:,} ops for the page; --no-whatif leaves that out")
    with _timed(request, "replayed for the page"):
        return whatif(report)


def _keep_inputs(path: Path, report: Report) -> None:
    """Never write over a trace that was read."""
    read = [str(rank.facts.get("path", "")) for rank in report.run.ranks]
    captured = report.graphs.captured if report.graphs else ()
    for source in map(Path, dict.fromkeys((*read, *(graph.source for graph in captured)))):
        with contextlib.suppress(OSError):
            if source.samefile(path):
                raise UsageError(f"{clean(path, 200)} is a trace that was read; name another file")


def _json(report: Report, results: list[Checked]) -> str:
    from specscope.dashboards.json_report import json_text

    return json_text(report, results)


def _markdown(report: Report) -> str:
    from specscope.dashboards.markdown import markdown_text

    return markdown_text(report)


def _print(request: Request, report: Report, results: list[Checked]) -> None:
    """The result on stdout; the lines of checks too, unless a document is there."""
    document = STDOUT in (request.json, request.markdown)
    if request.json == STDOUT:
        sys.stdout.write(_json(report, results))
    elif request.markdown == STDOUT:
        sys.stdout.write(_markdown(report))
    elif request.quiet:
        sys.stdout.write(clean(report.verdict.sentence) + "\n")
    elif request.cycle is not None:
        from specscope.dashboards.cycle_view import print_cycle

        print_cycle(report, request.cycle, terminal.console_for(sys.stdout))
    else:
        terminal.print_report(report, terminal.console_for(sys.stdout))
    for result in results:
        if document:
            if result.passed is not True:
                exits.say(check_line(result))
        else:
            sys.stdout.write(check_line(result) + "\n")


def _exit_code(results: list[Checked]) -> int:
    if any(result.passed is False for result in results):
        return exits.CHECK_FAILED
    if any(result.passed is None for result in results):
        return exits.UNSUPPORTED
    return exits.DONE
