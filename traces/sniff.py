"""Tells from the first bytes whether a file can be a trace, and what it is when it cannot.

Nothing here parses or executes anything: 16 bytes, then the first 64 KiB of text, are held
against a table. A pickle is never opened.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import TraceFormatError

HEAD_BYTES: Final = 1 << 16
GZIP: Final = b"\x1f\x8b"

# Key of the metadata in the schema of a cycle log; the writer in `profiler` has it too.
CYCLE_LOG_MARK: Final = "specscope_cycle_log"
_SQLITE: Final = b"SQLite format 3\x00"
_ARROW_STREAM: Final = b"\xff\xff\xff\xff"

_KINETO = "give the Kineto trace (*.trace.json or *.trace.json.gz) of the same run"
_SQLITE_EXPORT = "export the report with nsys export --type=sqlite"
_EXPORT_FOLDER = "of an Nsight Systems export give the folder that all its tables are in"
_UNPACK = "unpack it first: only gzip and plain text are read"
_SHOW_KEYS: Final = 6


@dataclass(frozen=True)
class Kind:
    """One kind of file that is passed by mistake: how it begins, what it is, what to do."""

    pattern: bytes
    what: str
    mend: str


# First bytes of the file itself.
BINARY: Final = (
    Kind(rb"\x80[\x02-\x05]", "a Python pickle, which is never opened", _KINETO),
    Kind(rb"\x28\xb5\x2f\xfd", "compressed with zstd", _UNPACK),
    Kind(rb"\xfd7zXZ", "compressed with xz", _UNPACK),
    Kind(rb"BZh", "compressed with bzip2", _UNPACK),
    Kind(rb"PK\x03\x04", "a zip archive (also .pt and .pth files are)", _UNPACK),
    Kind(rb"\x04\x22\x4d\x18", "compressed with lz4", _UNPACK),
    Kind(rb"7z\xbc\xaf", "a 7z archive", _UNPACK),
    Kind(rb"(?s).{257}ustar", "a tar archive", _UNPACK),
    Kind(rb"PAR1", "a Parquet file", _EXPORT_FOLDER),
    Kind(rb"\xff\xff\xff\xff", "an Arrow stream that is no cycle log of specscope", _EXPORT_FOLDER),
    Kind(rb"ARROW1", "an Arrow file", _KINETO),
    Kind(
        rb"(?s).{12}.{0,64}brain\.Event",
        "a TensorBoard event file",
        "look for *.pt.trace.json* in the same folder",
    ),
    Kind(rb"\x7fELF|MZ", "a program", _KINETO),
    Kind(rb"%PDF|\x89PNG|\xff\xd8\xff|GIF8", "a document or picture", _KINETO),
    Kind(
        rb"(?s)\n.{0,14}[\x00-\x08\x0e-\x1f\x80-\xff]",
        "a protobuf file (Perfetto or XPlane)",
        _KINETO,
    ),
)

_UTF16: Final = Kind(
    rb"\xff\xfe|\xfe\xff",
    "UTF-16 text, as Windows shells write it",
    "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
)

# First bytes of the text, after a byte order mark and blanks.
TEXT: Final = (
    _UTF16,
    Kind(
        rb"version https://git-lfs",
        "a Git LFS pointer: the content was not downloaded",
        "run `git lfs pull` in its repository",
    ),
    Kind(rb"(?i)<(!doctype|html|\?xml|head|body|svg)", "a web page", "download the file itself"),
    Kind(
        rb'(?s)\{\s*"schema"\s*:\s*"\d[^"]*"',
        "an execution trace (Chakra), which holds operators without a timeline",
        _KINETO,
    ),
    Kind(rb'\{\s*"rocprofiler-sdk-tool"', "a rocprofv3 file", _KINETO),
    Kind(rb'\{\s*"(\$schema|stackFrames|nodes)"', "a profile of another tool", _KINETO),
    Kind(rb'\{\s*"Type"\s*:', "an Nsight Systems JSON export, which has no schema", _SQLITE_EXPORT),
    Kind(rb"\[\s*\[", "a memory timeline, which holds sizes without a timeline of work", _KINETO),
    Kind(rb"-{8,}[\s-]*\n\s*Name\s", "a text table of the profiler", _KINETO),
)

NAMES: Final = (
    (re.compile(r".*\.(nsys-rep|qdrep|qdstrm)"), "an Nsight Systems report", _SQLITE_EXPORT),
    (
        re.compile(r"events\.out\.tfevents\..*"),
        "a TensorBoard event file",
        "look for *.pt.trace.json* in the same folder",
    ),
)


def check(path: Path) -> bool:
    """Raises TraceFormatError, in one line, when the file at `path` cannot be a trace.

    Returns whether it is packed with gzip. Raises OSError when it cannot be read.
    """
    with path.open("rb") as file:
        raw = file.read(HEAD_BYTES)
    check_head(raw, path.name)
    return raw.startswith(GZIP)


def is_database(path: Path) -> bool:
    """Is the file at `path` an SQLite database, as Nsight Systems exports them?"""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def check_head(raw: bytes, name: str) -> None:
    """The same for the first bytes of something called `name`."""
    for pattern, what, mend in NAMES:
        if pattern.fullmatch(name):
            raise refusal(name, what, mend)
    if not raw.strip(b"\0"):
        what = "empty" if not raw else "filled with zero bytes"
        raise refusal(name, what, "its export was killed or the disk was full: record again")
    head = unpacked_head(raw)
    if raw.startswith(GZIP) and head.startswith(GZIP):
        raise refusal(name, "gzip inside gzip", "unpack it once (gunzip)")
    if _is_bare_utf16(head):
        raise refusal(name, _UTF16.what, _UTF16.mend)
    for data in dict.fromkeys((raw, head)):
        _refuse_known(data, BINARY, name)
    if raw.startswith(GZIP) and len(raw) < HEAD_BYTES and not head and _ends(raw):
        raise refusal(name, "gzip of nothing", "its export was killed: record again")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    _refuse_known(text, TEXT, name)
    if not text.startswith((b"{", b"[")) and text:
        begins = printable(text[:24].decode("utf-8", "replace"))
        raise refusal(name, f"not JSON: it begins with '{begins}'", _KINETO)
    after = text[1:].lstrip()
    if text.startswith(b"[") and after and not after.startswith((b"{", b"]")):
        raise refusal(name, "a JSON list without events", _KINETO)


def _is_bare_utf16(head: bytes) -> bool:
    """Does every second byte of the beginning of a JSON text hold nothing?"""
    begin = head[:64]
    return len(begin) > 8 and (
        (not any(begin[1::2]) and all(begin[0::2])) or (not any(begin[0::2]) and all(begin[1::2]))
    )


def is_cycle_log(raw: bytes) -> bool:
    """Are these the first bytes of a cycle log?"""
    return raw.startswith(_ARROW_STREAM) and CYCLE_LOG_MARK.encode() in raw


def refuse_keys(name: str, keys: Iterable[str]) -> TraceFormatError:
    """The refusal of a JSON object that was read and holds no "traceEvents"."""
    known = list(keys)
    shown = ", ".join(f"'{printable(key)}'" for key in known[:_SHOW_KEYS])
    more = f" and {len(known) - _SHOW_KEYS} more" if len(known) > _SHOW_KEYS else ""
    what = f"JSON without traceEvents (its keys: {shown or 'none'}{more})"
    return refusal(name, what, _KINETO)


def refusal(name: str, what: str, mend: str) -> TraceFormatError:
    """One line that names the file, says what it is and what to do."""
    return TraceFormatError(f"{printable(name, 120)} is {what}; {mend}")


def unpacked_head(raw: bytes) -> bytes:
    """The first HEAD_BYTES of the text, when `raw` is gzip; else `raw`."""
    if not raw.startswith(GZIP):
        return raw
    try:
        return zlib.decompressobj(31).decompress(raw, HEAD_BYTES)
    except zlib.error:
        return b""


def _ends(raw: bytes) -> bool:
    """Is the first member of this gzip whole?"""
    member = zlib.decompressobj(31)
    try:
        member.decompress(raw)
    except zlib.error:
        return False
    return member.eof


def printable(text: str, limit: int = 40) -> str:
    """Text from outside, safe to print: no control characters, of bounded length."""
    shown = text if len(text) <= limit else f"{text[:limit]}..."
    return "".join(char if char.isprintable() else "\ufffd" for char in shown)


def path_text(path: Path) -> str:
    """The path as text for tables and reports; bytes that are not UTF-8 as escapes."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def _refuse_known(data: bytes, kinds: Iterable[Kind], name: str) -> None:
    for kind in kinds:
        if re.match(kind.pattern, data):
            raise refusal(name, kind.what, kind.mend)
