"""Files written whole or not at all: under a temporary name first, then renamed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from specscope.dashboards.safe_text import clean
from specscope.traces.errors import UsageError


def write_text(path: Path, text: str) -> int:
    """Write `text` to `path`; the bytes written. Raises UsageError, in one line."""
    raw = text.encode("utf-8", "backslashreplace")
    replace_file(path, lambda target: _write(target, raw))
    return len(raw)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, which then takes its name.

    A device or a pipe is written right away. Raises UsageError, in one line.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise UsageError(f"cannot write {clean(path, 200)}: it is a folder; name a file")
            write(target)
            return
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        try:
            write(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"cannot write {clean(path, 200)}: {reason}; check the path") from error


def make_folder(path: Path) -> None:
    """Make the folder where it is not there yet. Raises UsageError, in one line."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"cannot write into {clean(path, 200)}: {reason}; give a folder"
        ) from error


def _write(target: Path, raw: bytes) -> None:
    target.write_bytes(raw)
