"""The graphs in a graph-capture trace: their nodes in order, each with module, layer, operator.

What a thread launches between the begin and the end of a stream capture becomes the nodes of a
graph, in that order. Modules and operators are the ranges of that thread that hold the launch
call. Python sees layers as modules (`Qwen3DecoderLayer_3`). A compiled model has none; there
layers are counted by the operators that no compiler takes in, from one attention to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Final, NamedTuple

import numpy as np

from specscope.analyzers.columns import Bool, Int, codes, ints, which
from specscope.analyzers.links import CALL_KINDS, COPY, GRAPH_LAUNCH, LAUNCH, SET, thread_index
from specscope.analyzers.rank import ANNOTATION, MODULE, OPERATOR, RANGE_KINDS
from specscope.traces.graph_capture import CaptureTrace
from specscope.traces.kineto_names import CAPTURE_BEGIN, CAPTURE_END, MODULE_PREFIX
from specscope.traces.run import Note
from specscope.traces.sniff import printable

# A module class that is a layer of the model, without the number of the instance.
LAYER: Final = re.compile(
    r"(\w*Decoder|(?!\w*(Embed|Norm|Linear|Head|Attention|MLP|Mlp|MoE|Moe))\w*)"
    r"(Layer|Block)\d*(V\d+)?"
)
# Operators that stay whole in a compiled model, one a layer.
ATTENTION: Final = re.compile(
    r"(.*::)?(unified_(mla_)?attention|(gdn|linear)_attention|mamba_mixer|short_conv)\w*"
)
# An annotation around a capture that names its shape: capture_32_FULL.
_SHAPE: Final = re.compile(r"capture_\w+")
_SHAPE_IN_FILE: Final = re.compile(r"(?:^|_)(bs_\d+)(?=_|\.)")
_INSTANCE: Final = re.compile(r"(.+)_\d+")
BY_MODULE, BY_ATTENTION, BY_NOTHING = "module", "attention", ""


class Node(NamedTuple):
    """One node of a graph. `kind` is LAUNCH, COPY or SET; `kernel` is None when not recorded."""

    kind: int
    kernel: str | None
    forward: int  # how often its layer, else its outermost module, ran before
    layer: int | None
    layer_module: str  # path to the layer's module; empty where none is or none has a name
    part: str  # module class inside the layer, or an operator
    module: str
    operator: str  # what the innermost module called
    inner: str  # what made the launch call


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
        """The nodes without kernel names; equal for two batch sizes of one model."""
        return tuple(node._replace(kernel=None) for node in self.nodes)

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
        nodes, layers_by = _nodes(self, launches, stacks)
        return CapturedGraph(
            source=self.trace.path,
            rank=self.trace.rank,
            shape=shape[-1] if shape else in_file[1] if in_file else "",
            nodes=nodes,
            layers_by=layers_by,
        )

    def _range_name(self, row: int) -> str:
        return self.range_names[int(self.range_name[row])]

    def modules(self, stack: Sequence[int]) -> list[tuple[int, str]]:
        """(place in the stack, name) of the modules around a call, outermost first."""
        return [
            (place, self._range_name(row).removeprefix(MODULE_PREFIX))
            for place, row in enumerate(stack)
            if self.range_kind[row] == MODULE
        ]

    def operators(self, stack: Sequence[int]) -> list[tuple[int, str]]:
        """(place in the stack, name) of the operators around a call, outermost first."""
        return [
            (place, self._range_name(row))
            for place, row in enumerate(stack)
            if self.range_kind[row] == OPERATOR
        ]

    def kernel_of(self, call: int) -> str | None:
        """The kernel that the call's arguments name."""
        code = int(self.kernel[call])
        return self.kernels[code] if code >= 0 else None


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


class _Counts:
    """How often each name was entered: a range that is seen again is the same entry."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {}

    def of(self, name: str, row: int) -> int:
        """Number of this entry among those of `name`, from 0."""
        entries = self._seen.setdefault(name, {})
        return entries.setdefault(row, len(entries))


def _nodes(
    view: _View, launches: Int, stacks: list[tuple[int, ...]]
) -> tuple[tuple[Node, ...], str]:
    """The nodes of a graph, and what tells their layers."""
    entries, layers = _Counts(), _Layers()
    nodes: list[Node] = []
    for call, stack in zip(launches.tolist(), stacks, strict=True):
        modules, operators = view.modules(stack), view.operators(stack)
        path = [name for _, name in modules]
        innermost = modules[-1][0] if modules else -1
        called = [name for place, name in operators if place > innermost]
        inner = operators[-1][1] if operators else ""
        at = next((i for i, name in enumerate(path) if LAYER.fullmatch(_class(name))), None)
        entered = at if at is not None else 0
        nodes.append(
            Node(
                kind=int(view.kind[call]),
                kernel=view.kernel_of(call),
                forward=entries.of(path[entered], stack[modules[entered][0]]) if path else 0,
                layer=None if at is None else layers.number(path[:at], path[at]),
                layer_module="" if at is None else "/".join(path[: at + 1]),
                part=_part(path, at),
                module="/".join(path),
                operator=called[0] if called else inner,
                inner=inner,
            )
        )
    if any(node.layer is not None for node in nodes):
        return tuple(nodes), BY_MODULE
    return _counted_by_attention(nodes, [view.operators(stack) for stack in stacks], stacks)


def _part(path: Sequence[str], layer: int | None) -> str:
    """The class of the module right below the layer, outside layers that of the innermost."""
    if not path:
        return ""
    return _class(path[-1] if layer is None else path[min(layer + 1, len(path) - 1)])


class _Layers:
    """Numbers layers in order of appearance, those below one parent together.

    The number of an instance counts the modules of its class in the process, so that it is not
    the layer's own where a draft model shares the class or layers are of two classes.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], dict[str, int]] = {}

    def number(self, parents: Sequence[str], name: str) -> int:
        """Number of that layer."""
        known = self._known.setdefault(tuple(parents), {})
        return known.setdefault(name, len(known))


def _counted_by_attention(
    nodes: list[Node], operators: list[list[tuple[int, str]]], stacks: list[tuple[int, ...]]
) -> tuple[tuple[Node, ...], str]:
    """The nodes of a compiled model: a layer reaches from one attention to the next.

    What lies before the first attention is in no layer. The part is the operator.
    """
    out: list[Node] = []
    seen: dict[int, int] = {}  # forward: attentions so far
    last: dict[int, int] = {}  # forward: the attention that runs
    for node, named, stack in zip(nodes, operators, stacks, strict=True):
        forward = node.forward
        anchor = next((stack[place] for place, name in named if ATTENTION.fullmatch(name)), None)
        if anchor is not None and last.get(forward) != anchor:
            last[forward] = anchor
            seen[forward] = seen.get(forward, 0) + 1
        count = seen.get(forward, 0)
        part = node.operator or node.part
        out.append(node._replace(layer=count - 1 if count else None, part=part))
    return tuple(out), BY_ATTENTION if seen else BY_NOTHING


def _class(name: str) -> str:
    """A module's class without the number of the instance."""
    match = _INSTANCE.fullmatch(name)
    return match[1] if match else name
