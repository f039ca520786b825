"""The answer in one sentence: is the wire slow, or is a rank late?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specscope.analyzers.group_rows import Group, RankStage
from specscope.analyzers.words import percent

# Under this share of the cycle neither is worth a word.
SMALL = 0.05
# One outweighs the other from this ratio on.
OUTWEIGHS = 2.0
# A rank with no more of the lateness of a stage than this is not the late one, and a cause with
# no more of a rank's lateness is not called most of it.
MOSTLY = 0.5
# Process groups that the sentence names.
_MOST_GROUPS = 4
# Where no rank waits this share of the cycle, nobody is named.
WORTH_A_NAME = 0.01

_WHY = {
    "previous": "its part of the collective before ends later, which is the wire's doing",
    "compute": "its compute takes longer",
    "copy": "its copies take longer",
    "host": "its host comes late with the launch",
    "device": "its GPU idles longer between launched ops",
}


def sentence(rows: Sequence[RankStage]) -> str:
    """What the collectives cost: transferring and waiting, each as a share of the cycle."""
    over = [row for row in rows if row.rank is None]
    if not over:
        return ""
    transfer = sum(row.transfer_share for row in over)
    return _answer(rows, transfer, _by_stage(over))


def sentence_of_groups(groups: Sequence[Group]) -> str:
    """The same for several process groups; of groups with ranks that were not read only that."""
    whole = [one for one in groups if one.rows and not one.missing]
    lacking = [f"{one.title}: {one.sentence}" for one in groups if one.rows and one.missing]
    rows = [row for one in whole for row in one.rows if row.rank is not None]
    if not rows:
        return " ".join(lacking)
    of_ranks: dict[int | None, float] = {}
    for row in rows:
        of_ranks[row.rank] = of_ranks.get(row.rank, 0.0) + row.transfer_share
    shares = [(one.title, _transfer_of(one)) for one in whole]
    shares.sort(key=lambda of: -of[1])
    shown = [f"{share_words(share)} in {title}" for title, share in shares[:_MOST_GROUPS]]
    more = f", {len(shares) - _MOST_GROUPS} groups less" if len(shares) > _MOST_GROUPS else ""
    by_group = f" ({', '.join(shown)}{more})"
    return " ".join([_answer(rows, float(np.median(list(of_ranks.values()))), by_group), *lacking])


def _transfer_of(group: Group) -> float:
    return sum(row.transfer_share for row in group.rows if row.rank is None)


def _answer(rows: Sequence[RankStage], transfer: float, inside: str) -> str:
    """The sentence; `inside` says where the transfer lies."""
    waits: dict[int, float] = {}
    for row in rows:
        if row.rank is not None:
            waits[row.rank] = waits.get(row.rank, 0.0) + row.wait_share
    waiting = max(waits, key=lambda rank: waits[rank])
    wait = waits[waiting]
    who = _who(rows) if wait >= WORTH_A_NAME else ""
    sent = f"transferring takes {percent(transfer)} of the cycle{inside}"
    kept = f"waiting for a late rank at most {percent(wait)} (rank {waiting})"
    if transfer < SMALL and wait < SMALL:
        return f"Neither is the wire slow nor a rank late: {sent}, {kept}."
    if transfer >= OUTWEIGHS * wait:
        return f"The wire, not a late rank: {sent}, {kept}{who}."
    if wait >= OUTWEIGHS * transfer:
        return f"A late rank, not the wire: {kept}, {sent}{who}."
    return f"Both the wire and a late rank: {sent}, {kept}{who}."


def _by_stage(over: Sequence[RankStage]) -> str:
    """The share inside each stage, the largest first."""
    ordered = sorted(over, key=lambda row: -row.transfer_share)
    named = [f"{share_words(row.transfer_share)} inside {_stage(row.stage)}" for row in ordered]
    return f" ({', '.join(named)})" if len(named) > 1 else ""


def share_words(share: float) -> str:
    """A share, `under 1 %` where it is."""
    return "under 1 %" if share < 0.01 else percent(share, 0)


def _stage(stage: str) -> str:
    return "the " + stage.replace("_", "-") if stage in ("draft", "draft_extend") else stage


def _who(rows: Sequence[RankStage]) -> str:
    """The rank that is late most, in the stage where the others wait longest."""
    per_rank = [row for row in rows if row.rank is not None]
    waits: dict[tuple[str | None, str], float] = {}
    for row in per_rank:
        where = row.group, row.stage
        waits[where] = waits.get(where, 0.0) + row.wait_share
    worst = max(sorted(waits, key=str), key=lambda where: waits[where], default=None)
    late = max(
        (row for row in per_rank if (row.group, row.stage) == worst),
        key=lambda row: row.lateness_share or 0.0,
        default=None,
    )
    if worst is None or late is None or not late.late_share:
        return "; the ranks are late in turn"
    if (late.lateness_share or 0.0) <= MOSTLY:
        return "; the ranks are late in turn"
    why = ""
    if late.cause in _WHY:
        mostly = "mostly" if (late.cause_share or 0.0) > MOSTLY else "partly"
        why = f", {mostly} because {_WHY[late.cause]}"
    of = f" of {worst[0]}" if worst[0] else ""
    return (
        f"; in {worst[1].replace('_', '-')}{of} rank {late.rank} is late, by "
        f"{_us(late.late_ns or 0.0)} a cycle and last in {percent(late.late_share, 0)} of the "
        f"collectives{why}"
    )


def _us(ns: float) -> str:
    return f"{ns / 1e3:,.0f} us" if ns >= 10_000 else f"{ns / 1e3:.1f} us"
