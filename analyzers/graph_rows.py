"""What is known of the inside of graphs, as a report holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from specscope.analyzers.captured_graphs import CapturedGraph
from specscope.analyzers.graph_match import Replays


@dataclass(frozen=True)
class Range:
    """The least, the median and the greatest of the layers, in nanoseconds."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Part:
    """Some nodes of a graph that belong together, in one launch."""

    name: str
    in_layer: bool
    nodes: int
    ns: float
    share: float  # of the launch's work
    collective_ns: float
    layer_ns: Range | None  # in one layer of one forward; None outside layers


@dataclass(frozen=True)
class Operator:
    """What the nodes of one operator do, in one launch; `inner` made the launch calls.

    Where no operator is on record both are empty and `kernel` is the name of the op.
    """

    operator: str
    inner: str
    kernel: str
    nodes: int
    ns: float
    share: float


@dataclass(frozen=True)
class Inside:
    """One graph as one stage replays it. `titles` are the captures that it may be."""

    stage: str
    graph: int  # the first of the captured graphs that fit, by number
    titles: tuple[str, ...]
    ranks: tuple[int, ...]
    launches: int
    nodes: int
    forwards: int
    layers: int
    layers_by: str
    ns: float
    in_layers: Part | None  # all nodes of layers
    parts: tuple[Part, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class Refused:
    """Launches of one stage that were not mapped, and why."""

    stage: str
    launches: int
    ops: int
    reason: str
    mend: str


@dataclass(frozen=True)
class Graphs:
    """What the capture traces say of the replays. `replays` stand behind the tables."""

    captured: tuple[CapturedGraph, ...]
    inside: tuple[Inside, ...]
    refused: tuple[Refused, ...]
    launches: int  # graph launches with ops, over all ranks
    mapped: int
    replayed: int  # captured graphs that were, those of one content as one
    replays: tuple[Replays, ...] = field(repr=False, default=())
