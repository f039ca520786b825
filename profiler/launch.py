"""`specscope run`: becomes the command, with the start-up hook in its environment.

The process is replaced (`exec`), so exit code, signals, terminal and process group are those
of the command itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from specscope.profiler.attach import COLLECTIVES, LOG_FOLDER

STARTUP = Path(__file__).resolve().with_name("startup")
CANNOT_RUN, NOT_FOUND = 126, 127


def environment(
    base: Mapping[str, str],
    *,
    log: Path | None = None,
    collectives: bool = False,
    chosen: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """`base` with the start-up hook first on `PYTHONPATH` and specscope's variables.

    `chosen` has values for variables of `settings`; what is None leaves the one of `base`.
    """
    out = dict(base)
    given = base.get("PYTHONPATH", "")
    if given.split(os.pathsep)[0] != str(STARTUP):
        out["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *([given] if given else [])])
    if log is not None:
        out[LOG_FOLDER] = str(log.absolute())
    if collectives:
        out[COLLECTIVES] = "1"
    out |= {name: str(value) for name, value in (chosen or {}).items() if value is not None}
    return out


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by `command`."""
    os.execvpe(command[0], list(command), dict(environ))
