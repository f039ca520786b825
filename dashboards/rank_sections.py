"""The ranks together: what waits for whom, what the wire takes, what holds the cycle back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from specscope.analyzers.report import Report
from specscope.analyzers.words import STAGES
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import lap, stage_name, stage_names
from specscope.dashboards.units import count_text, share_text, spread, time_text

if TYPE_CHECKING:
    from specscope.analyzers.group_rows import Group, PathRow, RankStage

# Stages whose collectives take less of the cycle, waiting or transferring, are not worth a line.
_SMALL_SHARE: Final = 0.0005
# Where all waiting and transferring takes less, the sentence says all there is.
_WORTH_A_GRID: Final = 0.05
# Ranks of a stage that are shown on a page; `specscope ranks` shows all.
_MOST_RANKS: Final = 8
_MOST_PATH_ROWS: Final = 8
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
    return [wait_grid(report, group, _MOST_RANKS), *path_grids(report, group, _MOST_PATH_ROWS)]


def wait_grid(report: Report, group: Group, most_ranks: int | None = None) -> Grid:
    """Per stage and rank: wait, transfer, how often it is late, by how much, and why."""
    columns = ("", "calls", "wait", "share", "transfer", "share", "last in", "late by", "why")
    rows = []
    groups = list(dict.fromkeys(row.group for row in group.rows))
    shown_groups = groups if most_ranks is None else _most_taking(group, groups)
    blank = ("",) * (len(columns) - 1)
    for name in shown_groups:
        own = [row for row in group.rows if row.group == name]
        if name is not None:
            rows.append(Row((clean(name), *blank)))
        rows += _stage_rows(own, most_ranks, blank)
    if len(shown_groups) < len(groups):
        rows.append(Row((f"{len(groups) - len(shown_groups)} process groups more", *blank)))
    title = f"Collectives of all ranks a {lap(report)}: waiting and transferring"
    if any(row.fused for row in group.rows):
        title += " (fused ones: with the norm)"
    count = len(group.cycles)
    return Grid(
        title,
        columns,
        tuple(rows),
        note=f"medians of {count_text(count)} {lap(report)}s",
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
        share_text(row.wait_share),
        time_text(row.transfer_ns),
        share_text(row.transfer_share),
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
    rank, most_cycles = max(group.critical, key=lambda found: found[1])
    title = f"What holds the {lap(report)} of all ranks back, {time_text(group.cycle_ns)}"
    note = f"mostly rank {rank}, in {most_cycles} of {len(group.cycles)}"
    columns = ("critical path", f"a {lap(report)}", "share", "on")
    return [Grid(title, columns, tuple(rows), note=note, words_last=True)]


def _path_row(stage: str, state: str, what: str, rows: Sequence[PathRow]) -> Row:
    word = what.replace("_", " ")
    name = f"{stage} {word}" if state == "work" else f"{stage} idle: {word}"
    ranks = sorted(rows, key=lambda row: -row.share)[:2]
    on = ", ".join(f"rank {row.rank} {share_text(row.share)}" for row in ranks)
    total = sum(row.ns for row in rows), sum(row.share for row in rows)
    return Row((name, time_text(total[0]), share_text(total[1]), on), rows[0].stage)


def clock_lines(report: Report) -> list[str]:
    """How the ranks were brought onto one clock, and what that rests on."""
    if report.group is None:
        return []
    lines = []
    for part in report.group.measured_parts:
        lines += _clock_lines(report, part)
    return lines


def _clock_lines(report: Report, group: Group) -> list[str]:
    """Those of one process group."""
    assert group.measured is not None
    clocks, matched = group.measured.clocks, group.measured.matched
    named = stage_names(report)[STAGES[clocks.stage]]
    stage = "" if STAGES[clocks.stage] == "unplaced" else f" of {named}"
    offsets = spread((clock.offset_ns for clock in clocks.clocks[1:]), time_text)
    drifts = [abs(clock.drift_ppm) for clock in clocks.clocks]
    drift = f", drift up to {max(drifts):.1f} ppm" if max(drifts) else ""
    lines = [
        f"{clean(group.assumption)}; {count_text(len(matched))} of {spread(matched.total)} "
        "collectives a rank",
        f"clocks aligned by the ends of {count_text(clocks.used)} collectives{stage}: offsets "
        f"against rank {matched.ranks[0]} {offsets}{drift}, residual "
        f"{time_text(clocks.residual_ns)} (95 % under {time_text(clocks.spread_ns)})",
    ]
    return lines + [_skew_line(*found) for found in _skews(group, clocks.spread_ns)]


def _skews(group: Group, spread_ns: float) -> list[tuple[str, float, float]]:
    """Stages in which the ranks' ends differ by more than clocks are known: least and most."""
    found = []
    for stage in dict.fromkeys(row.stage for row in group.rows):
        ends = [
            row.end_skew_ns
            for row in group.rows
            if row.stage == stage and row.end_skew_ns is not None
        ]
        if ends and max(ends) - min(ends) > spread_ns:
            found.append((stage, min(ends), max(ends)))
    return found


def _skew_line(stage: str, least: float, most: float) -> str:
    return (
        f"collectives of {stage_name(stage)} end on each rank between {time_text(least)} and "
        f"{time_text(most)} from the ranks' mean: end skew of the ring, not taken for a clock"
    )
