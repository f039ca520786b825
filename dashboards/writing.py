"""Files written whole or not at all: under a temporary name first, then renamed.

Work that takes long proves first that its results can be written.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
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
        if _is_no_file(target, path):
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
        raise _unwritable(path, error) from error


def prove_file(path: Path) -> None:
    """Refuse a file that cannot be written, by trying; nothing stays of it, what is there stays.

    Raises UsageError, in one line.
    """
    try:
        target = path.resolve()
        if _is_no_file(target, path):
            if not os.access(target, os.W_OK):
                raise PermissionError(0, "Permission denied")
            return
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def prove_folder(path: Path) -> None:
    """The same for a folder, which need not be there yet."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        make_folder(path)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise _closed(path, error) from error
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make_folder(path: Path) -> None:
    """Make the folder where it is not there yet. Raises UsageError, in one line."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _closed(path, error) from error


def _is_no_file(target: Path, path: Path) -> bool:
    """Whether it is a device or a pipe; UsageError for a folder."""
    if target.is_dir():
        raise UsageError(f"cannot write {clean(path, 200)}: it is a folder; name a file")
    return target.exists() and not target.is_file()


def _unwritable(path: Path, error: OSError) -> UsageError:
    reason = error.strerror or type(error).__name__
    return UsageError(f"cannot write {clean(path, 200)}: {reason}; check the path")


def _closed(path: Path, error: OSError) -> UsageError:
    reason = error.strerror or type(error).__name__
    return UsageError(f"cannot write into {clean(path, 200)}: {reason}; give a folder")


def _write(target: Path, raw: bytes) -> None:
    target.write_bytes(raw)
