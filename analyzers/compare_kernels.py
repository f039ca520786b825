"""Kernels that only one of two runs has, by stage and activity, then family, then full name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specscope.analyzers.compare_report import KernelChange
from specscope.analyzers.compare_series import Kernel, Series

# A kernel that runs in fewer cycles may have been missed on the other side.
_OFTEN: Final = 0.5


def only_in_one(a: Series, b: Series, *, shared_stages: bool = False) -> list[KernelChange]:
    """Removed and added kernels, the longest first within each stage and activity.

    With `shared_stages` only in stages that both have: against plain decoding everything in the
    draft is new, which says nothing.
    """
    found = [*_extra("a", a, b), *_extra("b", b, a)]
    if shared_stages:
        both_have = {key[0] for key in a.kernels} & {key[0] for key in b.kernels}
        found = [one for one in found if one.stage in both_have]
    places = {"a": set[tuple[str, str]](), "b": set[tuple[str, str]]()}
    for one in found:
        places[one.side].add((one.stage, one.activity))
    both = places["a"] & places["b"]
    marked = [
        KernelChange(**{**vars(one), "replaces": (one.stage, one.activity) in both})
        for one in found
    ]
    return sorted(
        marked, key=lambda one: (one.stage, one.activity, one.side, -(one.ns or 0.0), one.name)
    )


def _extra(side: str, own: Series, other: Series) -> Iterator[KernelChange]:
    """Kernels of `own` that the other never ran in that stage and activity."""
    for (stage, activity, name), kernel in own.kernels.items():
        if (stage, activity, name) in other.kernels or not _is_usual(kernel, own):
            continue
        over = max(own.rounds, 1)
        ns = kernel.ns / over if own.cycles else None
        yield KernelChange(
            side, stage, activity, kernel.family, name, kernel.calls / over, ns, False
        )


def _is_usual(kernel: Kernel, of: Series) -> bool:
    """Does it run in most cycles? Without cycles whatever ran counts."""
    return len(kernel.cycles) >= _OFTEN * of.cycles
