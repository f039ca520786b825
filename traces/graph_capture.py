"""Traces that were recorded while graphs were captured, for the inside of their replays.

Nothing runs on the GPU then. What counts are the host's launch calls, with the modules and
operators around them, and on ROCm the name of the kernel that each call will run. A trace of
this kind is no rank of a run; `analyzers.captured_graphs` cuts its graphs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import sniff
from .errors import TraceFormatError, UsageError
from .events import Document, ScanOptions
from .file_names import read_name
from .folder import children, why_not_trace
from .header import read_header
from .kineto_events import Events, read_events
from .kineto_losses import Losses, once, with_time
from .kineto_names import CAPTURE_BEGIN, MODULE_PREFIX
from .kineto_tables import call_table, range_table
from .load import DEFAULT_MAX_TEXT_BYTES, Progress, available_cores, check_exists, unreadable
from .read import STDIN, documents_of
from .schema import NAME
from .sniff import printable
from .text import Text, open_text

Ints = npt.NDArray[np.int64]

# Bytes of an event that are looked at for its arguments, smallest first.
_EVENT_BYTES: Final = (4 << 10, 64 << 10, 1 << 20)
_MEND: Final = (
    "give what SGLang writes with --enable-profile-cuda-graph or vLLM with capture_torch_profiler"
)
_BEGIN = re.compile(CAPTURE_BEGIN)
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class CaptureTrace:
    """What one file recorded while graphs were captured.

    `calls` has the columns of `schema.CALLS` and `kernel` (null where it is not recorded);
    `ranges` (`schema.RANGES`) holds modules, operators and annotations. `rank` is the recorded
    one, else that of the file's name, else None. `losses` is as of a run.
    """

    path: str
    rank: int | None
    calls: pa.Table
    ranges: pa.Table
    losses: pa.Table


def load_capture_traces(
    paths: str | Path | Sequence[str | Path],
    *,
    max_text_bytes: int = DEFAULT_MAX_TEXT_BYTES,
    on_progress: Progress | None = None,
) -> tuple[CaptureTrace, ...]:
    """Reads graph-capture traces: files, or folders with them.

    Of a folder those are read that a server names so, in it and in the folders right below;
    where no name says it, every trace in it that holds a capture. Raises UsageError for paths
    that cannot be read and TraceFormatError for files without a capture; both in one line.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [(file, sure) for path in given for file, sure in _files(Path(path))]
    options = ScanOptions(
        frame_needles=(MODULE_PREFIX.encode(),),
        max_text_bytes=max_text_bytes,
        threads=available_cores(),
    )
    found: list[CaptureTrace] = []
    for number, (file, sure) in enumerate(files):
        traces = _read(file, options)
        if not traces and sure:
            raise TraceFormatError(f"{printable(file.name, 120)} holds no graph capture; {_MEND}")
        found += traces
        if on_progress is not None:
            on_progress(file.name, (number + 1) / len(files))
    if not found:
        where = ", ".join(printable(str(path), 200) for path in given)
        raise TraceFormatError(f"no trace in {where} holds a graph capture; {_MEND}")
    return tuple(found)


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The files of one path, and whether each is said to be a capture trace."""
    if str(path) == STDIN:
        raise UsageError("--capture-trace cannot be read from standard input; give a file")
    check_exists(path)
    if not path.is_dir():
        return [(path, True)]
    files = children(path, folders=False)
    for child in children(path, folders=True):
        files += children(child, folders=False)
    named = [file for file in files if read_name(file.name).role == "graph_capture"]
    if named:
        return [(file, True) for file in dict.fromkeys(named)]
    here = [file for file in files if file.parent == path and not why_not_trace(file)]
    if not here:
        title = printable(str(path), 200)
        raise TraceFormatError(f"{title} holds no trace of a graph capture; {_MEND}")
    return [(file, False) for file in here]


def _read(path: Path, options: ScanOptions) -> list[CaptureTrace]:
    """One trace for each document of the file that holds a capture."""
    try:
        sniff.check(path)
        documents = documents_of(path, options, path.name)
        return [
            trace for document in documents if (trace := _one(path, document, options)) is not None
        ]
    except OSError as error:
        raise unreadable(path, error) from error
    except (MemoryError, RecursionError) as error:
        title = printable(path.name, 120)
        raise TraceFormatError(
            f"{title} needs more memory than there is ({type(error).__name__})"
        ) from error


def _one(path: Path, document: Document, options: ScanOptions) -> CaptureTrace | None:
    if not any(_BEGIN.match(name) for name in document.names):
        return None
    events, labels, _ = read_events(document)
    if labels:
        title = printable(path.name, 120)
        raise TraceFormatError(
            f"{title} was merged from several ranks; give the files of the ranks"
        )
    losses = Losses(str(path))
    losses.add_scan(document)
    rows = once(events, with_time(events, events.rows("call", "call"), losses), losses)
    ranges = with_time(events, events.rows("annotation", "frame"), losses)
    calls = call_table(events, rows)
    kernel = _kernels(path, events, rows, calls, options.max_text_bytes)
    rank = read_header(document.header).rank
    return CaptureTrace(
        path=str(path),
        rank=read_name(path.name).rank if rank is None else rank,
        calls=calls.append_column(pa.field("kernel", NAME), kernel),
        ranges=range_table(events, ranges),
        losses=losses.table(),
    )


def _kernels(path: Path, events: Events, rows: Ints, calls: pa.Table, limit: int) -> pa.Array:
    """Per call the kernel that its arguments name. The scanner keeps no such text, so the
    launch calls are read a second time, from the places where it found them."""
    kinds = calls["kind"].combine_chunks()
    launch = kinds.dictionary.to_pylist().index("launch")
    chosen = np.flatnonzero(np.asarray(kinds.indices) == launch)
    order = chosen[np.argsort(events.offset[rows[chosen]], kind="stable")]
    found: list[str | None] = [None] * len(rows)
    text = open_text(path, limit)
    try:
        for row in order.tolist():
            found[row] = _kernel_at(text, int(events.offset[rows[row]]))
    finally:
        text.close()
    return pa.array(found, pa.string()).dictionary_encode()


def _kernel_at(text: Text, offset: int) -> str | None:
    """`args.kernel` of the event at that place; None without one, or where it is damaged."""
    text.release(offset)
    for size in _EVENT_BYTES:
        window = text.window(offset, size)
        at = offset - window.base
        piece = bytes(window.buf[at : at + size])
        try:
            event, _ = _DECODER.raw_decode(piece.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        args = event.get("args") if isinstance(event, dict) else None
        kernel = args.get("kernel") if isinstance(args, dict) else None
        return kernel if isinstance(kernel, str) and kernel else None
    return None
