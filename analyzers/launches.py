"""Launches of one thread in the order of the host: what each one put on the GPU.

The structure of a cycle is read from this sequence, not from the ops: a graph launch is one
row however many ops it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers import bookkeeping
from specscope.analyzers.activities import ACTIVITIES, CODE_OF_ACTIVITY
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import GRAPH_LAUNCH, LAST
from specscope.analyzers.rank import Rank

# Activities that only a forward of a model does.
_MODEL_WORK = [
    CODE_OF_ACTIVITY[word]
    for word in ("attention", "gemm", "moe", "collective", "fused_collective")
]
# Activities that are seen once or so a layer, the surest first.
_LAYER = [CODE_OF_ACTIVITY[word] for word in ("attention", "kv_write", "rope")]
_SAMPLING = CODE_OF_ACTIVITY["sampling"]


@dataclass(frozen=True)
class Launches:
    """Calls with at least one op, of one thread, sorted by start."""

    call: Int  # index into Calls
    start: Int
    end: Int
    is_graph: Bool
    layers: Int  # ops of the layer activity that is seen most evenly: attention, else kv_write
    work: Bool  # does any of its ops belong to a model's forward?
    sampling: Bool  # does any of its ops sample?
    signature: Int  # equal for graph launches with the same ops
    gpu_ns: Int  # sum of its ops' durations
    roles: Int  # bits of bookkeeping.BIT_OF_ROLE

    def has(self, role: str) -> Bool:
        """Rows whose ops hold that bookkeeping role."""
        return self.roles & bookkeeping.BIT_OF_ROLE[role] > 0


def main_thread(rank: Rank) -> int | None:
    """The thread that launched the most GPU time."""
    linked = rank.ops.call >= 0
    if not linked.any():
        return None
    thread = rank.calls.thread[rank.ops.call[linked]]
    duration = np.maximum(rank.ops.end - rank.ops.start, 1)[linked]
    return int(np.argmax(np.bincount(thread, weights=duration)))


def of_thread(rank: Rank, thread: int) -> Launches:
    """The launches of that thread. Cost: a few passes over the ops."""
    ops, calls = rank.ops, rank.calls
    n = len(calls.start)
    linked = np.flatnonzero(ops.call >= 0)
    owner = ops.call[linked]
    # One pass: ops of each activity in each call.
    kinds = len(ACTIVITIES)
    per = np.bincount(owner * kinds + rank.activity[linked], minlength=n * kinds).reshape(n, kinds)
    by_layer = per[:, _LAYER]
    told = np.flatnonzero(by_layer.any(axis=0))
    layers = by_layer[:, told[0] if len(told) else 0]
    # A sum of one random number per name tells equal multisets of names from others. Sums of
    # both kinds stay exact in a double.
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 1 << 32, size=len(ops.names) + 1).astype(np.float64)
    signature = np.bincount(owner, weights=weight[ops.name[linked]], minlength=n)
    length = np.maximum(ops.end - ops.start, 0)[linked]
    duration = np.bincount(owner, weights=length, minlength=n)
    name_roles = bookkeeping.role_bits(ops.names)
    roles = np.zeros(n, np.int64)
    marked = np.flatnonzero(name_roles[ops.name[linked]])
    np.bitwise_or.at(roles, owner[marked], name_roles[ops.name[linked[marked]]])
    rows = np.flatnonzero((ops.first_start != LAST) & (calls.thread == thread))
    rows = rows[np.argsort(calls.start[rows], kind="stable")]
    return Launches(
        call=rows,
        start=calls.start[rows],
        end=calls.end[rows],
        is_graph=calls.kind[rows] == GRAPH_LAUNCH,
        layers=layers[rows].astype(np.int64),
        work=per[rows][:, _MODEL_WORK].sum(axis=1) > 0,
        sampling=per[rows, _SAMPLING] > 0,
        signature=signature[rows].astype(np.int64),
        gpu_ns=duration[rows].astype(np.int64),
        roles=roles[rows],
    )
