"""One file into the tables of its ranks: refused by its first bytes, scanned, cut into tables."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from . import kineto, sniff
from .errors import TraceFormatError
from .events import Document, ScanOptions
from .run import RankTables

_EMPTY_MEND = "start the profiler while requests are running"


def reader_name() -> str:
    """`native` or `pure`: the scanner in use."""
    return "pure"


def read_file(path: Path, fingerprint: str, options: ScanOptions) -> list[RankTables]:
    """The ranks in the file at `path`. Raises TraceFormatError, in one line, and OSError."""
    sniff.check(path)
    documents = _scan(path, options, path.name)
    packed = path.open("rb").read(2) == b"\x1f\x8b"
    source = kineto.Source(
        path=str(path),
        format="kineto-json.gz" if packed else "kineto-json",
        bytes=path.stat().st_size,
        text_bytes=documents[-1].end,
        fingerprint=fingerprint,
        reader=reader_name(),
    )
    return kineto.rank_tables(documents, source)


def read_stdin(options: ScanOptions) -> list[RankTables]:
    """The ranks in the text that arrives on standard input."""
    documents = _scan("-", options, "standard input")
    size = documents[-1].end
    fingerprint = hashlib.sha256(str(size).encode()).hexdigest()
    source = kineto.Source("-", "kineto-json", size, size, fingerprint, reader_name())
    return kineto.rank_tables(documents, source)


def _scan(source: Path | str, options: ScanOptions, name: str) -> list[Document]:
    import importlib

    producer = importlib.import_module("specscope_temporary_producer")
    documents: list[Document] = producer.documents(str(source), options)
    _refuse_without_events(documents, name)
    return documents


def _refuse_without_events(documents: Sequence[Document], name: str) -> None:
    if not documents:
        raise sniff.refusal(name, "without any JSON", "give a Kineto trace (*.trace.json.gz)")
    if any(document.events for document in documents):
        return
    keys = list(dict.fromkeys(key for document in documents for key in document.header))
    raise sniff.refuse_keys(name, keys)


__all__ = ["TraceFormatError", "read_file", "read_stdin", "reader_name"]
