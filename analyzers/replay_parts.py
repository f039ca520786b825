"""Points and edges while a graph is put together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from specscope.analyzers.columns import Int
from specscope.analyzers.replay import Edges, Float, Graph


def column(value: Int | int, like: Int) -> Int:
    """`value` as an array as long as `like`."""
    return np.broadcast_to(np.asarray(value, np.int64), like.shape)


@dataclass
class Parts:
    """Grows by points, then by edges; an edge is never longer than what was measured."""

    _times: list[Float] = field(default_factory=list)
    _points: int = 0
    _edges: list[tuple[Int, Int, Float, Int, Int, Int, Int, Int, Int]] = field(default_factory=list)

    def points(self, time: Float) -> Int:
        """Numbers of new points that were measured at `time`."""
        self._times.append(time.astype(np.float64))
        numbers = np.arange(self._points, self._points + len(time))
        self._points += len(time)
        return numbers

    def edges(
        self,
        source: Int,
        target: Int,
        ns: Float | None,
        kind: int,
        *,
        rank: int,
        stage: Int | int = -1,
        what: Int | int = -1,
        count: Int | int = 0,
        item: Int | int = -1,
    ) -> None:
        """New edges, as long as measured where `ns` is None, else at most so."""
        measured = self._at(target) - self._at(source)
        length = measured if ns is None else np.minimum(ns, measured)
        parts = (column(kind, source), column(rank, source), column(stage, source))
        more = (column(what, source), column(count, source), column(item, source))
        self._edges.append((source, target, length, *parts, *more))

    def time(self, point: Int) -> Float:
        """Measured times of the points."""
        return self._at(point)

    def _at(self, point: Int) -> Float:
        if len(self._times) > 1:
            self._times = [np.concatenate(self._times)]
        return self._times[0][point] if self._times else np.empty(0)

    def graph(self) -> Graph:
        """Everything so far."""
        time = np.concatenate(self._times) if self._times else np.empty(0)
        if not self._edges:
            none = np.empty(0, np.int64)
            return Graph(
                time, Edges(none, none, np.empty(0), none, none, none, none, none, none)
            )
        columns = [np.concatenate(one) for one in zip(*self._edges, strict=True)]
        return Graph(time, Edges(*columns))
