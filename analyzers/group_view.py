"""All ranks of a run together: matched, on one clock, with what each waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from specscope.analyzers import collective_match, collective_times, critical_path, group_words
from specscope.analyzers.activities import Rules
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.clocks import Clocks, align
from specscope.analyzers.collective_match import Collectives, Matched, Member
from specscope.analyzers.collective_times import LATE_CAUSES, UNKNOWN_CAUSE, Times
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.critical_path import PATH_WHATS, Paths
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.group_rows import FirstCycle, Group, Measured, PathRow, RankStage
from specscope.analyzers.rank import Rank
from specscope.analyzers.words import ACCEPT, STAGES, STATES, VERIFY
from specscope.traces.run import Note, Run

# The first cycle is left out when a rank waits this much longer in it than in the median cycle.
_FIRST_TIMES = 3.0
_FIRST_NS = 1_000_000
_FEWEST_CYCLES = 3
# Notes of the assembly that say that the files are not of one capture.
_NOT_ONE_RUN = ("times_apart", "world_size_differs")


def together(
    run: Run,
    prepared: Sequence[Rank],
    attributed: Sequence[Attribution],
    lead: tuple[str, int | None] | None,
    rules: Rules,
) -> Group | None:
    """The ranks of the run as one group; None for one rank, or where no rank has ops."""
    with_ops = [one for one in prepared if len(one.ops.start)]
    if len(with_ops) < 2:
        return None
    numbers = tuple(one.tables.rank for one in with_ops)
    apart = [note.text for note in run.notes if note.code in _NOT_ONE_RUN]
    if apart:
        return Group(numbers, refused="; ".join(apart))
    by_number = {one.number: one for one in attributed}
    known = [by_number.get(number) for number in numbers]
    members = [
        Member(rank, one.placed, one.cycles) if one else Member(rank, None, None)
        for rank, one in zip(with_ops, known, strict=True)
    ]
    collectives = [collective_match.collectives_of(one, rules.families) for one in members]
    if not any(len(one.op) for one in collectives):
        return None  # ranks that do not speak to each other, or only whole graph replays on record
    found = _aligned(members, collectives)
    if isinstance(found, str):
        return Group(numbers, refused=found)
    matched, clocks, shift = found
    times = collective_times.measure(members, known, matched, clocks)
    whole = _whole(members, shift)
    usable = [one for one in known if one is not None and not one.on_host]
    paths = None
    if len(usable) == len(members):
        bases = [one.base for one in members]
        paths = critical_path.walk(usable, bases, shift, whole, matched, clocks, times)
    return _group(members, matched, clocks, shift, times, whole, lead, paths)


def notes(group: Group | None) -> list[Note]:
    """What is to be warned of."""
    if group is None:
        return []
    if group.refused:
        return [
            Note(
                "ranks_not_aligned",
                f"Waiting cannot be told from transferring: {group.refused}",
                "give the traces of all ranks of one capture, neither sampled nor filtered",
            )
        ]
    found = []
    if group.measured is not None and group.measured.matched.differing:
        differing = group.measured.matched.differing
        shown = "; ".join(differing[:3]) + ("; ..." if len(differing) > 3 else "")
        found.append(
            Note("collectives_differ", f"Collectives left out of wait and transfer: {shown}")
        )
    if group.first_cycle is not None:
        first = group.first_cycle
        who = f"rank {first.late_rank}" if first.late_rank is not None else "another"
        found.append(
            Note(
                "profiler_start",
                f"In the first cycle rank {first.rank} waits {first.wait_ns / 1e6:.2f} ms for "
                f"{who}, which began to profile later: not counted in wait and transfer",
            )
        )
    return found


def _aligned(
    members: Sequence[Member], collectives: Sequence[Collectives]
) -> tuple[Matched, Clocks, tuple[int, ...]] | str:
    """Matched collectives and clocks: of the possible shifts of cycles the one that fits best."""
    best: tuple[Matched, Clocks, tuple[int, ...]] | None = None
    why = ""
    for shift in _shifts(members):
        matched = collective_match.match(members, collectives, shift)
        if isinstance(matched, str):
            why = why or matched
            continue
        pairs = list(zip(members, matched.op, strict=True))
        start = np.stack([one.rank.ops.start[ops] + one.base for one, ops in pairs])
        end = np.stack([one.rank.ops.end[ops] + one.base for one, ops in pairs])
        clocks = align(matched, start, end)
        if isinstance(clocks, str):
            why = why or clocks
        elif best is None or clocks.residual_ns < best[1].residual_ns:
            best = matched, clocks, shift
    return best or why


def _shifts(members: Sequence[Member]) -> list[tuple[int, ...]]:
    """What may lead from each rank's numbers of cycles to the first rank's, likeliest first."""
    cycles = [one.cycles for one in members]
    if any(one is None or not len(one) for one in cycles):
        return [(0,) * len(members)]
    known = [one for one in cycles if one is not None]
    by_number = [_by_number(known[0], one) for one in known]
    if all(shift is not None for shift in by_number):
        return [tuple(shift for shift in by_number if shift is not None)]
    bases = [one.base for one in members]
    by_time = tuple(
        _by_time(known[0].start + bases[0], one.start + base)
        for one, base in zip(known, bases, strict=True)
    )
    return list(dict.fromkeys([by_time, (0,) * len(members)]))


def _by_number(first: Cycles, other: Cycles) -> int | None:
    """By the numbers that the range grammar gives; None where none is on both."""
    for place, number in enumerate(other.number):
        if number is not None and number in first.number:
            return first.number.index(number) - place
    return None


def _by_time(first: Int, other: Int) -> int:
    """The commonest difference in place of the cycles that begin nearest to one another."""
    at = np.clip(np.searchsorted(first, other), 1, max(len(first) - 1, 1))
    at = np.minimum(at, len(first) - 1)
    before = np.maximum(at - 1, 0)
    nearest = np.where(np.abs(first[before] - other) <= np.abs(first[at] - other), before, at)
    shifts = Counter((nearest - np.arange(len(other))).tolist())
    return int(shifts.most_common(1)[0][0])


def _whole(members: Sequence[Member], shift: Sequence[int]) -> range:
    """Numbers, on the first rank, of the whole cycles that every rank has."""
    lengths = [len(one.cycles) if one.cycles is not None else 0 for one in members]
    ends = [length + more for length, more in zip(lengths, shift, strict=True)]
    return range(max(shift), max(min(ends), *shift))


def _group(
    members: Sequence[Member],
    matched: Matched,
    clocks: Clocks,
    shift: Sequence[int],
    times: Times,
    whole: range,
    lead: tuple[str, int | None] | None,
    paths: Paths | None,
) -> Group:
    steady = _steady(members, shift, whole, lead)
    first = _first_cycle(matched, times, whole, steady)
    if first is not None and len(steady) > _FEWEST_CYCLES:
        steady = steady[steady != first.cycle]
    rows = _rows(members, matched, shift, times, steady) if len(steady) else []
    path_rows, cycle_ns, critical = _path_rows(matched.ranks, paths, steady)
    return Group(
        ranks=matched.ranks,
        sentence=group_words.sentence(rows),
        assumption=_assumption(matched),
        cycles=tuple(steady.tolist()),
        first_cycle=first,
        rows=tuple(rows),
        cycle_ns=cycle_ns,
        path=path_rows,
        critical=critical,
        measured=Measured(matched, clocks, times, paths, members[0].base),
    )


def _assumption(matched: Matched) -> str:
    """What the matching rests on, in words."""
    by = {
        "sequence": "recorded sequence number",
        "launch": "order within the same launch of the same cycle",
        "capture": "order in the capture",
    }[matched.by]
    return (
        f"The {len(matched.ranks)} ranks read are taken for one tensor-parallel group; their "
        f"collectives are matched by {by}"
    )


def _steady(
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


def _first_cycle(matched: Matched, times: Times, whole: range, steady: Int) -> FirstCycle | None:
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


def _rows(
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
        for row, one in enumerate(members):
            assert one.cycles is not None
            ns = np.maximum(one.cycles.ns[steady - shift[row]], 1)
            wait = _by_cycle(matched, times.wait[row], mine, steady)
            transfer = _by_cycle(matched, times.transfer[row], mine, steady)
            late = mine & (times.late == row)
            cause, share = _main_cause(times, late)
            of_ranks.append(
                RankStage(
                    rank=matched.ranks[row],
                    stage=STAGES[code],
                    calls=calls,
                    wait_ns=float(np.median(wait)),
                    transfer_ns=float(np.median(transfer)),
                    wait_share=float(np.median(wait / ns)),
                    transfer_share=float(np.median(transfer / ns)),
                    fused=fused,
                    late_share=float(late.sum() / mine.sum()),
                    late_ns=float(np.median(_by_cycle(matched, lateness, late, steady))),
                    lateness_share=float(lateness[late].sum() / in_all),
                    cause=cause,
                    cause_share=share,
                    end_skew_ns=float(np.median(skew[row][mine])),
                )
            )
        rows += [_over_ranks(of_ranks), *of_ranks]
    return rows


def _over_ranks(rows: Sequence[RankStage]) -> RankStage:
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


def _path_rows(
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
