"""Who does the work on many files or runs: this process, or an engine beyond it.

An engine takes a function and items, and gives back every item's result exactly once, whatever
happened on the way. What an item fails with is a result too (`Failed`), so that a file that
cannot be read has the same line wherever it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .errors import SpecscopeError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failed:
    """What an item failed with."""

    error: SpecscopeError


class Engine(Protocol):
    """Does work on many items, in any order and any place."""

    def each(
        self, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result | Failed]]:
        """(place of an item, its result) for every item, once, as each is done.

        `work`, the items and the results must be such as pickle takes; `str(item)` names an item
        in messages. A SpecscopeError of `work` becomes `Failed`, any other error is raised here.
        """


class InProcess:
    """One item after another, in this process."""

    def each(
        self, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result | Failed]]:
        """See Engine."""
        for place, item in enumerate(items):
            yield place, outcome(work, item)


def outcome(work: Callable[[Item], Result], item: Item) -> Result | Failed:
    """The result of one item, or what it failed with."""
    try:
        return work(item)
    except SpecscopeError as error:
        return Failed(error)


def in_order(
    engine: Engine,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    on_done: Callable[[Item, float], None],
) -> list[Result]:
    """The results in the order of the items; raises what the first failed item failed with.

    `on_done` is told each item that is done, and the share of all that are.
    """
    found: dict[int, Result | Failed] = {}
    for place, result in engine.each(work, items):
        found[place] = result
        on_done(items[place], len(found) / len(items))
    results: list[Result] = []
    for place in range(len(items)):
        result = found[place]
        if isinstance(result, Failed):
            raise result.error
        results.append(result)
    return results
