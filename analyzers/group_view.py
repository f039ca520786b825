"""All ranks of a run together: matched, on one clock, with what each waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specscope.analyzers import (
    bandwidth,
    collective_match,
    collective_times,
    collectives,
    critical_path,
    group_gates,
    group_sums,
    group_words,
    message_sizes,
)
from specscope.analyzers.activities import Rules
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.clocks import Clocks, align
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Int
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.group_rows import Group, Measured
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.rank import Rank
from specscope.traces.run import Note, Run

# With so few steady cycles the first is not left out.
_FEWEST_CYCLES = 3
# Notes of the assembly that say that the files are not of one capture.
_NOT_ONE_RUN = ("times_apart", "world_size_differs")


def together(
    run: Run,
    prepared: Sequence[Rank],
    attributed: Sequence[Attribution],
    lead: tuple[str, int | None] | None,
    rules: Rules,
    models: Models | None = None,
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
    if why := group_gates.before_matching(members):
        return Group(numbers, refused=why)
    found_on = [collectives.collectives_of(one, rules.families) for one in members]
    if not any(len(one.op) for one in found_on):
        return None  # ranks that do not speak to each other, or only whole graph replays on record
    found = _aligned(members, found_on)
    if isinstance(found, str):
        return Group(numbers, refused=found)
    matched, clocks, shift = found
    times = collective_times.measure(members, known, matched, clocks)
    if why := group_gates.after_matching(clocks, times):
        return Group(numbers, refused=why)
    whole = _whole(members, shift)
    usable = [one for one in known if one is not None and not one.on_host]
    paths = None
    if len(usable) == len(members):
        bases = [one.base for one in members]
        paths = critical_path.walk(usable, bases, shift, whole, matched, clocks, times)
    sizes = message_sizes.sizes_of(matched, members[0].cycles, run.context, models or Models())
    rates = bandwidth.rates(matched, times, sizes, _group_size(run, numbers))
    measured = Measured(matched, clocks, times, paths, members[0].base, sizes, rates)
    group = _group(members, measured, shift, whole, lead)
    missing = group_gates.incomplete(run, numbers)
    return replace(group, sentence=missing) if missing and group.sentence else group


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
    members: Sequence[Member], of_ranks: Sequence[Collectives]
) -> tuple[Matched, Clocks, tuple[int, ...]] | str:
    """Matched collectives and clocks: of the possible shifts of cycles the one that fits best."""
    best: tuple[Matched, Clocks, tuple[int, ...]] | None = None
    why = ""
    for shift in _shifts(members):
        matched = collective_match.match(members, of_ranks, shift)
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


def _group_size(run: Run, numbers: tuple[int, ...]) -> int | None:
    """Ranks of the group, where all of it was read: by the server, else by the files."""
    expected = group_gates.expected_size(run)
    return len(numbers) if expected in (None, len(numbers)) else None


def _group(
    members: Sequence[Member],
    measured: Measured,
    shift: Sequence[int],
    whole: range,
    lead: tuple[str, int | None] | None,
) -> Group:
    matched, times = measured.matched, measured.times
    steady = group_sums.steady_cycles(members, shift, whole, lead)
    first = group_sums.first_cycle(matched, times, whole, steady)
    if first is not None and len(steady) > _FEWEST_CYCLES:
        steady = steady[steady != first.cycle]
    rows = group_sums.stage_rows(members, matched, shift, times, steady) if len(steady) else []
    path, cycle_ns, critical = group_sums.path_rows(matched.ranks, measured.paths, steady)
    cycles = tuple(steady.tolist())
    return Group(
        ranks=matched.ranks,
        sentence=group_words.sentence(rows),
        assumption=_assumption(matched),
        cycles=cycles,
        first_cycle=first,
        rows=tuple(rows),
        cycle_ns=cycle_ns,
        path=path,
        critical=critical,
        bandwidth=bandwidth.table(matched, times, measured.sizes, measured.rates, cycles),
        measured=measured,
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
