"""The inside of graph launches by layer, module and operator, from captured graphs.

The time of a node is its op's own: what no earlier op of the same launch and stream covers.
Figures are medians over the launches in the counted cycles (over all launches where there is
no such cycle), then over the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specscope.analyzers.attribution import COLLECTIVES, Attribution
from specscope.analyzers.captured_graphs import CapturedGraph, graphs_of
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.coverage import counted_cycle
from specscope.analyzers.graph_layers import Node
from specscope.analyzers.graph_match import Reason, Replays, match
from specscope.analyzers.graph_rows import Graphs, Inside, Operator, Part, Range, Refused
from specscope.analyzers.links import GRAPH_LAUNCH, Ops
from specscope.analyzers.rank import Rank
from specscope.analyzers.words import STAGES, UNPLACED
from specscope.traces.graph_capture import CaptureTrace
from specscope.traces.run import Note

Float = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)


def inside_of(
    traces: Sequence[CaptureTrace],
    prepared: Sequence[Rank],
    attributed: Sequence[Attribution],
    counted: Sequence[Bool],
) -> tuple[Graphs, list[Note]]:
    """Every graph launch of every rank held against the captured graphs.

    `counted` are the cycles of each of `attributed` that the figures of the report speak of.
    """
    captured: list[CapturedGraph] = []
    notes: list[Note] = []
    for trace in traces:
        graphs, left_out = graphs_of(trace)
        captured += graphs
        notes += left_out
    placed = {one.number: (one, rows) for one, rows in zip(attributed, counted, strict=True)}
    views = [_Stages(rank, *placed.get(rank.tables.rank, (None, None))) for rank in prepared]
    replays = [(view, found) for view in views for found in match(view.rank, captured)]
    result = Graphs(
        captured=tuple(captured),
        inside=tuple(_inside(captured, replays)),
        refused=tuple(_refused(replays)),
        launches=sum(len(found.calls) for _, found in replays),
        mapped=sum(len(found.calls) for _, found in replays if found.fits),
        replayed=len({found.fits[0].content for _, found in replays if found.fits}),
        replays=tuple(found for _, found in replays),
    )
    return result, [*notes, *_notes(result, prepared)]


class _Stages:
    """The stage of each call of one rank, and whether the figures count it."""

    def __init__(self, rank: Rank, one: Attribution | None, rows: Bool | None) -> None:
        self.rank = rank
        n = len(rank.calls.start)
        self.stage = np.full(n, UNPLACED, np.int64)
        self.counts = np.ones(n, bool)
        if one is not None and rows is not None:
            self.stage = one.placed.stage_of_call.astype(np.int64)
            if rows.any():
                self.counts = counted_cycle(one, rows) >= 0


def own_ns(ops: Ops, rows: Int) -> Int:
    """Per launch and node the time of its op that no earlier one on its stream covers.

    `rows` are ops by launch and node, in order of start.
    """
    start, end, stream = ops.start[rows], ops.end[rows], ops.stream[rows]
    begin = start.copy()
    for one in np.unique(stream).tolist():
        here = stream == one
        covered = np.maximum.accumulate(np.where(here, end, np.iinfo(np.int64).min), axis=1)
        begin[:, 1:] = np.where(
            here[:, 1:], np.maximum(start[:, 1:], covered[:, :-1]), begin[:, 1:]
        )
    out: Int = np.maximum(end - begin, 0)
    return out


def _inside(
    captured: Sequence[CapturedGraph], replays: Sequence[tuple[_Stages, Replays]]
) -> list[Inside]:
    numbers = {id(graph): number for number, graph in enumerate(captured)}
    found: dict[tuple[int, tuple[Node, ...]], _Figures] = {}
    for view, one in replays:
        if not one.fits:
            continue
        stage = view.stage[one.calls]
        for code in np.unique(stage[view.counts[one.calls]]).tolist():
            rows = one.ops[(stage == code) & view.counts[one.calls]]
            key = (code, one.fits[0].content)
            figures = found.setdefault(key, _Figures(one.graph))
            figures.add(view.rank, one, rows)
    return [
        figures.result(STAGES[stage], numbers)
        for (stage, _), figures in sorted(found.items(), key=lambda item: item[0][0])
    ]


class _Figures:
    """The launches of one graph in one stage, gathered over the ranks."""

    def __init__(self, graph: CapturedGraph) -> None:
        self.graph = graph
        self.fits: dict[int, CapturedGraph] = {}
        self.kernels: list[str] = []
        self.ns: dict[int, list[Int]] = {}  # by rank: launches x nodes
        self.collective: dict[int, Bool] = {}

    def add(self, rank: Rank, one: Replays, rows: Int) -> None:
        """Launches of one rank, as rows of ops."""
        self.fits |= {id(graph): graph for graph in one.fits}
        self.kernels = self.kernels or [rank.ops.names[name] for name in rank.ops.name[rows[0]]]
        self.ns.setdefault(one.rank, []).append(own_ns(rank.ops, rows))
        self.collective[one.rank] = np.isin(rank.activity[rows[0]], COLLECTIVES)

    def result(self, stage: str, numbers: dict[int, int]) -> Inside:
        """The figures."""
        graph = self.graph
        every = [np.concatenate(pieces) for pieces in self.ns.values()]
        whole = _median([float(np.median(ns.sum(axis=1))) for ns in every])
        fits = sorted(self.fits.values(), key=lambda one: numbers[id(one)])

        def part(name: str, in_layer: bool, at: list[int], ns: float) -> Part:
            return Part(
                name=name,
                in_layer=in_layer,
                nodes=len(at),
                ns=ns,
                share=ns / whole if whole else 0.0,
                collective_ns=self._collective(at),
                layer_ns=self._layers(every, at) if in_layer else None,
            )

        layered = self._grouped(every, lambda _, node: node.layer is not None)
        parts = self._grouped(every, lambda _, node: (node.layer is not None, node.part))
        operators = self._grouped(
            every,
            lambda at, node: (node.operator, node.inner, "" if node.inner else self.kernels[at]),
        )
        return Inside(
            stage=stage,
            graph=numbers[id(fits[0])],
            titles=tuple(dict.fromkeys(one.title for one in fits)),
            ranks=tuple(sorted(self.ns)),
            launches=sum(len(ns) for ns in every),
            nodes=len(graph.nodes),
            forwards=1 + max(node.forward for node in graph.nodes),
            layers=graph.layers,
            layers_by=graph.layers_by,
            ns=whole,
            in_layers=next((part("", True, at, ns) for inside, at, ns in layered if inside), None),
            parts=tuple(part(name, inside, at, ns) for (inside, name), at, ns in parts),
            operators=tuple(
                Operator(*names, len(at), ns, ns / whole if whole else 0.0)
                for names, at, ns in operators
            ),
        )

    def _grouped(
        self, every: list[Int], key: Callable[[int, Node], Key]
    ) -> list[tuple[Key, list[int], float]]:
        """(key, places of its nodes, nanoseconds a launch), the largest first."""
        members: dict[Key, list[int]] = {}
        for at, node in enumerate(self.graph.nodes):
            members.setdefault(key(at, node), []).append(at)
        sums = [
            (name, at, _median([float(np.median(ns[:, at].sum(axis=1))) for ns in every]))
            for name, at in members.items()
        ]
        return sorted(sums, key=lambda row: (-row[2], str(row[0])))

    def _collective(self, at: list[int]) -> float:
        pieces = [
            np.concatenate(self.ns[rank])[:, at][:, self.collective[rank][at]].sum(axis=1)
            for rank in self.ns
        ]
        return _median([float(np.median(piece)) for piece in pieces])

    def _layers(self, every: list[Int], at: list[int]) -> Range | None:
        """Those nodes by layer and forward: the least, the median, the greatest."""
        members: dict[tuple[int, int | None, str], list[int]] = {}
        for place in at:
            node = self.graph.nodes[place]
            members.setdefault((node.forward, node.layer, node.layer_module), []).append(place)
        if not members:
            return None
        sums: Float = np.array(
            [[np.median(ns[:, group].sum(axis=1)) for group in members.values()] for ns in every]
        )
        ends = (sums.min(axis=1), np.median(sums, axis=1), sums.max(axis=1))
        return Range(*(float(np.median(end)) for end in ends))


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _refused(replays: Sequence[tuple[_Stages, Replays]]) -> list[Refused]:
    counts: dict[tuple[int, int, Reason], int] = {}
    for view, one in replays:
        if one.fits:
            continue
        stages, launches = np.unique(view.stage[one.calls], return_counts=True)
        for stage, count in zip(stages.tolist(), launches.tolist(), strict=True):
            key = (stage, one.ops.shape[1], one.reason)
            counts[key] = counts.get(key, 0) + count
    return [
        Refused(STAGES[stage], launches, ops, reason.text, reason.mend)
        for (stage, ops, reason), launches in sorted(
            counts.items(), key=lambda item: (item[0][0], item[0][1], item[0][2].text)
        )
    ]


def _notes(graphs: Graphs, prepared: Sequence[Rank]) -> list[Note]:
    if not graphs.captured:
        return [Note("graph_none", "no whole graph in the capture traces: nothing is mapped")]
    if not graphs.launches:
        called = any((rank.calls.kind == GRAPH_LAUNCH).any() for rank in prepared)
        why = "no op of a graph launch on record" if called else "no graph launch in the trace"
        return [Note("graph_none", f"{why}: the captured graphs have nothing to be mapped to")]
    return [
        Note(
            "graph_not_mapped",
            f"{one.launches} graph launch{'es' if one.launches > 1 else ''} of {one.stage} "
            f"not mapped: {one.reason}",
            one.mend,
        )
        for one in graphs.refused
    ]
