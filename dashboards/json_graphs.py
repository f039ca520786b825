"""The key `graphs` of the JSON report: what capture traces say of the inside of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specscope.analyzers.report import Report
from specscope.dashboards.json_values import ns, share, text

if TYPE_CHECKING:
    from specscope.analyzers.graph_rows import Graphs, Inside, Operator, Part, Range

Json = dict[str, Any]


def graphs_json(report: Report) -> Json | None:
    """The key, or None where no capture trace was given."""
    graphs = report.graphs
    if graphs is None:
        return None
    return {
        "launches": graphs.launches,
        "mapped_launches": graphs.mapped,
        "captured": _captured(graphs, report),
        "inside": [_inside(one) for one in graphs.inside],
        "not_mapped": [
            {
                "stage": one.stage,
                "launches": one.launches,
                "ops": one.ops,
                "reason": text(one.reason),
            }
            for one in graphs.refused
        ],
    }


def _captured(graphs: Graphs, report: Report) -> list[Json]:
    """The table `captured_graphs` as rows."""
    rows: list[Json] = report.tables["captured_graphs"].to_pylist()
    return [
        {key: text(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in rows
    ]


def _inside(one: Inside) -> Json:
    return {
        "stage": one.stage,
        "graph": one.graph,
        "titles": [text(title) for title in one.titles],
        "ranks": list(one.ranks),
        "launches": one.launches,
        "nodes": one.nodes,
        "forwards": one.forwards,
        "layers": one.layers,
        "layers_by": one.layers_by,
        "ns": ns(one.ns),
        "in_layers": None if one.in_layers is None else _figures(one.in_layers),
        "parts": [
            {"part": text(part.name), "in_layer": part.in_layer, **_figures(part)}
            for part in one.parts
        ],
        "operators": [_operator(row) for row in one.operators],
    }


def _figures(part: Part) -> Json:
    return {
        "nodes": part.nodes,
        "ns": ns(part.ns),
        "share": share(part.share),
        "collective_ns": ns(part.collective_ns),
        "layer_ns": _range(part.layer_ns),
    }


def _range(found: Range | None) -> Json | None:
    if found is None:
        return None
    return {"min": ns(found.low), "median": ns(found.median), "max": ns(found.high)}


def _operator(row: Operator) -> Json:
    return {
        "operator": text(row.operator) or None,
        "inner_operator": text(row.inner) or None,
        "kernel": text(row.kernel) or None,
        "nodes": row.nodes,
        "ns": ns(row.ns),
        "share": share(row.share),
    }
