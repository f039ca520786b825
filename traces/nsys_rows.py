"""The rows of an export as flat arrays over all processes: GPU work, calls, NVTX.

Rows stand in file order, GPU work table by table (kernels, copies, sets, graph spans). A process
is the upper part of its global id: host, virtual machine and pid, so that equal pids of two
machines stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import masking
from . import nsys_names as names
from .events import ABSENT
from .kineto_names import OP_KINDS
from .nsys_store import Codes, Columns, Ints, Store
from .nsys_strings import NAME_LENGTH, Strings

Bools = npt.NDArray[np.bool_]

FORMS = ("push_pop", "start_end", "open")
# Times beyond this are none: ns since 1970 until the year 2096, or since the session began.
MOST_NS = 4 * 10**18
LONGEST_NS = 86_400 * 10**9
LONGEST_OP_NS = 60 * 10**9  # a kernel, a copy or a replay
PUSH_POP, START_END, OPEN = range(len(FORMS))


@dataclass(frozen=True)
class Named:
    """Codes into a list of distinct texts; -1 where there is none."""

    codes: Codes
    texts: list[str]

    def take(self, rows: Ints | Bools) -> Named:
        """The codes of these rows; the list stays."""
        return Named(self.codes[rows], self.texts)


@dataclass(frozen=True)
class Work:
    """GPU work. `kind` is an index into OP_KINDS; other numbers are ABSENT where not recorded."""

    process: Ints
    kind: Codes
    name: Named
    device: Ints
    stream: Ints
    start: Ints
    end: Ints
    correlation: Ints
    graph_node: Ints
    bytes: Ints


@dataclass(frozen=True)
class Calls:
    """Runtime and driver calls. `thread` is the global id of the calling thread."""

    process: Ints
    thread: Ints
    name: Named
    start: Ints
    end: Ints
    correlation: Ints


@dataclass(frozen=True)
class Ranges:
    """NVTX ranges; `end` is ABSENT where the file has none (`form` OPEN)."""

    process: Ints
    thread: Ints
    end_thread: Ints
    name: Named
    is_operator: Bools
    domain: Named
    start: Ints
    end: Ints
    form: Codes
    category: Ints
    payload_int: Ints
    payload_float: npt.NDArray[np.float64]
    payload_text: Named


@dataclass(frozen=True)
class Marks:
    """NVTX marks: points in time."""

    process: Ints
    thread: Ints
    name: Named
    domain: Named
    time: Ints


AnyRows = TypeVar("AnyRows", Work, Calls, Ranges, Marks)


def take(table: AnyRows, rows: Ints | Bools) -> AnyRows:
    """The same with these rows only."""
    columns: dict[str, Any] = {f.name: getattr(table, f.name) for f in fields(table)}
    taken: dict[str, Any] = {
        name: column.take(rows) if isinstance(column, Named) else column[rows]
        for name, column in columns.items()
    }
    return type(table)(**taken)


def plausible(start: Ints, end: Ints, longest: int = LONGEST_NS) -> Bools:
    """Can a row have these times? A call or a range of over a day is no measurement."""
    known = (start != ABSENT) & (end != ABSENT)
    far = (np.abs(start) > MOST_NS) | (np.abs(end) > MOST_NS)
    length = np.where(far, 0, end) - np.where(far, 0, start)
    sound: Bools = known & ~far & (length >= 0) & (length <= longest)
    return sound


def process_of(global_id: Ints) -> Ints:
    """Host, virtual machine and pid of a global id; ABSENT stays."""
    return np.where(global_id == ABSENT, ABSENT, global_id >> 24)


def pid_of(process: int) -> int:
    """The process id that the system knows."""
    return process & 0xFFFFFF


def read_work(store: Store, strings: Strings) -> Work:
    """All GPU work of the file."""
    pieces = [
        _work(store.read(names.KERNELS, (*names.WORK, *names.OF_KERNELS)), 0, _kernels(strings)),
        _work(store.read(names.COPIES, (*names.WORK, *names.OF_COPIES)), 1, _copies),
        _work(store.read(names.SETS, (*names.WORK, *names.OF_SETS)), 2, _sets),
        _work(store.read(names.GRAPH_SPANS, (*names.WORK, *names.OF_GRAPH_SPANS)), 3, _spans),
    ]
    name = _joined([piece.name for piece in pieces])
    columns = {
        f.name: np.concatenate([getattr(piece, f.name) for piece in pieces])
        for f in fields(Work)
        if f.name != "name"
    }
    return Work(name=name, **columns)


def read_calls(store: Store, strings: Strings) -> Calls:
    """All runtime and driver calls of the file, without the version behind their names."""
    found = store.read(names.CALLS, names.OF_CALLS)
    name = _renamed(Named(*strings.coded(found["nameId"])), lambda t: names.API_VERSION.sub("", t))
    return Calls(
        process_of(found["globalTid"]),
        found["globalTid"],
        name,
        found["start"],
        found["end"],
        found["correlationId"],
    )


def read_ranges(store: Store, strings: Strings) -> tuple[Ranges, Marks, dict[str, int]]:
    """All NVTX ranges and marks, and how many rows are neither, by type."""
    found = store.read(
        names.RANGES, names.OF_RANGES, ("text",), names.FLOAT_PAYLOADS, names.OPERATORS
    )
    found.texts |= store.read(names.RANGES, (), ("jsonText",)).texts
    kind = found["eventType"]
    for imported, meant in names.IMPORTED.items():
        kind[kind == imported] = meant
    text = _texts(found, strings, "text", "textId")
    domain = _domains(found, text, kind)
    is_range = (kind == names.PUSH_POP) | (kind == names.START_END)
    rest = {
        f"NVTX_EVENTS type {value}": int(np.count_nonzero(kind == value))
        for value in np.unique(kind[~is_range & (kind != names.MARK)]).tolist()
    }
    ranges, marks = np.flatnonzero(is_range), np.flatnonzero(kind == names.MARK)
    return _ranges(found, ranges, text, domain, strings), _marks(found, marks, text, domain), rest


def _ranges(found: Columns, rows: Ints, text: Named, domain: Named, strings: Strings) -> Ranges:
    text = text.take(rows)
    operators = [one.endswith(names.OPERATOR) for one in text.texts]
    is_operator = np.array([*operators, False])[text.codes]
    plain = _renamed(text, lambda one: one.removesuffix(names.OPERATOR))
    form = np.where(found["eventType"][rows] == names.PUSH_POP, PUSH_POP, START_END)
    form[found["end"][rows] == ABSENT] = OPEN
    payload = np.full(len(rows), ABSENT, np.int64)
    for column in names.INTEGER_PAYLOADS:
        payload = np.where(payload == ABSENT, found[column][rows], payload)
    real = np.full(len(rows), np.nan)
    for column in names.FLOAT_PAYLOADS:
        real = np.where(np.isnan(real), found.floats[column][rows], real)
    thread = found["globalTid"][rows]
    ended = found["endGlobalTid"][rows]
    return Ranges(
        process=process_of(thread),
        thread=thread,
        end_thread=np.where(ended == thread, ABSENT, ended),
        name=plain,
        is_operator=is_operator,
        domain=domain.take(rows),
        start=found["start"][rows],
        end=found["end"][rows],
        form=form.astype(np.int32),
        category=np.where(found["category"][rows] == 0, ABSENT, found["category"][rows]),
        payload_int=payload,
        payload_float=real,
        payload_text=_renamed(
            _texts(found, strings, "jsonText", "jsonTextId").take(rows), masking.text
        ),
    )


def _marks(found: Columns, rows: Ints, text: Named, domain: Named) -> Marks:
    thread = found["globalTid"][rows]
    return Marks(
        process_of(thread), thread, text.take(rows), domain.take(rows), found["start"][rows]
    )


def _texts(found: Columns, strings: Strings, plain: str, by_id: str) -> Named:
    """The text itself where there is one, else the registered one."""
    direct = Named(*found.texts[plain])
    registered = Named(*strings.coded(found[by_id]))
    both = _joined([direct, registered])
    rows = found.rows
    own, other = both.codes[:rows], both.codes[rows:]
    return _renamed(
        Named(np.where(own >= 0, own, other), both.texts),
        lambda t: names.OPERATORS(t)[:NAME_LENGTH],
    )


def _domains(found: Columns, text: Named, kind: Ints) -> Named:
    """Name of each row's domain, by the row that made it in the same process.

    A file that was cut may lose those rows: NCCL's domain is told by the names in it then.
    """
    process, number = process_of(found["globalTid"]), found["domainId"]
    made = np.flatnonzero(kind == names.DOMAIN)
    known = {
        (int(process[row]), int(number[row])): text.texts[text.codes[row]]
        for row in made.tolist()
        if text.codes[row] >= 0
    }
    codes = np.full(found.rows, -1, np.int32)
    place: dict[str, int] = {}
    inside = np.flatnonzero((number != 0) & (number != ABSENT))
    order = inside[np.lexsort((number[inside], process[inside]))]
    # Rows of one domain of one process stand together.
    new = np.ones(len(order), np.bool_)
    new[1:] = np.diff(process[order]) != 0
    new[1:] |= np.diff(number[order]) != 0
    for rows in np.split(order, np.flatnonzero(new)[1:]):
        if not len(rows):
            continue
        key = int(process[rows[0]]), int(number[rows[0]])
        title = known.get(key) or _guessed(text, rows)
        if title:
            codes[rows] = place.setdefault(title, len(place))
    return Named(codes, list(place))


def _guessed(text: Named, rows: Ints) -> str | None:
    used = {text.texts[code] for code in np.unique(text.codes[rows]).tolist() if code >= 0}
    return names.NCCL if used and all(map(names.NCCL_RANGE.fullmatch, used)) else None


def _work(found: Columns, kind: int, name_of: Callable[[Columns], Named]) -> Work:
    rows = found.rows
    context = found["contextId"]
    stream = np.where(found["streamId"] == ABSENT, 0, found["streamId"])
    node = found["graphNodeId"].copy()
    node[node == 0] = ABSENT
    if OP_KINDS[kind] == "graph":  # a span stands for every node of its graph
        graph = found["graphId"]
        node = np.where(graph == ABSENT, ABSENT, graph << 32)
    return Work(
        process=process_of(found["globalPid"]),
        kind=np.full(rows, kind, np.int32),
        name=name_of(found),
        device=np.where(found["deviceId"] == ABSENT, 0, found["deviceId"]),
        # A stream's number counts within its context.
        stream=stream + (np.where(context > 1, context, 0) << 32 if _contexts(context) else 0),
        start=found["start"],
        end=found["end"],
        correlation=found["correlationId"],
        graph_node=node,
        bytes=found.ints.get("bytes", np.full(rows, ABSENT, np.int64)),
    )


def _contexts(context: Ints) -> bool:
    """More than one context?"""
    known = context[context != ABSENT]
    return len(known) > 0 and int(known.min()) != int(known.max())


def _kernels(strings: Strings) -> Callable[[Columns], Named]:
    """The demangled name, else the short one, else the mangled one."""

    def name_of(found: Columns) -> Named:
        ids = found[names.OF_KERNELS[0]]
        for column in names.OF_KERNELS[1:]:
            ids = np.where(ids == ABSENT, found[column], ids)
        return Named(*strings.coded(ids))

    return name_of


def _copies(found: Columns) -> Named:
    kind, source, target = (found[name] for name in names.OF_COPIES[1:])
    # Kinds are small numbers; what is not known stands behind them.
    cells = [np.where((part < 0) | (part > 62), 63, part) for part in (kind, source, target)]
    keys, codes = np.unique((cells[0] << 12) | (cells[1] << 6) | cells[2], return_inverse=True)
    texts = [names.copy_name(key >> 12, (key >> 6) & 63, key & 63) for key in keys.tolist()]
    return _renamed(Named(codes.astype(np.int32), texts), str)


def _sets(found: Columns) -> Named:
    keys, codes = np.unique(found["memKind"], return_inverse=True)
    return _renamed(Named(codes.astype(np.int32), list(map(names.set_name, keys.tolist()))), str)


def _spans(found: Columns) -> Named:
    graph = np.where(found["graphId"] == ABSENT, found["graphExecId"], found["graphId"])
    keys, codes = np.unique(graph, return_inverse=True)
    texts = ["CUDA graph" if key == ABSENT else f"CUDA graph {key}" for key in keys.tolist()]
    return Named(codes.astype(np.int32), texts)


def _renamed(named: Named, change: Callable[[str], str]) -> Named:
    """The same texts after `change`, those that became equal under one code."""
    place: dict[str, int] = {}
    lut = np.array(
        [place.setdefault(change(text), len(place)) for text in named.texts] + [-1], np.int32
    )
    return Named(lut[named.codes], list(place))


def _joined(parts: Sequence[Named]) -> Named:
    """The codes one after another, into one list of texts."""
    place: dict[str, int] = {}
    codes = []
    for part in parts:
        lut = np.array([place.setdefault(text, len(place)) for text in part.texts] + [-1], np.int32)
        codes.append(lut[part.codes])
    return Named(np.concatenate(codes) if codes else np.empty(0, np.int32), list(place))
