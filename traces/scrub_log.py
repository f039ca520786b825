"""Copies of what specscope's hooks and captures write, without secrets: cycle logs, and the JSON
documents beside logs and traces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from .errors import TraceFormatError
from .file_names import read_name
from .scrub_json import Number, dumps
from .scrub_words import Scrubber
from .sniff import printable, refusal

MAX_BYTES: Final = 64 << 20
_DOCUMENT: Final = re.compile(r"(run|meta|sweep)\.json|(attach|server-args)-.*\.json", re.DOTALL)


def is_document(path: Path) -> bool:
    """Is it, by its name, a document that specscope reads beside traces and logs?"""
    return _DOCUMENT.fullmatch(path.name) is not None


def load_document(path: Path) -> Any:
    """What stands in it. Raises TraceFormatError, in one line, and OSError."""
    if path.stat().st_size > MAX_BYTES:
        raise refusal(path.name, f"larger than {MAX_BYTES >> 20} MiB", "leave it out")
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        return json.loads(text, parse_float=Number)
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(
            f"{printable(path.name, 120)} is not JSON, or cut off; write it again"
        ) from error


def write_document(path: Path, out: Path, scrubber: Scrubber) -> None:
    """Write the copy of a document."""
    out.write_bytes(dumps(scrubber.values(load_document(path))) + b"\n")


def write_log(path: Path, out: Path, scrubber: Scrubber) -> None:
    """Write the copy of one piece of a cycle log, up to its last whole batch.

    Raises TraceFormatError, in one line, for one without any, and OSError.
    """
    with path.open("rb") as plain, pa.PythonFile(plain, "r") as file, out.open("wb") as target:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            what = "a cycle log that ends before its first row"
            raise refusal(path.name, what, "leave it out") from error
        schema = _schema(reader.schema, scrubber)
        with pa.PythonFile(target, "w") as sink, pa.ipc.new_stream(sink, schema) as writer:
            while True:
                try:
                    batch = reader.read_next_batch()
                    batch.validate(full=True)
                except StopIteration:
                    return
                except (pa.ArrowException, OSError, ValueError):
                    scrubber.counts["stretches left out"] += 1
                    return
                columns = [_masked(column, scrubber) for column in batch.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _schema(found: pa.Schema, scrubber: Scrubber) -> pa.Schema:
    metadata = {
        scrubber.range_name(key.decode("utf-8", "replace")): scrubber.variable(
            key.decode("utf-8", "replace"), value.decode("utf-8", "replace")
        )
        for key, value in (found.metadata or {}).items()
    }
    fields = [field.with_metadata(None) for field in found]
    return pa.schema(fields, metadata=metadata)


def _masked(column: pa.Array, scrubber: Scrubber) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # From the rows, for a dictionary may hold words that none of them uses.
        words = [
            None if word is None else scrubber.text(word)
            for word in column.cast(kind.value_type).to_pylist()
        ]
        return pa.array(words, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_string(kind):
        return pa.array(
            [None if value is None else scrubber.text(value) for value in column.to_pylist()], kind
        )
    return column


def learn_name(path: Path, scrubber: Scrubber) -> None:
    """The host in a name as torch's handler gives it: `HOST_PID.TIME.pt.trace.json`."""
    name = read_name(path.name)
    match = re.fullmatch(r"(.+)_\d{1,7}", name.worker or "", re.DOTALL)
    if name.stamp_ns is not None and match and name.rank is None and not name.parallel:
        scrubber.learn_host(match[1])
