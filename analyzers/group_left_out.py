"""Collectives that were left out of matching: with too many, no sentence stands on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from specscope.analyzers.collectives import Collectives, Member
from specscope.analyzers.columns import Bool
from specscope.analyzers.group_align import whole_cycles
from specscope.analyzers.group_rows import Group

# Of the collectives of a rank in the cycles that its groups share; a median over the rest would
# be of something else.
MOST_LEFT_OUT: Final = 0.1


def counted(group: Group, members: Sequence[Member], collectives: Sequence[Collectives]) -> Group:
    """The group with counts of all that is on record, and refusing to answer for too little."""
    if group.refused:
        return group
    on_record = {one.number: len(of.op) for one, of in zip(members, collectives, strict=True)}
    known = dict.fromkeys(on_record, 0)
    for part in group.measured_parts:
        assert part.measured is not None
        matched = part.measured.matched
        for number, total in zip(matched.ranks, matched.total, strict=True):
            known[number] += total
    nowhere = {number: on_record[number] - known[number] for number in on_record}
    if group.several:
        group = replace(group, parts=tuple(_with_totals(one, nowhere) for one in group.parts))
    else:
        group = _with_totals(group, nowhere)
    why = _why(group, members, collectives)
    return replace(group, left_out=why, sentence=why) if why and group.rows else group


def _with_totals(part: Group, nowhere: dict[int, int]) -> Group:
    """What is in no measured group may be of this one."""
    if part.measured is None:
        return part
    matched = part.measured.matched
    total = tuple(
        own + nowhere[number] for number, own in zip(matched.ranks, matched.total, strict=True)
    )
    measured = replace(part.measured, matched=replace(matched, total=total))
    return replace(part, measured=measured)


def _why(group: Group, members: Sequence[Member], collectives: Sequence[Collectives]) -> str:
    """The rank with most left out, and why; empty where it is little on every rank."""
    worst, most = "", MOST_LEFT_OUT
    by_number = {one.number: one for one in members}
    for one, of in zip(members, collectives, strict=True):
        asked = _shared(group, by_number, one, of)
        matched = [
            part.measured.matched.op[part.measured.matched.ranks.index(one.number)]
            for part in group.measured_parts
            if part.measured is not None and one.number in part.measured.matched.ranks
        ]
        left = asked & ~np.isin(of.op, np.concatenate(matched) if matched else [])
        share = float(left.sum() / max(asked.sum(), 1))
        if share > most:
            most = share
            worst = (
                f"{int(left.sum()):,} of {int(asked.sum()):,} collectives of rank {one.number} are "
                f"left out of matching{_reason(group, one.number)}, so neither the wire nor a late "
                "rank can be named."
            )
    return worst


def _shared(group: Group, by_number: Mapping[int, Member], one: Member, of: Collectives) -> Bool:
    """Rows in whole cycles that all ranks of the rank's groups have; all rows without cycles."""
    if one.cycles is None or not len(one.cycles):
        return np.ones(len(of.op), dtype=bool)
    first, end = 0, len(one.cycles)
    for part in group.measured_parts:
        assert part.measured is not None
        ranks, shift = part.measured.matched.ranks, part.measured.shift
        if one.number in ranks:
            whole = whole_cycles([by_number[number] for number in ranks], shift)
            more = shift[ranks.index(one.number)]
            first, end = max(first, whole.start - more), min(end, whole.stop - more)
    inside: Bool = (of.cycle >= first) & (of.cycle < end)
    return inside


def _reason(group: Group, number: int) -> str:
    """Of the rank's groups that are refused the first, else what differs."""
    for part in group.parts:
        if part.refused and number in part.ranks:
            return f" ({part.title}: {part.refused.partition(' (')[0]})"
    differing = [
        line
        for part in group.measured_parts
        if part.measured is not None and number in part.ranks
        for line in part.measured.matched.differing
    ]
    lines = [*group.lost, *differing]
    return f" ({lines[0]})" if lines else ""
