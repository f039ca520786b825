"""Which edges of a replay a question is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers.activities import CLASS_OF_CODE, COLLECTIVE, COMPUTE, load_rules
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.replay import (
    ALONE,
    ARRIVE,
    CALL,
    GRAPH_CALL,
    HOST_TRANSFER,
    HOST_WORK,
    LAUNCH_LAG,
    OP,
    STREAM_LAG,
    SYNC_CALL,
    TRANSFER,
)
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.words import ACCEPT, DRAFT, DRAFT_EXTEND, VERIFY

DRAFT_STAGES = (DRAFT, DRAFT_EXTEND)
VERIFY_STAGES = (VERIFY, ACCEPT)


@dataclass(frozen=True)
class Selection:
    """Edges by what they are, one flag each."""

    compute: Bool
    transfer: Bool  # of a collective: its transfer, or its whole run where ranks are not joined
    allreduce: Bool  # of those, all-reduces
    fused: Bool  # of those, all-reduces fused with norm
    alone: Bool
    arrive: Bool
    host: Bool  # whatever the host does
    lag: Bool  # from call to op and between ops
    call: Bool
    in_graph: Bool  # ops of a graph launch, and the lags before them
    stage: Int

    def of(self, *stages: int) -> Bool:
        """Edges of these stages."""
        return np.isin(self.stage, stages)


def select(one: Replay) -> Selection:
    """The flags of every edge."""
    edges = one.graph.edges
    kind = edges.kind
    op_class = np.where(edges.what >= 0, CLASS_OF_CODE[np.maximum(edges.what, 0)], -1)
    collective = (op_class == COLLECTIVE) & np.isin(kind, (OP, TRANSFER))
    allreduce = np.zeros(len(edges), dtype=bool)
    fused = np.zeros(len(edges), dtype=bool)
    in_graph = np.zeros(len(edges), dtype=bool)
    rules = load_rules()
    for row, rank in enumerate(one.ranks):
        ops, calls = rank.attribution.rank.ops, rank.attribution.rank.calls
        families = rules.families(ops.names) if ops.names else []
        reduces = np.array(["allreduce" in family for family in families] + [False], dtype=bool)
        normed = np.array(["norm" in family for family in families] + [False], dtype=bool)
        mine = np.flatnonzero(collective & (edges.rank == row))
        name = ops.name[edges.item[mine]]
        allreduce[mine] = reduces[name]
        fused[mine] = reduces[name] & normed[name]
        mine = np.flatnonzero(np.isin(kind, (OP, TRANSFER, STREAM_LAG)) & (edges.rank == row))
        call = ops.call[edges.item[mine]]
        if len(calls.kind):
            in_graph[mine] = (call >= 0) & (calls.kind[np.maximum(call, 0)] == GRAPH_LAUNCH)
    return Selection(
        compute=(op_class == COMPUTE) & (kind == OP),
        transfer=collective,
        allreduce=allreduce,
        fused=fused,
        alone=kind == ALONE,
        arrive=kind == ARRIVE,
        host=np.isin(kind, (HOST_WORK, CALL, GRAPH_CALL, SYNC_CALL, HOST_TRANSFER)),
        lag=np.isin(kind, (LAUNCH_LAG, STREAM_LAG)),
        call=np.isin(kind, (CALL, GRAPH_CALL)),
        in_graph=in_graph,
        stage=edges.stage,
    )
