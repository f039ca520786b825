"""Are the documents of two readers the same, and do they account for every byte?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from specscope.traces.events import Document


def differences(one: Sequence[Document], other: Sequence[Document]) -> list[str]:
    """In words, empty when the documents are equal in every column and fact."""
    if len(one) != len(other):
        return [f"{len(one)} and {len(other)} documents"]
    out = []
    for i, (left, right) in enumerate(zip(one, other, strict=True)):
        for field in dataclasses.fields(Document):
            a, b = getattr(left, field.name), getattr(right, field.name)
            if isinstance(a, np.ndarray):
                same = a.dtype == b.dtype and np.array_equal(a, b)
            else:
                same = a == b
            if not same:
                out.append(f"document {i}, {field.name}: {a!r} and {b!r}")
    return out


def unaccounted(documents: Sequence[Document], size: int) -> list[str]:
    """In words, what is wrong with the sums of bytes; `size` is that of the text."""
    out = []
    place = 0
    for i, document in enumerate(documents):
        sums = (document.event_bytes, document.structure_bytes, document.skipped_bytes)
        if document.start != place:
            out.append(f"document {i} starts at {document.start}, not {place}")
        if sum(sums) != document.end - document.start or min(sums) < 0:
            out.append(f"document {i}: {sums} is not {document.end - document.start}")
        place = document.end
        out += [f"document {i}: {word}" for word in _misplaced(document)]
    if documents and place != size:
        out.append(f"the last document ends at {place}, the text at {size}")
    return out


def _misplaced(document: Document) -> list[str]:
    """Losses that overlap each other or hold the start of a kept event."""
    out = []
    rows = sorted((row.offset, row.length) for row in document.losses if row.length)
    for (offset, length), (following, _) in pairwise(rows):
        if offset + length > following:
            out.append(f"losses overlap at {following}")
    if (np.diff(document.offset) <= 0).any():
        out.append("offsets do not rise")
    for row in document.losses:
        if row.reason in KEPT:
            continue
        inside = (document.offset >= row.offset) & (document.offset < row.offset + row.length)
        if inside.any():
            out.append(f"an event in the loss at {row.offset}")
    skipped = sum(row.length for row in document.losses if row.reason not in KEPT)
    if skipped != document.skipped_bytes:
        out.append(f"losses hold {skipped} bytes, {document.skipped_bytes} were skipped")
    return out


# Losses of text that is in an event or header value all the same.
KEPT = ("repaired", "repaired_header", "odd_separator")
