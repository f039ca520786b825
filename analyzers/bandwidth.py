"""Algorithm and bus bandwidth of matched collectives, by the definitions of nccl-tests.

algbw = S / t and busbw = algbw x factor, with t the transfer (without waiting) and n the ranks of
the group; GB/s are 10^9 bytes a second, which is bytes a nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collective_times import Times
from specscope.analyzers.columns import ABSENT, Bool, Int
from specscope.analyzers.message_sizes import BYTES_SOURCES, UNKNOWN_SIZE, Sizes

Float = npt.NDArray[np.float64]

MOST_BYTES: Final = 1 << 50
_INCOMPLETE: Final = (
    "no bandwidth: not all ranks of the group were read, so nobody knows when the last one arrived"
)


@dataclass(frozen=True)
class Definition:
    """S as a multiple of the bytes that go in on one rank, and the factor of the bus bandwidth.

    No factor: the kernel does more than communicate, so its time is none of a bandwidth.
    """

    size: Callable[[int], int]
    factor: Callable[[int], float] | None


def _once(n: int) -> int:
    return 1


def _others(n: int) -> float:
    return (n - 1) / n


def _there_and_back(n: int) -> float:
    return 2 * (n - 1) / n


def _all(n: int) -> int:
    return n


# By the last word of the kernel's family.
DEFINITIONS: Final = {
    "allreduce": Definition(_once, _there_and_back),
    "allreduce_norm": Definition(_once, None),
    "allgather": Definition(_all, _others),
    "reducescatter": Definition(_once, _others),
    "alltoall": Definition(_once, _others),
    "dispatch": Definition(_once, _others),
    "combine": Definition(_once, _others),
    "broadcast": Definition(_once, _once),
    "reduce": Definition(_once, _once),
    "sendrecv": Definition(_once, _once),
}


@dataclass(frozen=True)
class Rates:
    """By [rank, collective], in bytes a nanosecond; NaN where not known.

    `message` is S of each collective; ABSENT where not known. `group_size` is as given.
    """

    group_size: int | None
    message: Int
    algbw: Float
    busbw: Float


@dataclass(frozen=True)
class SizeRow:
    """The collectives of one library, kind and size class: medians over collectives and ranks.

    A class holds the sizes S from a power of two up to the next.
    """

    library: str  # nccl, custom, ep
    kind: str  # allreduce, allgather, ...
    low_bytes: int  # the least S in it, and the greatest
    high_bytes: int
    sources: tuple[str, ...]
    count: int  # collectives; each was on all ranks
    transfer_ns: float
    algbw: float | None
    busbw: float | None


@dataclass(frozen=True)
class Floor:
    """The latency floor: the least transfer in the smallest size class of a library's kind."""

    library: str
    kind: str
    low_bytes: int
    high_bytes: int
    ns: int


@dataclass(frozen=True)
class Bandwidth:
    """The size-latency table of a group; empty where no size is known."""

    rows: tuple[SizeRow, ...] = ()
    floors: tuple[Floor, ...] = ()
    unknown: int = 0  # counted collectives without a size
    assumption: str = ""
    refused: str = ""  # why sizes are known and bandwidths are not


def definition_of(kind: str) -> Definition | None:
    """The definition for a kernel's family, such as nccl.allreduce; None where there is none."""
    return DEFINITIONS.get(kind.rpartition(".")[2])


def rates(matched: Matched, times: Times, sizes: Sizes, group_size: int | None) -> Rates:
    """Bandwidths of every rank's part of every collective.

    `group_size` None: some ranks of the group were not read. Then nobody knows when the last one
    arrived, so there is no transfer to divide by.
    """
    message = np.full(len(matched), ABSENT, np.int64)
    factor = np.full(len(matched), np.nan)
    kinds = np.array(matched.kind, dtype=object)
    for kind in set(matched.kind) if group_size is not None else ():
        found = definition_of(kind)
        if found is None:
            continue
        assert group_size is not None
        times_in = found.size(group_size)
        # A size that no memory holds, or none at all, is not meant.
        sized = (sizes.bytes > 0) & (sizes.bytes <= MOST_BYTES // times_in)
        mine = (kinds == kind) & sized
        message[mine] = sizes.bytes[mine] * times_in
        if found.factor is not None:
            factor[mine] = found.factor(group_size)
    transfer = times.transfer
    # A transfer of nothing is within the clocks' error: no rate.
    usable = (message != ABSENT) & ~np.isnan(factor) & (transfer > 0)
    algbw = np.where(usable, message / np.where(transfer > 0, transfer, 1), np.nan)
    return Rates(group_size, message, algbw, algbw * factor)


def table(
    matched: Matched, times: Times, sizes: Sizes, found: Rates, cycles: Sequence[int]
) -> Bandwidth:
    """The size-latency table over the counted cycles; over all collectives without any."""
    counted = np.ones(len(matched), dtype=bool)
    if cycles:
        counted = np.isin(matched.cycle[0], np.array(cycles, np.int64))
    known = counted & (found.message != ABSENT)
    unknown = int((counted & (sizes.source == UNKNOWN_SIZE)).sum())
    if not known.any():
        missing = found.group_size is None and bool((sizes.source != UNKNOWN_SIZE).any())
        return Bandwidth((), (), unknown, sizes.assumption, _INCOMPLETE if missing else "")
    exponent = np.array([int(s).bit_length() for s in found.message.tolist()])
    groups: dict[tuple[str, str, int], list[int]] = {}
    for row in np.flatnonzero(known).tolist():
        library, _, kind = matched.kind[row].rpartition(".")
        groups.setdefault((library, kind, int(exponent[row])), []).append(row)
    rows: list[SizeRow] = []
    floors: dict[tuple[str, str], Floor] = {}
    for (library, kind, _), members in sorted(groups.items()):
        mine = np.array(members)
        one = _row(library, kind, mine, times, sizes, found)
        rows.append(one)
        if (library, kind) not in floors:
            least = int(_own_transfer(times)[mine].min())
            floors[library, kind] = Floor(library, kind, one.low_bytes, one.high_bytes, least)
    return Bandwidth(tuple(rows), tuple(floors.values()), unknown, sizes.assumption)


def _row(library: str, kind: str, mine: Int, times: Times, sizes: Sizes, found: Rates) -> SizeRow:
    message = found.message[mine]
    return SizeRow(
        library=library,
        kind=kind,
        low_bytes=int(message.min()),
        high_bytes=int(message.max()),
        sources=tuple(BYTES_SOURCES[code] for code in sorted(set(sizes.source[mine].tolist()))),
        count=len(mine),
        transfer_ns=float(np.median(times.transfer[:, mine])),
        algbw=_median(found.algbw[:, mine]),
        busbw=_median(found.busbw[:, mine]),
    )


def _own_transfer(times: Times) -> Int:
    """Per collective the transfer of the rank that arrived last: no clock enters it."""
    last = times.arrival.argmax(axis=0)
    own: Int = times.transfer[last, np.arange(times.transfer.shape[1])]
    return own


def _median(values: Float) -> float | None:
    known: Bool = ~np.isnan(values)
    return float(np.median(values[known])) if known.any() else None
