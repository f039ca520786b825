"""Which captured graph a graph launch replays: by count, by kind of node, by kernel names.

The i-th node of the capture is the i-th op of the replay in time. That is true only where the
graph is one chain, so the counts have to agree, and at each place the kind of node and, where
the capture has them, the kernel's name. A replay that fits no captured graph, or several that
mean different things, is not mapped; the reason is a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specscope.analyzers import links
from specscope.analyzers.captured_graphs import CapturedGraph
from specscope.analyzers.columns import Int
from specscope.analyzers.graph_layers import Node
from specscope.analyzers.kernel_names import is_stand_in, same_kernel
from specscope.analyzers.rank import Rank
from specscope.traces.sniff import printable

_NODE_KIND = {links.LAUNCH: "kernel", links.COPY: "copy", links.SET: "set"}
_NAME_CHARS = 60
_OTHER_TRACE = "give the capture trace of this server and this shape"


@dataclass(frozen=True)
class Reason:
    """Why launches are not mapped, and what to do; empty where they are."""

    text: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Replays:
    """Launches of one rank that run the same ops in the same order.

    `ops` has a row for each launch and a column for each node, in order. `fits` are the
    captured graphs that they replay, all of one content; empty where `reason` says why none is.
    """

    rank: int
    calls: Int
    ops: Int
    fits: tuple[CapturedGraph, ...]
    reason: Reason = Reason()

    @property
    def graph(self) -> CapturedGraph:
        """What is replayed: the first that fits, without what the others say otherwise."""
        return self.fits[0].agreed(self.fits[1:])


def match(rank: Rank, graphs: Sequence[CapturedGraph]) -> list[Replays]:
    """The graph launches of one rank, each kind with what it replays.

    A rank with captured graphs of its own is held against those alone.
    """
    own = [graph for graph in graphs if graph.rank == rank.tables.rank]
    found = []
    for calls, ops in _launches(rank):
        fits, reason = _fit(_Replay(rank, ops[0]), own or graphs)
        found.append(Replays(rank.tables.rank, calls, ops, tuple(fits), reason))
    return _in_one_order(rank, found)


def _in_one_order(rank: Rank, found: list[Replays]) -> list[Replays]:
    """Launches of the same kernels in another order than most are refused where no name tells.

    A graph on one stream runs in one order, so that some of the times are wrong then.
    """
    alike: dict[bytes, list[Replays]] = {}
    for one in found:
        if one.fits and any(graph.named < len(graph.nodes) for graph in one.fits):
            alike.setdefault(np.sort(rank.ops.name[one.ops[0]]).tobytes(), []).append(one)
    doubtful: set[int] = set()
    for group in alike.values():
        counts = [len(one.calls) for one in group]
        usual = counts.index(max(counts)) if 2 * max(counts) > sum(counts) else None
        doubtful |= {id(one) for place, one in enumerate(group) if place != usual}
    reason = Reason(
        "other launches run the same kernels in another order, and the capture has no kernel names"
    )
    return [replace(one, fits=(), reason=reason) if id(one) in doubtful else one for one in found]


def _launches(rank: Rank) -> list[tuple[Int, Int]]:
    """Graph launches by what they run: the calls, and their ops in order of time."""
    ops, calls = rank.ops, rank.calls
    linked = np.flatnonzero(ops.call >= 0)
    linked = linked[calls.kind[ops.call[linked]] == links.GRAPH_LAUNCH]
    if not len(linked):
        return []
    linked = linked[np.lexsort((ops.start[linked], ops.call[linked]))]
    first = np.flatnonzero(np.diff(ops.call[linked], prepend=-1))
    alike: dict[bytes, list[Int]] = {}
    for rows in np.split(linked, first[1:]):
        several = bool((ops.stream[rows] != ops.stream[rows[0]]).any())
        key = (ops.name[rows] * len(links.OP_KINDS) + ops.kind[rows]).tobytes()
        alike.setdefault(key + bytes([several]), []).append(rows)
    groups = [np.stack(rows) for rows in alike.values()]
    return [(ops.call[rows[:, 0]], rows) for rows in groups]


class _Replay:
    """What one launch ran, in order of time."""

    def __init__(self, rank: Rank, rows: Int) -> None:
        ops = rank.ops
        self.kinds = [links.OP_KINDS[kind] for kind in ops.kind[rows].tolist()]
        self.names = [ops.names[name] for name in ops.name[rows].tolist()]
        self.streams = len(np.unique(ops.stream[rows]))

    def __len__(self) -> int:
        return len(self.kinds)

    def differences(self, graph: CapturedGraph) -> list[int]:
        """Places at which the captured graph, of the same count, is another one."""
        return [at for at, node in enumerate(graph.nodes) if not self._is(at, node)]

    def _is(self, at: int, node: Node) -> bool:
        kind, kernel = _NODE_KIND[node.kind], node.kernel
        name = self.names[at]
        if kind != "kernel":
            return self.kinds[at] == kind or (self.kinds[at] == "kernel" and is_stand_in(name))
        if self.kinds[at] != "kernel":
            return False
        return kernel is None or same_kernel(kernel, name)


def _fit(replay: _Replay, graphs: Sequence[CapturedGraph]) -> tuple[list[CapturedGraph], Reason]:
    """The captured graphs that it may be a replay of, or why there are none."""
    sizes = sorted({len(graph.nodes) for graph in graphs})
    alike = [graph for graph in graphs if len(graph.nodes) == len(replay)]
    if not alike:
        shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        text = f"{len(replay)} ops in the replay, {shown or 'none'} in the captured graphs"
        return [], Reason(text, _OTHER_TRACE)
    apart = [(replay.differences(graph), graph) for graph in alike]
    fits = [graph for differences, graph in apart if not differences]
    if not fits:
        differences, graph = min(apart, key=lambda pair: len(pair[0]))
        return [], Reason(_difference(replay, graph, differences), _OTHER_TRACE)
    if replay.streams > 1 and any(graph.named < len(graph.nodes) for graph in fits):
        return [], Reason(
            f"{len(replay)} ops on {replay.streams} streams, and the capture has no kernel names: "
            "their order in time need not be that of the capture"
        )
    meanings = {graph.content for graph in fits}
    if len(meanings) > 1:
        return [], Reason(
            f"{len(replay)} ops fit {len(meanings)} captured graphs with different modules, "
            "and nothing tells which was replayed",
            "give only the capture traces of graphs that this server replays",
        )
    return fits, Reason()


def _difference(replay: _Replay, graph: CapturedGraph, differences: list[int]) -> str:
    at = differences[0]
    node = graph.nodes[at]
    captured = node.kernel or f"a {_NODE_KIND[node.kind]}"
    ran = replay.names[at]
    streams = f"; its ops ran on {replay.streams} streams" if replay.streams > 1 else ""
    return (
        f"{len(replay)} ops in the replay and in {printable(graph.title, 60)}, but "
        f"{len(differences)} of them differ, first number {at}: "
        f"{printable(ran, _NAME_CHARS)} ran, {printable(captured, _NAME_CHARS)} was captured"
        f"{streams}"
    )
