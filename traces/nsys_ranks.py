"""Which processes of an export are ranks, and which rank each one is.

A rank is a process that put work on a GPU, or called for it, or writes the same ranges as one that
did. Its number comes from the best of: specscope's own ranges, MPI, the names of the processes,
the GPUs they use. What told it is kept; without any the order of the processes must do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from . import nsys_names as names
from .kineto_names import PROCESS_MARKS, call_kind
from .nsys_rows import Calls, Named, Ranges, Work, process_of
from .nsys_store import Ints, Store

# Of specscope's own ranges: `specscope:verify|c=1|r=0|n=2`; bare in a domain of that name.
_OWN_RANK: Final = re.compile(r"(?:specscope:)?[a-z_]+(?:\|[a-z]+=-?\d+)*?\|r=(\d{1,6})(?:\||$)")
# So much of the distinct range names of a rank another process has, to be one as well.
_ALIKE: Final = 0.5


@dataclass(frozen=True)
class Ranks:
    """Processes of the ranks that have rows of their GPU, in order; and of those that do not.

    `numbers` is None for a lone process that nothing gives a number. `by` is what told them:
    ranges, mpi, process names, devices, order, or one.
    """

    processes: tuple[int, ...]
    numbers: tuple[int | None, ...]
    by: str
    bare: tuple[int, ...]


def find(
    work: Work, calls: Calls, ranges: Ranges, titles: Mapping[int, str], store: Store
) -> Ranks:
    """The ranks of an export. `titles` are the names of its processes."""
    on_gpu = _distinct(work.process)
    if not on_gpu:  # a run on the CPU, or the rows of the GPU are missing
        on_gpu = _distinct(calls.process) or _distinct(ranges.process)
    if not on_gpu:
        return Ranks((0,), (None,), "one", ())
    alike = {*_alike(on_gpu, ranges), *_launching(calls), *_named_alike(on_gpu, titles)}
    bare = sorted(alike - {*on_gpu})
    if len(on_gpu) == 1 and not bare:
        found = _by_ranges(ranges).get(on_gpu[0])
        number = found if found is not None else _in_title(titles.get(on_gpu[0], ""))
        return Ranks((on_gpu[0],), (number,), "one", ())
    everyone = [*on_gpu, *bare]
    ways: tuple[tuple[str, Callable[[], dict[int, int]]], ...] = (
        ("ranges", lambda: _by_ranges(ranges)),
        ("mpi", lambda: _by_mpi(store)),
        ("process names", lambda: _by_titles(titles)),
        ("devices", lambda: _by_devices(work)),
    )
    for by, way in ways:
        known = way()
        # Processes without work have no device: the others decide then.
        asked = everyone if by != "devices" else on_gpu
        given = [known[process] for process in asked if process in known]
        if len(given) == len(asked) and len(set(given)) == len(given):
            order = sorted(on_gpu, key=known.__getitem__)
            return Ranks(tuple(order), tuple(known[one] for one in order), by, tuple(bare))
    return Ranks(tuple(on_gpu), tuple(range(len(on_gpu))), "order", tuple(bare))


def _distinct(process: Ints) -> list[int]:
    found: list[int] = np.unique(process).tolist()
    return found


def _alike(on_gpu: Sequence[int], ranges: Ranges) -> list[int]:
    """Processes without work that write the ranges of those with it."""
    texts = {one: _texts(ranges, one) for one in _distinct(ranges.process)}
    known = [texts[one] for one in on_gpu if texts.get(one)]
    return [
        one
        for one, own in texts.items()
        if one not in on_gpu and own and any(len(own & of) >= _ALIKE * len(of) for of in known)
    ]


def _named_alike(on_gpu: Sequence[int], titles: Mapping[int, str]) -> list[int]:
    """Workers of an engine by their name, which is that of a rank; numbers in it aside."""
    ranks = {_numberless(titles.get(process, "")) for process in on_gpu}
    ranks = {title for title in ranks if any(mark in title for mark, _ in PROCESS_MARKS)}
    return [process for process, title in titles.items() if _numberless(title) in ranks]


def _numberless(title: str) -> str:
    return re.sub(r"\d+", "", title)


def _launching(calls: Calls) -> list[int]:
    """Processes that launch work."""
    kinds = [call_kind(text) in ("launch", "graph_launch") for text in calls.name.texts]
    return _distinct(calls.process[np.array([*kinds, False])[calls.name.codes]])


def _texts(ranges: Ranges, process: int) -> set[str]:
    """Names of a process's ranges, without the numbers in them."""
    codes = np.unique(ranges.name.codes[ranges.process == process]).tolist()
    return {re.sub(r"\d+", "", ranges.name.texts[code])[:80] for code in codes if code >= 0}


def _by_ranges(ranges: Ranges) -> dict[int, int]:
    """The rank that specscope's ranges name most in each process."""
    said = [_OWN_RANK.match(text) for text in ranges.name.texts]
    number = np.array([int(match[1]) if match else -1 for match in said] + [-1])
    of_row = number[ranges.name.codes]
    counts: dict[int, Counter[int]] = {}
    rows = np.flatnonzero(of_row >= 0)
    pairs = zip(ranges.process[rows].tolist(), of_row[rows].tolist(), strict=True)
    for process, rank in pairs:
        counts.setdefault(process, Counter())[rank] += 1
    return {process: count.most_common(1)[0][0] for process, count in counts.items()}


def _by_mpi(store: Store) -> dict[int, int]:
    found = store.read("MPI_RANKS", ("globalTid", "rank"))
    process = process_of(found["globalTid"])
    return dict(zip(process.tolist(), found["rank"].tolist(), strict=True))


def _by_titles(titles: Mapping[int, str]) -> dict[int, int]:
    found = {process: _in_title(title) for process, title in titles.items()}
    return {process: number for process, number in found.items() if number is not None}


def _in_title(title: str) -> int | None:
    match = names.RANK_IN_PROCESS.search(title)
    return int(match[1]) if match else None


def _by_devices(work: Work) -> dict[int, int]:
    """The device that a process ran its kernels on, when it is one."""
    kernels = work.kind == 0
    found = {}
    for process in _distinct(work.process):
        devices = np.unique(work.device[kernels & (work.process == process)])
        if len(devices) == 1:
            found[process] = int(devices[0])
    return found


def process_titles(store: Store) -> dict[int, str]:
    """Names of the processes that the recording saw."""
    found = store.read("PROCESSES", ("globalPid",), ("name",))
    named = Named(*found.texts["name"])
    pairs = zip(process_of(found["globalPid"]).tolist(), named.codes.tolist(), strict=True)
    return {process: named.texts[code] for process, code in pairs if code >= 0}
