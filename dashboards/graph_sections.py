"""The inside of graphs as grids: layers, the parts of a layer, operators."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from specscope.analyzers.report import Report
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import stage_names
from specscope.dashboards.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from specscope.analyzers.graph_rows import Inside, Operator, Part

# Parts and operators that take less are only counted.
_SMALL_SHARE: Final = 0.002
_MOST_ROWS: Final = 8
LONGEST_NAME: Final = 60


def graph_grids(report: Report, name_chars: int = LONGEST_NAME) -> list[Grid]:
    """For each stage and graph: its layers with their parts, then its operators.

    Names are cut to `name_chars`.
    """
    if report.graphs is None:
        return []
    names = stage_names(report)
    grids = []
    for one in report.graphs.inside:
        grids.append(_layer_grid(one, names[one.stage], name_chars))
        # Without modules the parts are the operators already.
        if one.layers_by == "module":
            grids.append(_operator_grid(one, name_chars))
    return grids


def graph_lines(report: Report) -> list[str]:
    """How many graph launches were mapped, and to what."""
    graphs = report.graphs
    if graphs is None:
        return []
    files = dict.fromkeys(PurePath(graph.source).name for graph in graphs.captured)
    shown = ", ".join(clean(name, LONGEST_NAME) for name in list(files)[:2])
    more = f" and {len(files) - 2} more" if len(files) > 2 else ""
    return [
        f"{count_text(graphs.mapped)} of {_some(graphs.launches, 'graph launch', 'es')} mapped to "
        f"{count_text(graphs.replayed)} of {_some(len(graphs.captured), 'captured graph')}"
        + (f" ({shown}{more})" if shown else "")
    ]


def _some(count: int, what: str, ending: str = "s") -> str:
    return f"{count_text(count)} {what}{'' if count == 1 else ending}"


def _layer_grid(one: Inside, stage: str, name_chars: int) -> Grid:
    collectives = any(part.collective_ns > 0 for part in one.parts)
    rows = []
    if one.in_layers is not None:
        forwards = f", {one.forwards} forwards" if one.forwards > 1 else ""
        name = _some(one.layers, "layer") + forwards
        rows.append(Row((name, *_cells(one.in_layers, collectives))))
    for depth in (1, 0):
        parts = [part for part in one.parts if part.in_layer == bool(depth)]
        shown = [part for part in parts[:_MOST_ROWS] if part.share >= _SMALL_SHARE] or parts[:1]
        for part in shown:
            name = clean(part.name, name_chars) or "no module"
            rows.append(Row((name, *_cells(part, collectives)), depth=depth))
        if len(parts) > len(shown):
            blank = ("",) * len(rows[0].cells[1:])
            rows.append(Row((f"{len(parts) - len(shown)} more", *blank), depth=depth))
    columns = ("", "nodes", "a launch", "share", *(("collective",) if collectives else ()))
    note = {
        "module": "",
        "attention": "compiled: a layer is counted from one attention to the next",
    }.get(one.layers_by, "neither modules nor operators tell its layers")
    return Grid(_title(one, stage), (*columns, "a layer", "min", "max"), tuple(rows), note)


def _title(one: Inside, stage: str) -> str:
    shown = " or ".join(clean(title, LONGEST_NAME) for title in one.titles[:2])
    more = f" or {len(one.titles) - 2} more" if len(one.titles) > 2 else ""
    launches = f"median of {count_text(one.launches)} launches" if one.launches > 1 else "1 launch"
    ranks = f" on {len(one.ranks)} ranks" if len(one.ranks) > 1 else ""
    return (
        f"Inside the {stage} graph ({shown}{more}): {_some(one.nodes, 'node')}, "
        f"{time_text(one.ns)}, {launches}{ranks}"
    )


def _cells(part: Part, collectives: bool) -> tuple[str, ...]:
    layer = part.layer_ns
    of_layer = (layer.median, layer.low, layer.high) if layer else (None, None, None)
    return (
        count_text(part.nodes),
        time_text(part.ns),
        share_text(part.share),
        *((time_text(part.collective_ns),) if collectives else ()),
        *(time_text(ns) for ns in of_layer),
    )


def _operator_grid(one: Inside, name_chars: int) -> Grid:
    shown = [row for row in one.operators[:_MOST_ROWS] if row.share >= _SMALL_SHARE]
    shown = shown or list(one.operators[:1])
    rows = [
        Row(
            (
                _operator(row, name_chars),
                count_text(row.nodes),
                time_text(row.ns),
                share_text(row.share),
            )
        )
        for row in shown
    ]
    rest = len(one.operators) - len(shown)
    if rest:
        rows.append(Row((f"{rest} more", "", "", "")))
    return Grid("Operators in it", ("", "nodes", "a launch", "share"), tuple(rows))


def _operator(row: Operator, name_chars: int) -> str:
    """What was called, and what it called in the end; a kernel where no operator did."""
    if not row.operator:
        return f"kernel {clean(row.kernel, name_chars)}"
    name = clean(row.operator, name_chars)
    return name if row.inner == row.operator else f"{name} > {clean(row.inner, name_chars)}"
