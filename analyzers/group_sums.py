"""Sums over the counted cycles of a group: wait and transfer by stage, parts of the path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collective_times import LATE_CAUSES, UNKNOWN_CAUSE, Times
from specscope.analyzers.collectives import Member
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.critical_path import PATH_WHATS, Paths
from specscope.analyzers.cycles import leading
from specscope.analyzers.group_rows import FirstCycle, PathRow, RankStage
from specscope.analyzers.statistics import Float, bootstrap, interval
from specscope.analyzers.words import ACCEPT, STAGES, STATES, VERIFY

# The first cycle is left out when a rank waits this much longer in it than in the median cycle.
_FIRST_TIMES = 3.0
_FIRST_NS = 1_000_000


def steady_cycles(
    members: Sequence[Member],
    shift: Sequence[int],
    whole: range,
    lead: tuple[str, int | None] | None,
) -> Int:
    """Counted cycles: those of the headline, without what is warm-up or outlier on any rank."""
    numbers = np.array(whole, np.int64)
    counted = np.full(len(numbers), lead is not None)
    unmarked = np.ones(len(numbers), dtype=bool)
    for one, more in zip(members, shift, strict=True):
        if one.cycles is None or lead is None or not len(numbers):
            return numbers[:0]
        counted &= one.cycles.of(*lead)[numbers - more]
        unmarked &= one.cycles.mark[numbers - more] == 0
    steady = counted & unmarked
    return numbers[steady if steady.any() else counted]


def own_lead(
    members: Sequence[Member],
    shift: Sequence[int],
    whole: range,
    lead: tuple[str, int | None] | None,
) -> tuple[str, int | None] | None:
    """Kind and batch of the headline; where the members have no such cycle, their own batch."""
    if lead is None or len(steady_cycles(members, shift, whole, lead)):
        return lead
    own = leading([one.cycles for one in members if one.cycles is not None])
    return own if own is not None and own[0] == lead[0] else lead


def batch_words(lead: tuple[str, int | None] | None) -> str:
    """The batch, in words."""
    return "no known batch" if lead is None or lead[1] is None else f"batch {lead[1]}"


def _by_cycle(matched: Matched, values: Int, rows: Bool, cycles: Int) -> Int:
    """Sums of `values` over the collectives in `rows`, for each of `cycles`."""
    if not len(cycles):
        return np.empty(0, np.int64)
    at = np.searchsorted(cycles, matched.cycle[0])
    inside = (
        rows & (at < len(cycles)) & (cycles[np.minimum(at, len(cycles) - 1)] == matched.cycle[0])
    )
    total = np.zeros(len(cycles), np.int64)
    np.add.at(total, at[inside], values[inside])
    return total


def first_cycle(matched: Matched, times: Times, whole: range, steady: Int) -> FirstCycle | None:
    """The first cycle, where ranks wait in it for one that began to profile later."""
    if not len(whole) or not len(steady):
        return None
    every = np.ones(len(matched), dtype=bool)
    numbers = np.array([whole.start], np.int64)
    others = steady[steady != whole.start]
    if not len(others):
        return None
    worst: FirstCycle | None = None
    for row, number in enumerate(matched.ranks):
        wait = times.wait[row]
        first = int(_by_cycle(matched, wait, every, numbers)[0])
        usual = float(np.median(_by_cycle(matched, wait, every, others)))
        if first < usual + _FIRST_NS or first < _FIRST_TIMES * usual:
            continue
        if worst is None or first > worst.wait_ns:
            mine = np.where(matched.cycle[0] == whole.start, wait, -1)
            late = int(times.late[int(mine.argmax())])
            late_rank = matched.ranks[late] if late >= 0 else None
            worst = FirstCycle(whole.start, number, first, late_rank)
    return worst


def stage_rows(
    members: Sequence[Member], matched: Matched, shift: Sequence[int], times: Times, steady: Int
) -> list[RankStage]:
    """Per stage a row over the ranks, then one a rank; verify holds accept."""
    inside = np.isin(matched.cycle[0], steady)
    stage = np.where(matched.stage == ACCEPT, VERIFY, matched.stage)
    skew = _skew(times)
    rows: list[RankStage] = []
    for code in sorted(set(stage[inside].tolist())):
        mine = inside & (stage == code)
        calls = float(np.median(_by_cycle(matched, np.ones(len(stage), np.int64), mine, steady)))
        fused = bool(matched.fused[mine].any())
        lateness = np.where(mine & (times.late >= 0), times.late_ns, 0)
        in_all = max(int(lateness.sum()), 1)
        of_ranks = []
        draws: dict[str, list[Float]] = {}
        for row, one in enumerate(members):
            assert one.cycles is not None
            ns = np.maximum(one.cycles.ns[steady - shift[row]], 1)
            wait = _by_cycle(matched, times.wait[row], mine, steady)
            transfer = _by_cycle(matched, times.transfer[row], mine, steady)
            late = mine & (times.late == row)
            cause, share = _main_cause(times, late)
            by_cycle = {
                "wait_ns": wait,
                "transfer_ns": transfer,
                "wait_share": wait / ns,
                "transfer_share": transfer / ns,
            }
            for name, values in by_cycle.items():
                draws.setdefault(name, []).append(bootstrap(values.astype(np.float64)))
            of_ranks.append(
                RankStage(
                    rank=matched.ranks[row],
                    stage=STAGES[code],
                    calls=calls,
                    wait_ns=float(np.median(by_cycle["wait_ns"])),
                    transfer_ns=float(np.median(by_cycle["transfer_ns"])),
                    wait_share=float(np.median(by_cycle["wait_share"])),
                    transfer_share=float(np.median(by_cycle["transfer_share"])),
                    fused=fused,
                    late_share=float(late.sum() / mine.sum()),
                    late_ns=float(np.median(_by_cycle(matched, lateness, late, steady))),
                    lateness_share=float(lateness[late].sum() / in_all),
                    cause=cause,
                    cause_share=share,
                    end_skew_ns=float(np.median(skew[row][mine])),
                    **_intervals({name: of[-1] for name, of in draws.items()}),
                )
            )
        # All ranks lived through the same cycles, so a draw takes the same ones of each.
        joint = {name: np.median(np.stack(of), axis=0) for name, of in draws.items()}
        rows += [_over_ranks(of_ranks, _intervals(joint)), *of_ranks]
    return rows


def _intervals(draws: Mapping[str, Float]) -> dict[str, Any]:
    """The ends of each figure's interval, named as `RankStage` has them."""
    found: dict[str, Any] = {}
    for name, values in draws.items():
        stem, unit = (name[:-3], "_ns") if name.endswith("_ns") else (name, "")
        found[f"{stem}_low{unit}"], found[f"{stem}_high{unit}"] = interval(values)
    return found


def _over_ranks(rows: Sequence[RankStage], intervals: Mapping[str, Any]) -> RankStage:
    first = rows[0]

    def middle(name: str) -> float:
        return float(np.median([getattr(row, name) for row in rows]))

    return RankStage(
        rank=None,
        stage=first.stage,
        calls=first.calls,
        wait_ns=middle("wait_ns"),
        transfer_ns=middle("transfer_ns"),
        wait_share=middle("wait_share"),
        transfer_share=middle("transfer_share"),
        fused=first.fused,
        late_share=None,
        late_ns=None,
        lateness_share=None,
        cause=None,
        cause_share=None,
        end_skew_ns=None,
        **intervals,
    )


def _skew(times: Times) -> Int:
    """Each rank's end less the mean of all ranks' ends, by [rank, collective]."""
    from_first = times.end - times.end[0]
    skew: Int = from_first - np.rint(from_first.mean(axis=0)).astype(np.int64)
    return skew


def _main_cause(times: Times, late: Bool) -> tuple[str | None, float | None]:
    """The cause of most lateness of one rank, and its share of all its lateness."""
    if not late.any():
        return None, None
    # A part may exceed the lateness where another made up for it.
    explained = np.minimum(times.cause_ns, times.late_ns)[late]
    by_cause = np.bincount(times.cause[late], weights=explained, minlength=len(LATE_CAUSES))
    by_cause[UNKNOWN_CAUSE] = 0
    if not by_cause.any():
        return "unknown", None
    best = int(by_cause.argmax())
    return LATE_CAUSES[best], float(by_cause[best] / max(int(times.late_ns[late].sum()), 1))


def path_rows(
    ranks: Sequence[int], paths: Paths | None, steady: Int
) -> tuple[tuple[PathRow, ...], float | None, tuple[tuple[int, int], ...]]:
    """The parts of the path, medians over the counted cycles; its length; the critical ranks."""
    if paths is None:
        return (), None, ()
    counted = np.flatnonzero(np.isin(paths.cycles, steady))
    if not len(counted):
        return (), None, ()
    place = np.full(len(paths.cycles), -1, np.int64)
    place[counted] = np.arange(len(counted))
    mine = np.flatnonzero(place[paths.cycle] >= 0)
    shape = (len(counted), len(ranks), len(STAGES), len(STATES), len(PATH_WHATS))
    cell = np.ravel_multi_index(
        (
            place[paths.cycle[mine]],
            paths.rank[mine],
            paths.stage[mine],
            paths.state[mine],
            paths.what[mine],
        ),
        shape,
    )
    total = np.zeros(int(np.prod(shape)), np.int64)
    np.add.at(total, cell, paths.ns[mine])
    total = total.reshape(shape)
    lengths = np.diff(paths.borders)[counted]
    by_rank = total.sum(axis=(2, 3, 4))
    critical = Counter(by_rank.argmax(axis=1).tolist())
    rows = []
    for rank, stage, state, what in np.argwhere(total.any(axis=0)).tolist():
        own = total[:, rank, stage, state, what]
        rows.append(
            PathRow(
                ranks[rank],
                STAGES[stage],
                STATES[state],
                PATH_WHATS[what],
                float(np.median(own)),
                float(np.median(own / np.maximum(lengths, 1))),
            )
        )
    rows.sort(key=lambda row: -row.ns)
    named = tuple((ranks[row], count) for row, count in sorted(critical.items()))
    return tuple(rows), float(np.median(lengths)), named
