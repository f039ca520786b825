"""Says once a process that a folder takes no files; two writers fail there for one reason."""

from __future__ import annotations

import logging
from pathlib import Path

_LOG = logging.getLogger("specscope")
_folders: set[Path | None] = set()


def about(folder: Path | None, what: str, error: object) -> None:
    """One warning a folder; what else fails there is told at level INFO, and in the reports.

    None: no folder is in question.
    """
    level = logging.INFO if folder in _folders else logging.WARNING
    _folders.add(folder)
    _LOG.log(level, "specscope: %s: %s", what, error)
