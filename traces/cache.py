"""Tables of a trace that was read before, kept as Parquet in the user's cache folder.

An entry is a folder named by its key, which covers the file's content (size, time of change and
a hash of head, tail and sampled blocks), the path as given, the code of this package and the
options. It is written under another name and renamed, so readers see all of it or nothing. A
damaged entry is thrown away and the trace is read again; a cache that cannot be written costs
nothing but time. Entries can only be read as Parquet and JSON: nothing in them is executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache as memoise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from . import schema
from .events import ScanOptions
from .run import RankTables

DEFAULT_MAX_BYTES: Final = 4 << 30
# Smaller files are read again faster than they are looked up.
MIN_FILE_BYTES: Final = 1 << 18

BLOCK_BYTES: Final = 1 << 16
SAMPLED_BLOCKS: Final = 16
SAMPLE_BYTES: Final = 1 << 12

# Leftovers of killed writers are removed after this time.
STALE_SECONDS: Final = 3600.0
_PREFIX = "writing-"
_ENTRY = "entry.json"


def folder() -> Path:
    """The cache folder: SPECSCOPE_CACHE_DIR, else the user's."""
    given = os.environ.get("SPECSCOPE_CACHE_DIR")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("specscope"))


def max_bytes() -> int:
    """Bound of the cache in bytes: SPECSCOPE_CACHE_BYTES, else 4 GiB."""
    try:
        return max(0, int(os.environ["SPECSCOPE_CACHE_BYTES"]))
    except (KeyError, ValueError):
        return DEFAULT_MAX_BYTES


def fingerprint(path: Path) -> str:
    """sha256 of a file's size, head, tail and sampled blocks, in hex; of a folder, of its files."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        parts = [(file.name, file.stat().st_mtime_ns, fingerprint(file)) for file in files]
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(BLOCK_BYTES))
        if size > 2 * BLOCK_BYTES:
            step = (size - 2 * BLOCK_BYTES) // (SAMPLED_BLOCKS + 1)
            for index in range(1, SAMPLED_BLOCKS + 1):
                file.seek(BLOCK_BYTES + index * step)
                digest.update(file.read(SAMPLE_BYTES))
        file.seek(max(BLOCK_BYTES, size - BLOCK_BYTES))
        digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def key(path: Path, content: str, options: ScanOptions, reader: str) -> str:
    """Name of the entry for a file with fingerprint `content`, read with these options."""
    wanted = asdict(options)
    del wanted["threads"]  # has no effect on the result
    parts = (str(path), content, path.stat().st_mtime_ns, _code(), wanted, reader)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@memoise
def _code() -> str:
    """Changes whenever the code that makes the tables does, without a number to forget."""
    here = Path(__file__).parent
    files = sorted([*here.glob("*.py"), *here.glob("_scan*.so")])
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return repr((schema.SCHEMA_VERSION, pa.__version__, states))


def get(name: str) -> list[RankTables] | None:
    """The ranks kept under that key; None when there is no whole entry."""
    entry = folder() / name
    try:
        described = json.loads((entry / _ENTRY).read_bytes())
        ranks = [_read_rank(entry, place, rank) for place, rank in enumerate(described["ranks"])]
        os.utime(entry)
    except FileNotFoundError:
        if entry.is_dir():  # a part was lost, or another process is throwing it away
            _discard(entry)
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        _discard(entry)
        return None
    return ranks


def put(name: str, ranks: Sequence[RankTables]) -> bool:
    """Keeps the ranks under that key; False when that was not possible."""
    try:
        root = folder()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _temporary(root) as place:
            for index, rank in enumerate(ranks):
                _write_rank(place, index, rank)
            facts = [{"rank": rank.rank, "facts": rank.facts} for rank in ranks]
            _write_private(place / _ENTRY, json.dumps({"ranks": facts}).encode())
            place.rename(root / name)
        _trim(root, keep=name)
    except (OSError, ValueError, TypeError, pa.ArrowException):
        return False
    return True


def made(name: str, make: Callable[[Path], None]) -> Path:
    """The folder kept under that name; `make` fills a private one where there is none.

    It stays until another is made, whatever its size. Raises OSError and what `make` raises.
    """
    root = folder()
    entry = root / name
    with contextlib.suppress(FileNotFoundError):
        os.utime(entry)
        return entry
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _temporary(root) as place:
        make(place)
        try:
            place.rename(entry)
        except OSError:
            if not entry.is_dir():  # else another process was faster
                raise
    _trim(root, keep=name, whatever_size=True)
    return entry


def clear() -> None:
    """Removes every entry."""
    for entry in _entries(folder()):
        _discard(entry)


@contextlib.contextmanager
def _temporary(root: Path) -> Iterator[Path]:
    """A private folder in `root` that is gone afterwards, unless it was renamed."""
    place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _table_file(entry: Path, place: int, table: str) -> Path:
    return entry / f"{place}-{table}.parquet"


def _write_rank(entry: Path, place: int, rank: RankTables) -> None:
    for table in schema.TABLES:
        file = _table_file(entry, place, table)
        pq.write_table(
            getattr(rank, table),
            file,
            compression="none",
            write_page_checksum=True,
            write_statistics=False,
        )
        file.chmod(0o600)


def _read_rank(entry: Path, place: int, described: dict[str, Any]) -> RankTables:
    tables = {}
    for name, wanted in schema.TABLES.items():
        # Not pq.read_table: it imports half of pyarrow and pandas, which takes longer than this.
        file = _table_file(entry, place, name)
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            table = parquet.read()
        tables[name] = table.combine_chunks().cast(wanted)
    return RankTables(rank=described["rank"], facts=described["facts"], **tables)


def _write_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _trim(root: Path, keep: str, *, whatever_size: bool = False) -> None:
    """Removes the entries used longest ago until the rest fits, and stale leftovers.

    The entry to keep is removed only when it is larger than the bound, unless `whatever_size`.
    """
    bound = max_bytes()
    now = time.time()
    sizes: list[tuple[float, int, Path]] = []
    for entry in _entries(root):
        try:
            used = entry.stat().st_mtime
            size = sum(file.stat().st_size for file in entry.iterdir())
        except OSError:
            continue  # another process removed it
        if entry.name.startswith(_PREFIX):
            if now - used > STALE_SECONDS:
                _discard(entry)
        else:
            sizes.append((used, size, entry))
    total = sum(size for _, size, _ in sizes)
    for _, size, entry in sorted(sizes):
        if total <= bound:
            return
        if entry.name != keep or (size > bound and not whatever_size):
            _discard(entry)
            total -= size


def _entries(root: Path) -> list[Path]:
    try:
        return [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _discard(entry: Path) -> None:
    """Takes an entry out of reach at once, then removes it."""
    try:
        gone = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=entry.parent)) / "gone"
        entry.rename(gone)
    except OSError:
        return
    shutil.rmtree(gone.parent, ignore_errors=True)
