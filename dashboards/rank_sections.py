"""The ranks together: what waits for whom, what the wire takes, what holds the cycle back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Final

from specscope.analyzers.report import Report
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import lap, stage_name, stage_names
from specscope.dashboards.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group, PathRow, RankStage

# Stages whose collectives take less of the cycle, waiting or transferring, are not worth a line.
_SMALL_SHARE: Final = 0.0005
# Where all waiting and transferring takes less, the sentence says all there is.
_WORTH_A_GRID: Final = 0.05
# Ranks of a stage that are shown on a page; `specscope ranks` shows all.
_MOST_RANKS: Final = 8
_MOST_PATH_ROWS: Final = 8
# Ranks that share the critical path and are named.
_MOST_NAMED: Final = 4
# Ends of an interval from here on have no decimals.
_WHOLE_FROM: Final = 0.1
# Process groups that are shown on a page.
_MOST_GROUPS: Final = 4

# Warnings that speak of the ranks together, and of which files are which rank.
NOTES: Final = (
    "profiler_start",
    "collectives_differ",
    "ranks_not_aligned",
    "ranks_missing",
    "rank_duplicate",
    "rank_beyond_world",
    "rank_unknown",
    "captures_listed",
    "file_foreign",
    "no_gpu_events",
    "no_gpu_rows",
    "ranks_without_cuda",
)

CAUSE_NAMES: Final = {
    "previous": "wire",
    "compute": "compute",
    "copy": "copies",
    "host": "host",
    "device": "GPU idle",
    "collective": "other group",
    "unknown": "not known",
}


def group_lines(report: Report) -> list[str]:
    """The answer in one sentence; nothing for one rank, or where the ranks do not correspond."""
    group = report.group
    return [clean(group.sentence)] if group is not None and group.sentence else []


def group_grids(report: Report) -> list[Grid]:
    """Wait and transfer by rank, and the critical path, where they are worth a table."""
    group = report.group
    if group is None or not group.rows:
        return []
    own = [[row for row in group.rows if row.rank == rank] for rank in group.ranks]
    waits = max(sum(row.wait_share for row in rows) for rows in own)
    transfers = max(sum(row.transfer_share for row in rows) for rows in own)
    if max(transfers, waits) < _WORTH_A_GRID:
        return []
    return [*wait_grids(report, group, _MOST_RANKS), *path_grids(report, group, _MOST_PATH_ROWS)]


def wait_grids(report: Report, group: Group, most_ranks: int | None = None) -> list[Grid]:
    """A grid for each process group, those that take most of the cycle where ranks are limited."""
    names = list(dict.fromkeys(row.group for row in group.rows))
    shown = names if most_ranks is None else _most_taking(group, names)
    grids = [wait_grid(report, group, most_ranks, name) for name in shown]
    # A header alone says nothing: what is there is too little for a row.
    grids = [grid for grid in grids if grid.rows]
    if len(shown) < len(names) and grids:
        more = f"{grids[-1].note}; {len(names) - len(shown)} process groups more"
        grids[-1] = replace(grids[-1], note=more)
    return grids


def wait_grid(
    report: Report, group: Group, most_ranks: int | None = None, name: str | None = None
) -> Grid:
    """Per stage and rank: wait, transfer, how often it is late, by how much, and why."""
    columns = ("", "calls", "wait", "share", "transfer", "share", "last in", "late by", "why")
    own = [row for row in group.rows if row.group == name]
    title = f"Collectives of all ranks a {lap(report)}: waiting and transferring"
    if name is not None:
        title = f"Collectives of {clean(name)} a {lap(report)}: waiting and transferring"
        part = next((one for one in group.parts if one.title == name), group)
        cycles, own_batch = part.cycles, part.own_batch
    else:
        cycles, own_batch = group.cycles, ""
    if any(row.fused for row in own):
        title += " (fused ones: with the norm)"
    of = f" of {own_batch}" if own_batch else ""
    return Grid(
        title,
        columns,
        tuple(_stage_rows(own, most_ranks, ("",) * (len(columns) - 1))),
        note=f"medians of {count_text(len(cycles))} {lap(report)}s{of}; "
        "shares: their 95 % interval",
        words_last=True,
    )


def _stage_rows(
    own: Sequence[RankStage], most_ranks: int | None, blank: tuple[str, ...]
) -> list[Row]:
    """The rows of one process group: each stage, then its ranks."""
    rows = []
    for headline in own:
        if headline.rank is not None:
            continue
        if max(headline.wait_share, headline.transfer_share) < _SMALL_SHARE:
            continue
        rows.append(_wait_row(headline))
        ranks = [r for r in own if r.stage == headline.stage and r.rank is not None]
        shown = _most_late(ranks, most_ranks)
        rows += [_wait_row(row) for row in shown]
        if len(shown) < len(ranks):
            rest = f"{len(ranks) - len(shown)} ranks less late"
            rows.append(Row((rest, *blank), headline.stage, 1))
    return rows


def _most_taking(group: Group, names: Sequence[str | None]) -> list[str | None]:
    """The process groups in which most of the cycle goes, in their order."""
    if len(names) <= _MOST_GROUPS:
        return list(names)
    taken = {
        name: sum(
            row.wait_share + row.transfer_share
            for row in group.rows
            if row.group == name and row.rank is None
        )
        for name in names
    }
    most = sorted(names, key=lambda name: -taken[name])[:_MOST_GROUPS]
    return [name for name in names if name in most]


def _most_late(rows: Sequence[RankStage], most: int | None) -> list[RankStage]:
    """The ranks with most of the lateness, in order of their numbers."""
    if most is None or len(rows) <= most:
        return list(rows)
    late = sorted(rows, key=lambda row: -(row.lateness_share or 0.0))[:most]
    return sorted(late, key=lambda row: row.rank or 0)


def _wait_row(row: RankStage) -> Row:
    figures = (
        time_text(row.wait_ns),
        _interval(row.wait_share_low, row.wait_share_high, row.wait_share),
        time_text(row.transfer_ns),
        _interval(row.transfer_share_low, row.transfer_share_high, row.transfer_share),
    )
    if row.rank is None:
        calls = count_text(row.calls)
        return Row((stage_name(row.stage), calls, *figures, "", "", ""), row.stage)
    late = bool(row.late_ns)
    cells = (
        f"rank {row.rank}",
        "",
        *figures,
        share_text(row.late_share),
        time_text(row.late_ns) if late else "",
        CAUSE_NAMES.get(row.cause or "", "") if late else "",
    )
    return Row(cells, row.stage, 1)


def _interval(low: float, high: float, share: float) -> str:
    """A share by its interval: one figure where both ends read alike, from 10 % on whole ones."""
    if not isfinite(low + high):
        return share_text(share)
    digits = 0 if low >= _WHOLE_FROM else 1
    ends = f"{100 * low:.{digits}f}", f"{100 * high:.{digits}f}"
    return share_text(share) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]} %"


def communication_grids(report: Report) -> list[Grid]:
    """Collectives by stage: exposed, and hidden behind compute."""
    rows = []
    for one in report.shares:
        if one.rank is not None or one.part_of is not None or not one.collectives_known:
            continue
        if not one.collective_ns and not one.hidden_collective_ns:
            continue
        exposed = time_text(one.collective_ns), share_text(one.collective_share)
        hidden = time_text(one.hidden_collective_ns)
        rows.append(Row((stage_names(report)[one.stage], *exposed, hidden), one.stage))
    if not rows:
        return []
    title = f"Communication a {lap(report)}, waiting included"
    columns = ("", "exposed", "share", "hidden behind compute")
    return [Grid(title, columns, tuple(rows), note="medians over the ranks")]


def idle_grids(report: Report, group: Group) -> list[Grid]:
    """Idle of each rank: while another rank works, and while nobody does."""
    rows = [
        Row(
            (
                f"rank {one.rank}",
                time_text(one.others_busy_ns),
                share_text(one.others_busy_share),
                time_text(one.nobody_ns),
                share_text(one.nobody_share),
            )
        )
        for one in group.idle
    ]
    if not rows:
        return []
    columns = ("", "others work", "share", "nobody works", "share")
    return [Grid(f"Idle of each rank a {lap(report)}", columns, tuple(rows), note="medians")]


def path_grids(report: Report, group: Group, most: int | None = None) -> list[Grid]:
    """The parts of the critical path, the largest first, ranks taken together."""
    if not group.path or group.cycle_ns is None:
        return []
    names = stage_names(report)
    parts: dict[tuple[str, str, str], list[PathRow]] = {}
    for row in group.path:
        parts.setdefault((row.stage, row.state, row.what), []).append(row)
    ordered = sorted(parts.items(), key=lambda part: -sum(row.share for row in part[1]))
    shown = ordered[:most] if most is not None else ordered
    rows = [_path_row(names[stage], state, what, of) for (stage, state, what), of in shown]
    title = f"What holds the {lap(report)} of all ranks back, {time_text(group.cycle_ns)}"
    note = _mostly(group)
    columns = ("critical path", f"a {lap(report)}", "share", "on")
    return [Grid(title, columns, tuple(rows), note=note, words_last=True)]


def _mostly(group: Group) -> str:
    """On which ranks most of the path lies: one that has more than half of the cycles, or all."""
    all_of_them = sum(cycles for _, cycles in group.critical)
    ordered = sorted(group.critical, key=lambda found: -found[1])
    if 2 * ordered[0][1] > all_of_them:
        return f"mostly rank {ordered[0][0]}, in {ordered[0][1]} of {all_of_them}"
    parts = [f"rank {rank} in {cycles}" for rank, cycles in ordered[:_MOST_NAMED]]
    more = ", ..." if len(ordered) > _MOST_NAMED else ""
    return f"{', '.join(parts)}{more} of {all_of_them}"


def _path_row(stage: str, state: str, what: str, rows: Sequence[PathRow]) -> Row:
    word = what.replace("_", " ")
    name = f"{stage} {word}" if state == "work" else f"{stage} idle: {word}"
    ranks = sorted(rows, key=lambda row: -row.share)[:2]
    on = ", ".join(f"rank {row.rank} {share_text(row.share)}" for row in ranks)
    total = sum(row.ns for row in rows), sum(row.share for row in rows)
    return Row((name, time_text(total[0]), share_text(total[1]), on), rows[0].stage)
