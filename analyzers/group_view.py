"""All ranks of a run together: matched, on one clock, with what each waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specscope.analyzers import (
    bandwidth,
    collective_times,
    collectives,
    critical_path,
    fused_bounds,
    group_gates,
    group_joint,
    group_left_out,
    group_parts,
    group_sums,
    group_words,
    idle_together,
    message_sizes,
    process_groups,
)
from specscope.analyzers.activities import Rules
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.collective_match import Matched
from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.group_align import aligned, whole_cycles
from specscope.analyzers.group_parts import RECORDED, Part
from specscope.analyzers.group_rows import Group, Measured
from specscope.analyzers.message_sizes import Models
from specscope.analyzers.process_groups import BY_TP, LISTED
from specscope.analyzers.rank import Rank
from specscope.traces.run import Note, Run

# With so few steady cycles the first is not left out.
_FEWEST_CYCLES = 3
# Notes of the assembly that say that the files are not of one capture.
_NOT_ONE_RUN = ("times_apart", "world_size_differs", "rank_beyond_world")


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
    return group_left_out.counted(
        _by_groups(run, members, known, found_on, lead, models or Models()), members, found_on
    )


def _by_groups(
    run: Run,
    members: Sequence[Member],
    known: Sequence[Attribution | None],
    found_on: Sequence[Collectives],
    lead: tuple[str, int | None] | None,
    models: Models,
) -> Group:
    """The members as one process group or as several, as far as something says their groups."""
    numbers = tuple(one.number for one in members)
    tp = run.context.get("tp")
    found = group_parts.split(members, found_on, process_groups.assign(members, found_on, tp))
    work = _Work(run, lead, models)
    if not found.parts and not found.known:
        assumption = f"The {len(numbers)} ranks read are taken for one tensor-parallel group"
        expected = group_gates.expected_size(run)
        missing = group_gates.missing_of(range(expected or 0), numbers)
        return _one(work, members, known, found_on, missing, assumption)
    if not found.parts:
        return Group(numbers, refused=_NO_GROUP)
    if len(found.parts) == 1 and len(found.parts[0].who) == len(members) and not found.lost:
        part = found.parts[0]
        missing = group_gates.missing_of(part.group.ranks, numbers)
        whole = (
            f"of one process group of {len(part.group.ranks)}" if missing else "one process group"
        )
        assumption = f"The {len(numbers)} ranks read are {whole}{_known_by(part)}"
        return _one(work, members, known, part.collectives, missing, assumption)
    return group_joint.joined(
        members, known, found, [_part(work, members, known, part) for part in found.parts]
    )


_NO_GROUP = (
    "the collectives of the ranks belong to different process groups, of none of which two ranks "
    "were read; give the ranks of one group"
)


@dataclass(frozen=True)
class _Work:
    """What every group is measured with."""

    run: Run
    lead: tuple[str, int | None] | None
    models: Models


def _known_by(part: Part) -> str:
    said = {
        RECORDED: "as recorded on the collectives",
        LISTED: "as their files list it",
        BY_TP: "by the server's tp",
    }
    return f" ({', '.join(said[by] for by in part.by)})"


def _part(
    work: _Work, members: Sequence[Member], known: Sequence[Attribution | None], part: Part
) -> Group:
    """One of several process groups."""
    own = [members[index] for index in part.who]
    missing = group_gates.missing_of(part.group.ranks, [one.number for one in own])
    assumption = f"{part.group.title}{_known_by(part)}"
    found = _one(
        work, own, [known[index] for index in part.who], part.collectives, missing, assumption
    )
    rows = tuple(replace(row, group=part.group.title) for row in found.rows)
    fused = tuple(replace(row, group=part.group.title) for row in found.fused)
    return replace(
        found,
        title=part.group.title,
        rows=rows,
        fused=fused,
        missing=tuple(missing),
        path=(),
        critical=(),
    )


def _one(
    work: _Work,
    members: Sequence[Member],
    known: Sequence[Attribution | None],
    found_on: Sequence[Collectives],
    missing: Sequence[int],
    assumption: str,
) -> Group:
    """The members as one process group, of which ranks may be missing."""
    numbers = tuple(one.number for one in members)
    found = aligned(members, found_on)
    if isinstance(found, str):
        return Group(numbers, refused=found)
    matched, clocks, shift = found
    times = collective_times.measure(members, known, matched, clocks)
    if why := group_gates.after_matching(clocks, times):
        return Group(numbers, refused=why)
    whole = whole_cycles(members, shift)
    usable = [one for one in known if one is not None and not one.on_host]
    paths = None
    if len(usable) == len(members):
        bases = [one.base for one in members]
        paths = critical_path.walk(usable, bases, shift, whole, matched.stage, clocks, times)
    sizes = message_sizes.sizes_of(matched, members[0].cycles, work.run.context, work.models)
    size = None if missing else len(numbers)
    rates = bandwidth.rates(matched, times, sizes, size)
    measured = Measured(matched, clocks, times, paths, members[0].base, sizes, rates, shift)
    lead = group_sums.own_lead(members, shift, whole, work.lead)
    group = _group(members, measured, whole, lead, assumption)
    if lead is not None and lead != work.lead and group.rows:
        own, others = group_sums.batch_words(lead), group_sums.batch_words(work.lead)
        more = f"; its cycles are those of {own}, the headline's of {others}"
        group = replace(group, own_batch=own, assumption=group.assumption + more)
    if len(usable) == len(members):
        steady = np.array(group.cycles, np.int64)
        idle = idle_together.split(usable, [one.base for one in members], shift, clocks, steady)
        group = replace(group, idle=idle)
    lacks = group_gates.incomplete(missing, numbers)
    return replace(group, sentence=lacks) if lacks and group.sentence else group


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
    differing = [
        f"{one.title}: {line}" if one.title else line
        for one in group.measured_parts
        if one.measured is not None
        for line in one.measured.matched.differing
    ]
    differing += [
        f"{one.title}: all, for its ranks have no cycle of one kind and batch in common"
        for one in group.parts
        if one.measured is not None and not one.rows
    ]
    differing += group.lost
    if differing:
        shown = "; ".join(differing[:3]) + ("; ..." if len(differing) > 3 else "")
        found.append(
            Note("collectives_differ", f"Collectives left out of wait and transfer: {shown}")
        )
    found += [
        Note(
            "ranks_not_aligned",
            f"In {one.title} waiting cannot be told from transferring: {one.refused}",
            "give the traces of all ranks of the group, neither sampled nor filtered",
        )
        for one in group.parts
        if one.refused
    ]
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


def _group(
    members: Sequence[Member],
    measured: Measured,
    whole: range,
    lead: tuple[str, int | None] | None,
    assumption: str,
) -> Group:
    matched, times, shift = measured.matched, measured.times, measured.shift
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
        assumption=f"{assumption}; {_matched_by(matched)}",
        cycles=cycles,
        first_cycle=first,
        rows=tuple(rows),
        cycle_ns=cycle_ns,
        path=path,
        critical=critical,
        bandwidth=bandwidth.table(matched, times, measured.sizes, measured.rates, cycles),
        fused=tuple(fused_bounds.bounds(matched, times, measured.sizes, steady)),
        measured=measured,
    )


def _matched_by(matched: Matched) -> str:
    """How the collectives are matched, in words."""
    by = {
        "sequence": "recorded sequence number",
        "launch": "order within the same launch of the same cycle",
        "capture": "order in the capture",
    }[matched.by]
    return f"their collectives are matched by {by}"
