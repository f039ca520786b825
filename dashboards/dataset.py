"""The findings of many runs as one folder of Parquet files that DuckDB and pandas read as it is.

    DATASET/stages/run=R/model=M/engine_version=V/date=D/part-0.parquet

One folder a table, one file a run in each. A run that comes again replaces its files: what is of
another model or date goes first, then each file is renamed into its place, `runs` last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from specscope.analyzers.findings import Findings
from specscope.dashboards.safe_text import clean
from specscope.dashboards.writing import make_folder, prove_folder
from specscope.traces.errors import UsageError
from specscope.traces.schema_findings import FINDINGS, PARTITIONS, SCHEMA_VERSION

MARK: Final = "_specscope.json"
FILE: Final = "part-0.parquet"
# A word, and not what hive takes for null: pandas reads no dataset with that in it.
UNKNOWN: Final = "unknown"
_WRITING: Final = ".writing-"
# Leftovers of killed writers are removed after this time.
_STALE_SECONDS: Final = 3600.0
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 80
_DIGEST: Final = 12


def run_name(path: str) -> str:
    """The name of a run in a dataset: that of its folder or file, and a hash of the whole path."""
    whole = str(Path(path).resolve())
    digest = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    return f"{value(Path(whole).name) or 'run'}-{digest}"


def value(text: str | None) -> str:
    """A text as the value of a partition: letters, digits, `.`, `_` and `-`; never a path."""
    if text is None:
        return UNKNOWN
    plain = _NOT_PLAIN.sub("_", text).strip("._")[:_LONGEST]
    return plain or UNKNOWN


class Dataset:
    """A dataset at `folder`, made where it is not there yet. Raises UsageError, in one line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _refuse_other(folder)
        prove_folder(folder)
        make_folder(folder)
        (folder / MARK).write_text(json.dumps({"schema_version": SCHEMA_VERSION}) + "\n")
        _sweep(folder)

    def put(self, found: Findings) -> None:
        """Write one run, in place of what is there of it. Raises UsageError, in one line."""
        names = dict(
            zip(
                PARTITIONS,
                (
                    run_name(found.path),
                    value(found.model),
                    value(found.engine_version),
                    value(found.date),
                ),
                strict=True,
            )
        )
        try:
            self._put(found, [f"{key}={named}" for key, named in names.items()])
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(
                f"cannot write into {clean(self._folder, 200)}: {reason}; make room, or give "
                "another folder"
            ) from error

    def _put(self, found: Findings, parts: list[str]) -> None:
        place = Path(tempfile.mkdtemp(prefix=_WRITING, dir=self._folder))
        try:
            for name in FINDINGS:
                pq.write_table(found.tables[name], place / name, compression="zstd")
            # `runs` last: a run that is in it is whole in the other tables.
            for name in sorted(FINDINGS, key=lambda name: name == "runs"):
                target = self._folder.joinpath(name, *parts, FILE)
                _remove_others(self._folder / name / parts[0], target)
                target.parent.mkdir(parents=True, exist_ok=True)
                (place / name).replace(target)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _remove_others(folder: Path, target: Path) -> None:
    """Files of the run under other partitions, and the folders that are empty then."""
    for file in sorted(folder.rglob("*.parquet")):
        if file == target:
            continue
        file.unlink(missing_ok=True)
        for above in file.parents:
            if above == folder:
                break
            with contextlib.suppress(OSError):
                above.rmdir()


def _refuse_other(folder: Path) -> None:
    """Only a new or empty folder, or a dataset of this schema, is written into."""
    title = clean(folder, 200)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{title} is a file; give --dataset a folder")
    mark = folder / MARK
    if not folder.is_dir() or (not mark.exists() and not any(folder.iterdir())):
        return
    try:
        known = json.loads(mark.read_bytes())["schema_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{title} holds something else than a dataset of specscope; give --dataset another "
            "folder"
        ) from error
    if known != SCHEMA_VERSION:
        raise UsageError(
            f"{title} is a dataset of schema {clean(known, 20)}, this version writes "
            f"{SCHEMA_VERSION}; collect the runs into a new folder"
        )


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_WRITING}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
