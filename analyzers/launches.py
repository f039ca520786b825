"""Launches of one thread in the order of the host: what each one put on the GPU.

The structure of a cycle is read from this sequence, not from the ops: a graph launch is one
row however many ops it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specscope.analyzers import bookkeeping
from specscope.analyzers.activities import CODE_OF_ACTIVITY
from specscope.analyzers.columns import Bool, Int
from specscope.analyzers.links import GRAPH_LAUNCH
from specscope.analyzers.rank import Rank

# Activities that only a forward of a model does.
_MODEL_WORK = tuple(
    CODE_OF_ACTIVITY[word]
    for word in ("attention", "gemm", "moe", "collective", "fused_collective")
)
_LAYER = ("attention", "kv_write", "rope")


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
    count = np.bincount(owner, minlength=n)
    activity = rank.activity[linked]
    per_layer = [
        np.bincount(owner[activity == CODE_OF_ACTIVITY[word]], minlength=n) for word in _LAYER
    ]
    layers = next((row for row in per_layer if row.any()), per_layer[0])
    work = np.bincount(owner[np.isin(activity, _MODEL_WORK)], minlength=n) > 0
    samples = np.bincount(owner[activity == CODE_OF_ACTIVITY["sampling"]], minlength=n) > 0
    # A sum of one random number per name tells equal multisets of names from others.
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 1 << 40, size=len(ops.names) + 1)
    signature = _sum_by(owner, weight[ops.name[linked]], n)
    duration = _sum_by(owner, np.maximum(ops.end - ops.start, 0)[linked], n)
    name_roles = bookkeeping.role_bits(ops.names)
    roles = np.zeros(n, np.int64)
    marked = np.flatnonzero(name_roles[ops.name[linked]])
    np.bitwise_or.at(roles, owner[marked], name_roles[ops.name[linked[marked]]])
    rows = np.flatnonzero((count > 0) & (calls.thread == thread))
    rows = rows[np.argsort(calls.start[rows], kind="stable")]
    return Launches(
        call=rows,
        start=calls.start[rows],
        end=calls.end[rows],
        is_graph=calls.kind[rows] == GRAPH_LAUNCH,
        layers=layers[rows].astype(np.int64),
        work=work[rows],
        sampling=samples[rows],
        signature=signature[rows],
        gpu_ns=duration[rows],
        roles=roles[rows],
    )


def _sum_by(group: Int, value: Int, n: int) -> Int:
    """Integer sums of `value` by `group`, exact."""
    if len(group) == 0:
        return np.zeros(n, np.int64)
    order = np.argsort(group, kind="stable")
    group, value = group[order], value[order]
    first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    out = np.zeros(n, np.int64)
    out[group[first]] = np.add.reduceat(value, first)
    return out
