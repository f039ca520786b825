"""Message sizes and bandwidths of the ranks together, shown where sizes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import UNKNOWN, count_text, time_text

if TYPE_CHECKING:
    from specscope.analyzers.bandwidth import Bandwidth, Floor, SizeRow
    from specscope.analyzers.group_rows import Group

_SOURCE_NAMES: Final = {"recorded": "trace", "model_config": "config", "user": "you"}
_COLUMNS: Final = ("", "bytes", "calls", "transfer", "algbw", "busbw", "size by")
# Under this size nccl-tests says to read the time: it is latency, not bandwidth.
_LATENCY_BELOW: Final = 1_000_000


def size_grids(group: Group) -> list[Grid]:
    """The size-latency table of each process group; nothing where no size is known."""
    return [
        _grid(one.bandwidth, one.title)
        for one in _parts(group)
        if one.bandwidth and one.bandwidth.rows
    ]


def size_lines(group: Group) -> list[str]:
    """The latency floors, what sizes rest on, how many have none; or why there is no table."""
    return [line for one in _parts(group) for line in _lines(one)]


def _parts(group: Group) -> tuple[Group, ...]:
    return group.parts or (group,)


def _grid(found: Bandwidth, name: str) -> Grid:
    title = "Message sizes and bandwidth, waiting left out"
    if name:
        title += f": {clean(name)}"
    rows = tuple(_row(row) for row in found.rows)
    return Grid(title, _COLUMNS, rows, note="medians", words_last=True)


def _lines(group: Group) -> list[str]:
    found = group.bandwidth
    named = f"{clean(group.title)}: " if group.title else ""
    if found is None or not found.rows:
        return [named + found.refused] if found is not None and found.refused else []
    floors = ", ".join(_floor(floor) for floor in found.floors)
    floor_line = f"{named}latency floor, the least transfer of the smallest size: {floors}"
    return [floor_line, *_rests_on(found)]


def _rests_on(found: Bandwidth) -> list[str]:
    lines = ["GB/s are 10^9 bytes a second"]
    if any(row.low_bytes < _LATENCY_BELOW for row in found.rows):
        lines[0] += "; under 1 MB read the time: it is latency, not bandwidth"
    if found.assumption:
        lines.append(clean(found.assumption))
    if found.unknown:
        lines.append(f"{count_text(found.unknown)} counted collectives have no known size")
    return lines


def _row(row: SizeRow) -> Row:
    by = ", ".join(_SOURCE_NAMES.get(source, source) for source in row.sources)
    cells = (
        clean(f"{row.library} {row.kind}"),
        _bytes(row),
        count_text(row.count),
        time_text(row.transfer_ns),
        _rate(row.algbw),
        _rate(row.busbw),
        by,
    )
    return Row(cells)


def _floor(floor: Floor) -> str:
    return clean(f"{floor.library} {floor.kind} {time_text(floor.ns)} at {_bytes(floor)} bytes")


def _bytes(of: SizeRow | Floor) -> str:
    ends = dict.fromkeys((of.low_bytes, of.high_bytes))
    return "-".join(count_text(size) for size in ends)


def _rate(rate: float | None) -> str:
    """Bytes a nanosecond, which are GB/s."""
    return UNKNOWN if rate is None else f"{rate:.2f} GB/s"
