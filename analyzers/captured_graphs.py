"""The graphs in a graph-capture trace: their nodes in order, each with module, layer, operator.

What a thread launches between the begin and the end of a stream capture becomes the nodes of a
graph, in that order. Modules and operators are the ranges of that thread that hold the launch
call; `graph_layers` makes layers of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Final

import numpy as np

from specscope.analyzers.columns import Bool, Int, codes, ints, which
from specscope.analyzers.graph_layers import Call, Node, nodes_of
from specscope.analyzers.links import CALL_KINDS, COPY, GRAPH_LAUNCH, LAUNCH, SET, thread_index
from specscope.analyzers.rank import ANNOTATION, MODULE, OPERATOR, RANGE_KINDS
from specscope.traces.graph_capture import CaptureTrace
from specscope.traces.kineto_names import CAPTURE_BEGIN, CAPTURE_END, MODULE_PREFIX
from specscope.traces.run import Note
from specscope.traces.sniff import printable

# An annotation around a capture that names its shape: capture_32_FULL.
_SHAPE: Final = re.compile(r"capture_\w+")
_SHAPE_IN_FILE: Final = re.compile(r"(?:^|_)(bs_\d+)(?=_|\.)")


@dataclass(frozen=True)
class CapturedGraph:
    """One captured graph. `content` is what its nodes mean, whatever kernels they run."""

    source: str
    rank: int | None
    shape: str
    nodes: tuple[Node, ...]
    layers_by: str

    @cached_property
    def content(self) -> tuple[Node, ...]:
        """The nodes without what differs between two batch sizes of one model.

        That is the kernel, and the function that launched it.
        """
        return tuple(node._replace(kernel=None, inner="") for node in self.nodes)

    def agreed(self, others: Sequence[CapturedGraph]) -> CapturedGraph:
        """This graph with what others of the same content say otherwise left out."""
        nodes = list(self.nodes)
        for other in others:
            for at, (mine, its) in enumerate(zip(nodes, other.nodes, strict=True)):
                if mine.inner != its.inner:
                    nodes[at] = nodes[at]._replace(inner="")
        return replace(self, nodes=tuple(nodes))

    @cached_property
    def named(self) -> int:
        """Nodes with the kernel's name on record."""
        return sum(node.kernel is not None for node in self.nodes)

    @cached_property
    def layers(self) -> int:
        """Distinct layers, those of two models in one graph counted apart."""
        inside = (node for node in self.nodes if node.layer is not None)
        return len({(node.layer, node.layer_module) for node in inside})

    @property
    def title(self) -> str:
        """What to call it: its shape, else the file it is from."""
        return self.shape or PurePath(self.source).name


def graphs_of(trace: CaptureTrace) -> tuple[list[CapturedGraph], list[Note]]:
    """The graphs that were captured in one trace, in order of time, and what was left out."""
    view = _View(trace)
    graphs, notes = [], []
    unfinished = nested = 0
    for begin, end in view.captures():
        if end is None:
            unfinished += 1
            continue
        launches, has_graph = view.launches(begin, end)
        if has_graph:
            nested += 1
        elif len(launches):
            graphs.append(view.graph(begin, end, launches))
    title = printable(PurePath(trace.path).name, 120)
    for count, why in (
        (unfinished, "begun and not ended on record"),
        (nested, "with a graph launched inside"),
    ):
        if count:
            text = f"{title}: {count} graph captures {why}: left out"
            notes.append(Note("graph_capture_left_out", text))
    if trace.losses.num_rows:
        count = sum(trace.losses["count"].to_pylist())
        text = f"{title}: {count} losses in the capture trace; first: {trace.losses['reason'][0]}"
        notes.append(Note("graph_capture_losses", text, "record it again"))
    return graphs, notes


class _View:
    """The calls and ranges of a capture trace as arrays."""

    def __init__(self, trace: CaptureTrace) -> None:
        self.trace = trace
        calls, ranges = trace.calls, trace.ranges
        n = calls.num_rows
        pid = np.concatenate((ints(calls, "pid"), ints(ranges, "pid")))
        tid = np.concatenate((ints(calls, "tid"), ints(ranges, "tid")))
        thread, _ = thread_index(pid, tid)
        self.thread, self.range_thread = thread[:n], thread[n:]
        self.kind = which(calls, "kind", CALL_KINDS)
        self.name, self.names = codes(calls, "name")
        self.kernel, self.kernels = codes(calls, "kernel")
        self.start, self.end = ints(calls, "start_ns"), ints(calls, "end_ns")
        self.range_kind = which(ranges, "kind", RANGE_KINDS)
        self.range_name, self.range_names = codes(ranges, "name")
        self.range_start, self.range_end = ints(ranges, "start_ns"), ints(ranges, "end_ns")

    def captures(self) -> Iterator[tuple[int, int | None]]:
        """(call that begins it, call that ends it, None: not on record), by start."""
        begins, ends = (self._calls_named(p) for p in (CAPTURE_BEGIN, CAPTURE_END))
        border = np.flatnonzero(begins | ends)
        opened: dict[int, int] = {}
        found: list[tuple[int, int | None]] = []
        for call in border[np.argsort(self.start[border], kind="stable")].tolist():
            thread = int(self.thread[call])
            before = opened.pop(thread, None)
            if begins[call]:
                opened[thread] = call
            if before is not None:
                found.append((before, None if begins[call] else call))
        found += [(call, None) for call in opened.values()]
        return iter(sorted(found, key=lambda pair: int(self.start[pair[0]])))

    def _calls_named(self, pattern: str) -> Bool:
        matches = re.compile(pattern).match
        hits: Bool = np.array([bool(matches(name)) for name in self.names] + [False], dtype=bool)
        return hits[self.name]

    def launches(self, begin: int, end: int) -> tuple[Int, bool]:
        """The calls of a capture that make nodes, in order; and does one launch a graph?

        A call inside another one (a driver call under its runtime call) is no node of its own.
        """
        inside = (self.thread == self.thread[begin]) & (self.start > self.start[begin])
        inside &= self.start < self.start[end]
        wanted = np.flatnonzero(inside & np.isin(self.kind, (LAUNCH, COPY, SET, GRAPH_LAUNCH)))
        wanted = wanted[np.lexsort((-self.end[wanted], self.start[wanted]))]
        reach = np.maximum.accumulate(self.end[wanted])
        outer = np.ones(len(wanted), bool)
        outer[1:] = self.end[wanted[1:]] > reach[:-1]
        wanted = wanted[outer]
        return wanted, bool((self.kind[wanted] == GRAPH_LAUNCH).any())

    def graph(self, begin: int, end: int, launches: Int) -> CapturedGraph:
        """The graph of one capture."""
        here = (self.range_thread == self.thread[begin]) & (self.range_start < self.start[end])
        here &= self.range_end > self.start[begin]
        stacks = _stacks(
            np.flatnonzero(here), self.range_start, self.range_end, self.start[launches]
        )
        around = _stacks(
            np.flatnonzero(here & (self.range_kind == ANNOTATION)),
            self.range_start,
            self.range_end,
            self.start[begin : begin + 1],
        )
        shape = [name for name in map(self._range_name, around[0]) if _SHAPE.match(name)]
        in_file = _SHAPE_IN_FILE.search(PurePath(self.trace.path).name)
        nodes, layers_by = nodes_of(
            [self._call(call, stack) for call, stack in zip(launches.tolist(), stacks, strict=True)]
        )
        return CapturedGraph(
            source=self.trace.path,
            rank=self.trace.rank,
            shape=shape[-1] if shape else in_file[1] if in_file else "",
            nodes=nodes,
            layers_by=layers_by,
        )

    def _range_name(self, row: int) -> str:
        return self.range_names[int(self.range_name[row])]

    def _call(self, call: int, stack: tuple[int, ...]) -> Call:
        """A launch call with what lies around it."""
        kernel = int(self.kernel[call])
        named = [(place, self._range_name(row)) for place, row in enumerate(stack)]
        kinds = [self.range_kind[row] for row in stack]
        return Call(
            kind=int(self.kind[call]),
            kernel=self.kernels[kernel] if kernel >= 0 else None,
            stack=stack,
            modules=[(p, n.removeprefix(MODULE_PREFIX)) for p, n in named if kinds[p] == MODULE],
            operators=[(p, n) for p, n in named if kinds[p] == OPERATOR],
        )


def _stacks(rows: Int, start: Int, end: Int, at: Int) -> list[tuple[int, ...]]:
    """The ranges of one thread that hold each time of `at` (ascending), outermost first."""
    order = rows[np.lexsort((-end[rows], start[rows]))].tolist()
    stack: list[int] = []
    out: list[tuple[int, ...]] = []
    place = 0
    for time in at.tolist():
        while place < len(order) and start[order[place]] <= time:
            row = order[place]
            while stack and end[stack[-1]] <= start[row]:
                stack.pop()
            stack.append(row)
            place += 1
        stack = [row for row in stack if end[row] > time]
        out.append(tuple(stack))
    return out
