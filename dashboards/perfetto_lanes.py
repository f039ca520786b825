"""Slices of one track laid out so that a viewer loses none: on a lane they nest.

A viewer draws a track as a stack: a slice that begins inside another and ends after it cannot be
drawn there. Such slices go to a further lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.columns import Bool, Int


@dataclass(frozen=True)
class Order:
    """Begins and ends in the order in which they happen: the slice, and whether it begins."""

    slice: Int
    begin: Bool


def lanes(start: Int, end: Int) -> Int:
    """The lane of each slice, from 0, as few as the first free one gives."""
    order = np.lexsort((-end, start))
    first, last = start[order], end[order]
    lane = np.zeros(len(start), np.int64)
    if len(start) < 2 or (first[1:] >= np.maximum.accumulate(last)[:-1]).all():
        return lane
    stacks: list[list[int]] = []
    for row, begins, ends in zip(order.tolist(), first.tolist(), last.tolist(), strict=True):
        lane[row] = _free(stacks, begins, ends)
        stacks[lane[row]].append(ends)
    return lane


def _free(stacks: list[list[int]], begins: int, ends: int) -> int:
    """The first lane on which the slice nests; what has ended by then is taken off the lanes."""
    for number, stack in enumerate(stacks):
        while stack and stack[-1] <= begins:
            stack.pop()
        if not stack or stack[-1] >= ends:
            return number
    stacks.append([])
    return len(stacks) - 1


def in_order(start: Int, end: Int) -> Order:
    """The begins and ends of slices that nest on their lane.

    At one moment: what ends, the inner first; what has no length; what begins, the outer first.
    """
    count = len(start)
    row = np.arange(count)
    slices = np.concatenate((row, row))
    begin = np.concatenate((np.ones(count, bool), np.zeros(count, bool)))
    time = np.concatenate((start, end))
    point = np.tile(end == start, 2)
    phase = np.where(point, 1, np.where(begin, 2, 0))
    # The outer slice begins earlier or ends later; of equal ones that of the earlier row is it.
    extent = np.concatenate((-end, -start))
    inner = np.concatenate((row, -row))
    tie = np.where(point, slices, 0)
    inner = np.where(point, ~begin, inner)
    extent = np.where(point, 0, extent)
    order = np.lexsort((inner, extent, tie, phase, time))
    return Order(slices[order], begin[order])
