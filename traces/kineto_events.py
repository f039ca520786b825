"""A scanned document as columns that the tables can be cut from.

Begin/end events are joined, points are told from spans, texts that stand for numbers become
numbers, and the events of a file that was merged from several ranks know their rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from .events import ABSENT, DUPLICATE_KEY, TEXT_ID_BASE, Document
from .kineto_names import CATEGORIES, POINT_NAMES
from .repairs import join_begin_end

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# What an event becomes, as a small code; the ops stand together, and so do the ranges.
CLASSES: Final = ("", "kernel", "copy", "set", "call", "annotation", "operator", "frame")
CODE: Final = {name: code for code, name in enumerate(CLASSES)}

SPAN, BEGIN, END, INSTANT, META = (ord(letter) for letter in "XBEiM")

# What SGLang's merger puts before every process id: `[TP00] 3000`, `[TP01-DP00] 0`.
_LABEL = re.compile(r"\[([A-Z]{2,4}\d{1,6}(?:-[A-Z]{2,4}\d{1,6})*)\]\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,18}")
_STREAM = re.compile(r"stream (\d{1,18})\s*")


@dataclass(frozen=True)
class Events:
    """Columns of the events of one rank in file order; see `Document` for those named alike."""

    document: Document
    row: Ints  # index into the document's columns
    ph: npt.NDArray[np.uint8]
    cat: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]
    code: npt.NDArray[np.int8]  # index into CLASSES; 0: in no table
    start: Ints
    dur: Ints  # as recorded
    end: Ints
    flags: npt.NDArray[np.uint16]
    pid: Ints  # numbers where the text was one
    tid: Ints
    device: Ints
    stream: Ints
    correlation: Ints
    graph_node: Ints
    bytes: Ints
    offset: Ints
    joined: Bools  # begin events that carry their end now
    alone: Bools  # begin or end events without a partner

    def take(self, index: Ints) -> Events:
        """The events at `index` (ascending)."""
        columns = {
            field.name: getattr(self, field.name)[index]
            for field in fields(self)
            if field.name != "document"
        }
        return replace(self, **columns)

    def rows(self, first: str, last: str) -> Ints:
        """Indices of the events from class `first` to class `last`."""
        return np.flatnonzero((self.code >= CODE[first]) & (self.code <= CODE[last]))


def read_events(document: Document) -> tuple[Events, list[str], npt.NDArray[np.int32]]:
    """The columns of a document, its rank labels, and the label index of each event (-1: none).

    Without any label the last is empty.
    """
    doc = document
    code = _classes(doc)
    pairs = join_begin_end(
        (doc.ph == BEGIN) & (code > 0), doc.ph == END, doc.pid, doc.tid, doc.ts_ns
    )
    end = doc.ts_ns + doc.dur_ns
    end[pairs.begin] = doc.ts_ns[pairs.end]
    joined, alone = np.zeros((2, len(doc.ph)), dtype=np.bool_)
    joined[pairs.begin] = True
    alone[pairs.alone] = True
    code[(doc.ph != SPAN) & ~joined] = 0

    texts = _read_texts(doc.texts)
    pid, tid = _resolve(doc.pid, texts), _resolve(doc.tid, texts)
    events = Events(
        document=doc,
        row=np.arange(len(doc.ph)),
        ph=doc.ph,
        cat=doc.cat,
        name=doc.name,
        code=code,
        start=doc.ts_ns,
        dur=doc.dur_ns,
        end=end,
        flags=doc.flags,
        pid=pid,
        tid=tid,
        device=_devices(doc.device, pid, code),
        stream=_streams(doc, code, texts),
        correlation=doc.correlation,
        graph_node=doc.graph_node,
        bytes=doc.bytes,
        offset=doc.offset,
        joined=joined,
        alone=alone,
    )
    return events, *_labels(doc.pid, texts)


def _classes(doc: Document) -> npt.NDArray[np.int8]:
    """Class of each event by category and name, whatever its phase."""
    # One more entry at the end: index -1 (absent) finds it.
    by_cat = np.array([CODE[CATEGORIES.get(cat, "")] for cat in [*doc.cats, ""]], dtype=np.int8)
    code = by_cat[doc.cat]
    points = np.array([name in POINT_NAMES for name in doc.names] + [False])
    if points.any():
        code[points[doc.name]] = 0
    return code


def is_text(ids: Ints) -> Bools:
    """True where a pid or tid stands for a text."""
    found: Bools = (ids <= TEXT_ID_BASE) & (ids != ABSENT)
    return found


@dataclass(frozen=True)
class _Texts:
    """What each text id means: label index (-1: none), number, stream (ABSENT: none)."""

    labels: list[str]
    label: npt.NDArray[np.int32]
    number: Ints
    stream: Ints


def _read_texts(texts: list[str]) -> _Texts:
    labels: dict[str, int] = {}
    label = np.full(len(texts), -1, dtype=np.int32)
    number = np.full(len(texts), ABSENT, dtype=np.int64)
    stream = np.full(len(texts), ABSENT, dtype=np.int64)
    for index, text in enumerate(texts):
        rest = text
        match = _LABEL.fullmatch(text)
        if match:
            label[index] = labels.setdefault(match.group(1), len(labels))
            rest = match.group(2)
        if _NUMBER.fullmatch(rest):
            number[index] = stream[index] = int(rest)
        match = _STREAM.fullmatch(rest)
        if match:
            stream[index] = int(match.group(1))
    return _Texts(list(labels), label, number, stream)


def _resolve(ids: Ints, texts: _Texts) -> Ints:
    """Ids with numeric texts as numbers: "4001", "[TP00] 3000"."""
    if (texts.number == ABSENT).all():
        return ids
    text = is_text(ids)
    number = texts.number[TEXT_ID_BASE - ids[text]]
    ids = ids.copy()
    ids[text] = np.where(number == ABSENT, ids[text], number)
    return ids


def _labels(pid: Ints, texts: _Texts) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The rank labels that stand before process ids, and which each event has (-1: none)."""
    if not texts.labels:
        return [], np.zeros(0, dtype=np.int32)
    label = np.full(len(pid), -1, dtype=np.int32)
    text = is_text(pid)
    label[text] = texts.label[TEXT_ID_BASE - pid[text]]
    used = np.unique(label[label >= 0])
    place = np.full(len(texts.labels) + 1, -1, dtype=np.int32)  # the last: no label (-1)
    place[used] = np.arange(len(used))
    return [texts.labels[index] for index in used.tolist()], place[label]


def _devices(device: Ints, pid: Ints, code: npt.NDArray[np.int8]) -> Ints:
    """Device of each GPU op: args.device, else the process id of its track, else 0."""
    unknown = (device == ABSENT) & (code > 0) & (code <= CODE["set"])
    if not unknown.any():
        return device
    device = device.copy()
    track = pid[unknown]
    device[unknown] = np.where((track >= 0) & (track < 1 << 31), track, 0)
    return device


def _streams(doc: Document, code: npt.NDArray[np.int8], texts: _Texts) -> Ints:
    """Stream of each GPU op: args.stream, else the thread id of its track, also "stream 7".

    Where a key stood twice in args (tools have appended a second "stream"), the track decides.
    """
    op = (code > 0) & (code <= CODE["set"])
    unsure = op & ((doc.stream == ABSENT) | ((doc.flags & DUPLICATE_KEY) != 0))
    if not unsure.any():
        return doc.stream
    track = np.where(doc.tid >= 0, doc.tid, ABSENT)
    text = is_text(doc.tid)
    track[text] = texts.stream[TEXT_ID_BASE - doc.tid[text]]
    use = unsure & (track != ABSENT)
    stream = doc.stream.copy()
    stream[use] = track[use]
    return stream
