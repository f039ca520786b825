"""The live view as grids and lines of clean text, the same for terminal and page."""

from __future__ import annotations

import time
from typing import Final

from specscope.analyzers.live_view import CUDA_EVENTS, LiveRank, LiveShare, LiveView
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import NAME_LIMIT, clean
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import (
    UNKNOWN,
    count_text,
    range_text,
    share_text,
    spread,
    time_text,
)

_QUIET_SECONDS: Final = 5.0


def lap(view: LiveView) -> str:
    """What goes round: a cycle of speculation, or a step without it."""
    return "cycle" if view.kind in (None, "speculation") else "step"


def head_line(view: LiveView) -> str:
    """The sentence: the largest stage's share, or why there is none."""
    top = max(
        (share for share in view.shares if share.rank is None and share.part_of is None),
        key=lambda share: share.share,
        default=None,
    )
    if top is None:
        return "No whole cycle on record yet"
    name = stage_name(top.stage).capitalize()
    return f"{name} takes {share_text(top.share)} of the {lap(view)}"


def basis_line(view: LiveView) -> str:
    """What the shares stand on."""
    if not view.shares:
        return ""
    cycles = spread(rank.cycles for rank in view.ranks)
    ranks = len(view.ranks)
    by = "on the GPU, by CUDA events" if view.clock == CUDA_EVENTS else "on the host"
    return (
        f"{by}; median of {cycles} {lap(view)}s on {count_text(ranks)} "
        f"rank{'s' if ranks > 1 else ''} in the last {duration_text(view.covered_s)}"
    )


def clock_line(view: LiveView) -> str:
    """What the host's times do not tell."""
    if not view.shares or view.clock == CUDA_EVENTS:
        return ""
    return (
        "With a GPU the host is through with a stage long before the GPU: CUDA events "
        "(--events-every, and some cycles) give the GPU's shares."
    )


def stage_grid(view: LiveView) -> Grid | None:
    """Time and share of each stage, of the run and of each rank."""
    rows = [share for share in view.shares if share.rank is None]
    if not rows:
        return None
    ranks = sorted({share.rank for share in view.shares if share.rank is not None})
    several = ranks if len(ranks) > 1 else []
    columns = ("stage", f"a {lap(view)}", f"of {lap(view)}", "middle half")
    return Grid(
        f"Where the {lap(view)} goes",
        (*columns, *(f"rank {rank}" for rank in several)),
        tuple(_stage_row(view, share, several) for share in rows),
    )


def _stage_row(view: LiveView, share: LiveShare, ranks: list[int]) -> Row:
    of_ranks = (view.share(share.stage, rank) for rank in ranks)
    return Row(
        (
            stage_name(share.stage),
            time_text(share.ns),
            share_text(share.share),
            range_text(share.low, share.high),
            *(UNKNOWN if one is None else share_text(one.share) for one in of_ranks),
        ),
        share.stage,
        0 if share.part_of is None else 1,
    )


def rank_grid(view: LiveView) -> Grid | None:
    """One row a rank: its cycle, batch, what the hooks take, and how its log stands."""
    if not view.ranks:
        return None
    columns = ("rank", f"{lap(view)}s", "median", "95 % under", "batch", "hooks", "log")
    return Grid(
        f"{lap(view).capitalize()}s by rank",
        columns,
        tuple(map(_rank_row, view.ranks)),
        words_last=True,
    )


def _rank_row(rank: LiveRank) -> Row:
    hooks = UNKNOWN
    if rank.hook_ns is not None:
        hooks = time_text(rank.hook_ns)
        if rank.hook_share is not None:
            hooks += f" ({share_text(rank.hook_share)})"
    return Row(
        (
            UNKNOWN if rank.rank is None else str(rank.rank),
            count_text(rank.cycles),
            time_text(rank.cycle_ns),
            time_text(rank.cycle_p95_ns),
            batch_text(rank),
            hooks,
            state_text(rank),
        )
    )


def batch_text(rank: LiveRank) -> str:
    """Sequences in a cycle: the one number, or median and range."""
    if rank.batch is None:
        return UNKNOWN
    low, middle, high = rank.batch
    return str(low) if low == high else f"{middle:g} ({low}-{high})"


def state_text(rank: LiveRank) -> str:
    """How the log of that rank stands."""
    if rank.ended:
        return "ended"
    if rank.quiet_s > _QUIET_SECONDS:
        return f"quiet for {duration_text(rank.quiet_s)}"
    return "growing"


def accept_line(view: LiveView) -> str:
    """Accept length and the tokens that the lengths count."""
    if view.accept_length is None:
        return "accept length: none on record"
    text = (
        f"accept length {view.accept_length:.2f}, the bonus token included "
        f"({count_text(view.accept_cycles)} {lap(view)}s)"
    )
    if view.tokens_per_second is not None:
        text += f"; {view.tokens_per_second:,.0f} tokens a second by it"
    return text


def note_lines(view: LiveView) -> list[str]:
    """What is lost, late, missing or odd, the run's first."""
    lines = [clean(note) for note in view.notes]
    if view.missing_ranks:
        numbers = ", ".join(map(str, view.missing_ranks[:16]))
        more = len(view.missing_ranks) - 16
        lines.append(f"no log of rank {numbers}" + (f" and {more} more" if more > 0 else ""))
    pauses = sum(rank.pauses for rank in view.ranks)
    if pauses:
        lines.append(
            f"{count_text(pauses)} {lap(view)}s of more than 20 times the median are pauses of the "
            "load: they are in no curve"
        )
    for rank in view.ranks:
        who = f"rank {rank.rank}" if rank.rank is not None else f"process {rank.pid}"
        lines += [f"{who}: {clean(note, 300)}" for note in rank.notes]
    return lines


def title_line(view: LiveView) -> str:
    """Which server, and when."""
    parts = [clean(view.engine, NAME_LIMIT)] if view.engine else []
    if view.newest_ns:
        parts.append(f"newest row {clock_text(view.newest_ns)}")
    return ", ".join(parts)


def plain_line(view: LiveView) -> str:
    """All of it in one line, for a pipe."""
    if not view.shares:
        return "; ".join([head_line(view), *note_lines(view)])
    cycle = spread((rank.cycle_ns for rank in view.ranks), time_text)
    parts = [clock_text(view.newest_ns or 0), f"{lap(view)} {cycle}"]
    parts += [
        f"{stage_name(share.stage)} {share_text(share.share)}"
        for share in view.shares
        if share.rank is None and share.part_of is None
    ]
    if view.accept_length is not None:
        parts.append(f"accept length {view.accept_length:.2f}")
    parts += [f"batch {batch_text(view.ranks[0])}"] if view.ranks[0].batch else []
    parts += note_lines(view)
    return "; ".join(parts)


def clock_text(time_ns: int) -> str:
    """The time of day on this machine."""
    return time.strftime("%H:%M:%S", time.localtime(time_ns / 1e9))


def duration_text(seconds: float) -> str:
    """Seconds or minutes.

    >>> duration_text(7.2), duration_text(252)
    ('7 s', '4 min 12 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
