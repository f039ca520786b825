"""One file into the tables of its ranks: refused by its first bytes, scanned, cut into tables."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import kineto, nsys, sniff
from .errors import TraceFormatError
from .events import Document, ScanOptions
from .run import RankTables
from .scan import reader_name, scan

STDIN: Final = "-"
_MEND: Final = "give a Kineto trace (*.trace.json or *.trace.json.gz)"
_RECORD: Final = "start the profiler while requests are running"


def read_file(path: Path, fingerprint: str, options: ScanOptions) -> list[RankTables]:
    """The ranks in the file at `path`. Raises TraceFormatError, in one line, and OSError."""
    if path.is_dir() or sniff.is_database(path):
        return nsys.read(path, fingerprint)
    packed = sniff.check(path)
    documents = documents_of(path, options, path.name)
    source = kineto.Source(
        path=sniff.path_text(path),
        format="kineto-json.gz" if packed else "kineto-json",
        bytes=path.stat().st_size,
        text_bytes=documents[-1].end,
        fingerprint=fingerprint,
        reader=reader_name(),
    )
    return kineto.rank_tables(documents, source)


def read_stream(path: Path, options: ScanOptions) -> list[RankTables]:
    """The ranks in text that can be read only once: a pipe, or `-` for standard input."""
    name = "standard input" if str(path) == STDIN else path.name
    documents = documents_of(STDIN if str(path) == STDIN else path, options, name)
    size = documents[-1].end
    # A stream cannot be read again for its blocks: its size is all there is to know it by.
    fingerprint = hashlib.sha256(str(size).encode()).hexdigest()
    source = kineto.Source(
        sniff.path_text(path), "kineto-json", size, size, fingerprint, reader_name()
    )
    return kineto.rank_tables(documents, source)


def documents_of(source: Path | str, options: ScanOptions, name: str) -> list[Document]:
    """The documents with events in them; refuses a text without any, naming what it is."""
    title = sniff.printable(name, 120)
    try:
        documents = scan(source, options)
    except TraceFormatError as error:
        raise TraceFormatError(f"{title}: {error}") from error
    found = [document for document in documents if document.events]
    if not found:
        raise _refusal(documents, name)
    return found


def _refusal(documents: Sequence[Document], name: str) -> TraceFormatError:
    losses = [loss for document in documents for loss in document.losses]
    damaged = [loss.reason for loss in losses if loss.reason.startswith("gzip_")]
    if damaged:
        size = documents[-1].end if documents else 0
        what = f"a gzip file that ends early or is damaged; {size} bytes came out, no whole event"
        return sniff.refusal(name, what, "copy or record it again")
    if losses and any(document.has_events for document in documents):
        first = losses[0]
        what = (
            f"a trace without one readable event: at byte {first.offset} {first.reason} "
            f"({first.action})"
        )
        return sniff.refusal(name, what, "record it again; no profiler writes this")
    if any(document.has_events for document in documents):
        return sniff.refusal(name, "a trace without one event", _RECORD)
    if not any(document.structure_bytes for document in documents):
        return sniff.refusal(name, "not JSON", _MEND)
    return sniff.refuse_keys(name, [key for document in documents for key in document.header])
