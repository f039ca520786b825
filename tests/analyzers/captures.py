"""Draws graph captures and their replays: the calls of each node with what lies around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specscope.analyzers.analyze import Options, analyze
from specscope.traces.graph_capture import CaptureTrace, load_capture_traces
from specscope.traces.load import load
from tests.build import TO_DEVICE, Timeline

APIS = {"kernel": "cudaLaunchKernel", "copy": "cudaMemcpyAsync", "set": "cudaMemsetAsync"}
NAMES = {"copy": TO_DEVICE, "set": "Memset (Device)"}
STEP = 10  # microseconds between two nodes


@dataclass(frozen=True)
class Drawn:
    """One node: modules and operators around its call, and the kernel's name where recorded."""

    modules: str = ""  # `Model_0/DecoderLayer_1/MLP_0`
    operators: str = ""  # `aten::linear/aten::mm`
    kernel: str | None = None
    kind: str = "kernel"


def capture(t: Timeline, nodes: Sequence[Drawn], shape: str = "", api: str = "cuda") -> None:
    """Draw the capture of one graph from 0 on; frames that go on from node to node are one."""
    end = STEP * (len(nodes) + 1)
    if shape:
        t.mark(shape, -3, end + 3)
    t.call(f"{api}StreamBeginCapture", -2, -1)
    frames(t, [[(f"nn.Module: {name}") for name in split(node.modules)] for node in nodes])
    for place, node in enumerate(nodes):
        at = STEP * place
        for depth, name in enumerate(split(node.operators)):
            t.operator(name, at + 1 + 0.1 * depth, at + 6 - 0.1 * depth)
        more = {} if node.kernel is None else {"kernel": node.kernel}
        t.call(APIS[node.kind].replace("cuda", api), at + 3, at + 4, **more)
    t.call(f"{api}StreamEndCapture", end, end + 1)


def frames(t: Timeline, paths: Sequence[Sequence[str]]) -> None:
    """One frame for each stretch of nodes that share the path down to it."""
    depth = max((len(path) for path in paths), default=0)
    for level in range(depth):
        place = 0
        while place < len(paths):
            until = place + 1
            head = paths[place][: level + 1]
            if len(head) <= level:
                place += 1
                continue
            while until < len(paths) and paths[until][: level + 1] == head:
                until += 1
            t.frame(head[-1], STEP * place + 0.01 * level, STEP * until - 0.5 - 0.01 * level)
            place = until


def split(path: str) -> list[str]:
    return path.split("/") if path else []


def replay(t: Timeline, kernels: Sequence[str], streams: Sequence[int] = ()) -> None:
    """Draw a graph launch at 0 whose ops run from 10 on, 3 us each, 1 us apart."""
    t.graph(
        1, 3, *((name, 10 + 4 * i, 13 + 4 * i) for i, name in enumerate(kernels)), streams=streams
    )


def served(kernels: Sequence[str], launches: int = 1, streams: Sequence[int] = ()) -> Timeline:
    """A trace of plain decode that replays one graph so many times."""
    t = Timeline()
    for c in t.cycles(launches, every=40 + 4 * len(kernels)):
        c.mark("step[DECODE bs=1]", 0, 5)
        replay(c, kernels, streams)
    return t


def read(*drawn: Timeline) -> tuple[CaptureTrace, ...]:
    """The capture traces, read from files."""
    with TemporaryDirectory() as folder:
        paths = []
        for number, t in enumerate(drawn):
            paths.append(Path(folder) / f"graph_capture_{number}.json")
            paths[-1].write_bytes(t.to_json())
        return load_capture_traces(paths)


def report_of(trace: Timeline, *captured: Timeline) -> Any:
    """The report of a trace with those capture traces."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.trace.json"
        path.write_bytes(trace.to_json())
        run = load(path, cache=False)
    return analyze(run, Options(captures=read(*captured)))


def graph(*nodes: Drawn, shape: str = "", api: str = "cuda", rank: int | None = None) -> Timeline:
    """A capture trace of one graph."""
    t = Timeline(rank=rank)
    capture(t, nodes, shape, api)
    return t
