"""Runs a server under `nsys`, with the hooks in it, and brings the reports of what was collected.

The collection is stopped while the server lives, then the server is ended: what workers hold when
they are killed is lost otherwise, without a word in the report.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from . import launch, masking, nsys_program, record_checks, server_process, settings
from .http_api import Api
from .interrupts import Interrupts
from .nsys_program import NsysError
from .nsys_session import Session
from .record_flow import Flow
from .record_options import HOOKS, REPORT, Options, Recorded, raw_of, reports_of
from .server_errors import ServerError, UnsuitableError

_GET_NSYS: Final = (
    "Nsight Systems is a part of the CUDA toolkit, also to be had alone (package nsight-systems); "
    "give its path by --nsys"
)


def record(options: Options) -> Recorded:
    """Do it.

    Raises:
        UnsuitableError: nothing was started; the line says what to change.
        ServerError: nsys, or the server, went wrong.
        KeyboardInterrupt: at the second interrupt; everything was ended.
    """
    program, version = _program(options.nsys)
    if shutil.which(options.command[0]) is None:
        raise UnsuitableError(f"{options.command[0]}: command not found")
    if options.url is not None:
        _check_address(options.url)
    folder = _folder(options.out)
    environ = environment(options, folder)
    session = Session(
        program,
        environ,
        graphs=options.graphs,
        output=folder / REPORT,
        windows=options.windows,
    )
    facts = record_checks.facts_of(options.command, environ, nsys=version, graphs=options.graphs)
    for line in record_checks.warnings(facts):
        options.say(line)
    for line in session.left_out:
        options.say(f"nsys {version} does not know {line}: left out")
    since = time.time()
    with Interrupts(toggle=options.by_signal) as interrupts:
        flow = Flow(options, session, folder, interrupts)
        try:
            flow.run(environ)
        except ServerError as error:
            if not reports_of(folder):
                raise
            flow.complaint = str(error)  # what there is, is there
        finally:
            session.shutdown()
    reports = tuple(reports_of(folder))
    # Beside a report they may well be somebody else's, who records at the same time.
    scratch = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    raw = tuple(raw_of(folder, None if reports else scratch, since=since))
    for path in (*reports, *raw):
        with contextlib.suppress(OSError):
            path.chmod(0o600)  # nsys lets everybody read them
    notes = _notes(options, reports, session, flow.begun)
    return Recorded(folder, reports, raw, program, flow.code, flow.ending, flow.complaint, notes)


def environment(options: Options, folder: Path) -> dict[str, str]:
    """The environment of the command: what it needs under nsys, and the hooks."""
    environ = record_checks.with_variables(os.environ)
    if not options.hooks:
        return environ
    # CUDA events of the hooks would be calls in the report that the server does not make.
    chosen: dict[str, object] = {settings.EVENTS_EVERY: 0}
    return launch.environment(environ, log=folder / HOOKS, chosen=chosen)


def _program(given: str | None) -> tuple[str, str]:
    try:
        program = nsys_program.find(given)
        return program, nsys_program.version(program)
    except NsysError as error:
        mend = f"; {_GET_NSYS}" if given is None else ""
        raise UnsuitableError(f"{masking.text(str(error))}{mend}") from error


def _check_address(url: str) -> None:
    try:
        holder = server_process.taken(Api(url))
    except ServerError as error:
        raise UnsuitableError(str(error)) from error
    if holder:
        raise UnsuitableError(holder)


def _folder(given: Path | None) -> Path:
    """The folder for the reports, which only the user may read: they carry the environment."""
    folder = given or Path(time.strftime("specscope-record-%Y%m%d-%H%M%S"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=given is not None)
        folder = folder.absolute()
        if reports_of(folder):
            raise UnsuitableError(f"{folder} holds a recording; give another --out")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnsuitableError(
            f"{folder} cannot be written: {error.strerror}; give another --out"
        ) from error
    return folder


def _notes(
    options: Options, reports: tuple[Path, ...], session: Session, begun: int
) -> tuple[str, ...]:
    notes = []
    if 0 < len(reports) < begun:
        notes.append(f"{len(reports)} reports came of {begun} collections")
    if options.windows is not None and 0 < len(reports) < options.windows:
        notes.append(
            f"{len(reports)} of {options.windows} windows were recorded: the server's profiler was "
            "started no more often (POST /start_profile)"
        )
    if session.lacks_importer:
        notes.append(
            "this nsys has no importer, so it left a raw recording: install the host part of the "
            "same version beside it"
        )
    return tuple(notes)
