"""Why an export by `nsys` failed: from what the program wrote to one line with its mend."""

from __future__ import annotations

import re
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import masking
from .errors import TraceFormatError
from .nsys_program import Ran
from .sniff import printable

_MOST_SAID: Final = 200
_REASONS: Final = {
    signal.SIGKILL: " (out of memory?)",
    signal.SIGXFSZ: " (the limit of file sizes of this shell)",
}


@dataclass(frozen=True)
class Trouble:
    """What nsys writes when an export fails, with an example, and the line about it.

    The line may hold {said} or {theirs}, which are groups of the pattern, and {name}, {program},
    {version}, {folder}, {command}.
    """

    pattern: str
    example: str
    line: str


_NEWER: Final = (
    "{name} was recorded by nsys {theirs}, and {program} is the older {version}, which cannot read "
    "it; give nsys {theirs} or newer by --nsys, or export it where it was recorded ({command}) and "
    "give the .sqlite"
)
_FULL: Final = (
    "{name} cannot be exported: the disk of {folder} is full; make room, or name another folder by "
    "SPECSCOPE_CACHE_DIR"
)
_DAMAGED: Final = (
    "{name} is cut short or damaged, or no report of Nsight Systems (nsys {version}: {said}); copy "
    "or record it again"
)

TROUBLES: Final = (
    Trouble(
        r"created in Nsight Systems version \(?(?P<theirs>\d+(?:\.\d+)+)[^,\n]*, newer than",
        "Report was created in Nsight Systems version (2026.1.2.63-261237042871v0), newer than "
        "your current version (2023.4.4.54-234433681190v0).",
        _NEWER,
    ),
    Trouble(
        r"Version number is invalid: (?P<theirs>\d{4}(?:[@.]\d+)+)",
        "Exportation error: Version number is invalid: 2023@4@4@54-234433681190v0",
        _NEWER,
    ),
    Trouble(
        r"database or disk is full|No space left on device",
        "[QuadDCommon::tag_message*] = database or disk is full",
        _FULL,
    ),
    Trouble(
        r"(?P<said>Section Table Reference magic number mismatch)",
        "Exportation error: Section Table Reference magic number mismatch.",
        _DAMAGED,
    ),
    Trouble(
        r"(?P<said>Cannot read from stream)",
        "Exportation error: Cannot read from stream.",
        _DAMAGED,
    ),
    Trouble(
        r"(?P<said>Invalid version prefix)",
        "Exportation error: Invalid version prefix: SQLite format 3",
        _DAMAGED,
    ),
)


def failure(report: Path, program: str, version: str, ran: Ran, folder: Path) -> TraceFormatError:
    """The error for an export into `folder` that ended in failure, or without a whole file."""
    known = {
        "name": title(report),
        "program": printable(program, 200),
        "version": version,
        "folder": printable(str(folder), 200),
        "command": command_elsewhere(report),
    }
    for trouble in TROUBLES:
        if match := re.search(trouble.pattern, ran.text):
            groups = {name: text.replace("@", ".") for name, text in match.groupdict().items()}
            return TraceFormatError(trouble.line.format(**known, **groups))
    how = _how(ran.code)
    said = _last_line(ran.text)
    return TraceFormatError(
        f"{known['name']} was not exported: nsys {version} {how}{f' ({said})' if said else ''}; "
        f"try it by hand ({known['command']}), and give the .sqlite"
    )


def command_elsewhere(report: Path) -> str:
    """The command that exports the report on a machine that has nsys."""
    output = Path(report.name).with_suffix(".sqlite")
    words = ["nsys", "export", "--type=sqlite", f"--output={output}", report.name]
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """A word for a shell, safe to print."""
    return shlex.quote(printable(word, 200))


def title(path: Path) -> str:
    """The name of a file, safe to print."""
    return printable(path.name, 120)


def _how(code: int) -> str:
    if code == 0:
        return "ended well, but wrote no whole SQLite file"
    if code > 0:
        return f"ended with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}"
    return f"was ended by {number.name}{_REASONS.get(number, '')}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(masking.text(lines[-1]), _MOST_SAID) if lines else ""
