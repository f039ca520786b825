"""The tables of captured graphs: what was captured, and the node that each op replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from specscope.analyzers.graph_match import Replays
from specscope.analyzers.graph_rows import Graphs
from specscope.traces import schema


def of(graphs: Graphs) -> dict[str, Callable[[], pa.Table]]:
    """The tables by name, each made when it is asked for."""
    return {
        "captured_graphs": lambda: captured_table(graphs),
        "graph_nodes": lambda: nodes_table(graphs),
    }


def captured_table(graphs: Graphs) -> pa.Table:
    """The `captured_graphs` table: a row for each graph."""
    launches: dict[int, int] = {}
    for one in graphs.replays:
        for graph in one.fits[:1]:
            launches[id(graph)] = launches.get(id(graph), 0) + len(one.calls)
    rows = [
        {
            "graph": number,
            "source": graph.source,
            "rank": graph.rank,
            "shape": graph.shape or None,
            "nodes": len(graph.nodes),
            "named_nodes": graph.named,
            "layers": graph.layers,
            "layers_by": graph.layers_by,
            "launches": launches.get(id(graph), 0),
        }
        for number, graph in enumerate(graphs.captured)
    ]
    return pa.Table.from_pylist(rows, schema=schema.CAPTURED_GRAPHS)


def nodes_table(graphs: Graphs) -> pa.Table:
    """The `graph_nodes` table: a row for each op of a launch that was mapped."""
    numbers = {id(graph): number for number, graph in enumerate(graphs.captured)}
    pieces = [_nodes(one, numbers[id(one.fits[0])]) for one in graphs.replays if one.fits]
    return pa.concat_tables(pieces) if pieces else schema.GRAPH_NODES.empty_table()


def _nodes(one: Replays, number: int) -> pa.Table:
    launches, width = one.ops.shape
    nodes = one.graph.nodes
    of_node: dict[str, Any] = {
        "position": pa.array(np.arange(width)),
        "forward": pa.array([node.forward for node in nodes], pa.int64()),
        "layer": pa.array([node.layer for node in nodes], pa.int64()),
        "part": _words([node.part for node in nodes]),
        "module": _words([node.module for node in nodes]),
        "operator": _words([node.operator for node in nodes]),
        "inner_operator": _words([node.inner for node in nodes]),
    }
    again = pa.array(np.tile(np.arange(width), launches))
    columns = {name: column.take(again) for name, column in of_node.items()}
    columns |= {
        "rank": pa.array(np.full(one.ops.size, one.rank, np.int32)),
        "op_id": pa.array(one.ops.ravel()),
        "call_id": pa.array(np.repeat(one.calls, width)),
        "graph": pa.array(np.full(one.ops.size, number, np.int64)),
    }
    names = schema.GRAPH_NODES.names
    return pa.table([columns[name] for name in names], schema=schema.GRAPH_NODES)


def _words(words: Sequence[str]) -> pa.DictionaryArray:
    return pa.array(words, pa.string()).dictionary_encode()
