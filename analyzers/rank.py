"""One rank prepared for attribution: linked ops, activities, and the ranges that speak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from specscope.analyzers import activities, links
from specscope.analyzers.columns import Int, Small, codes, ints, which
from specscope.traces.run import RankTables

RANGE_KINDS = ("annotation", "nvtx", "operator", "frame", "module")
ANNOTATION, NVTX, OPERATOR, FRAME, MODULE = range(len(RANGE_KINDS))


@dataclass(frozen=True)
class Ranges:
    """Host ranges of one rank as arrays, in table order."""

    kind: Small
    name: Small
    names: list[str]
    thread: Small  # index into `Calls.threads`
    start: Int
    end: Int
    domain: Small  # index into `domains`; -1: the default one
    domains: list[str]


@dataclass(frozen=True)
class Rank:
    """Everything the evidence modules look at."""

    tables: RankTables
    ops: links.Ops
    calls: links.Calls
    ranges: Ranges
    activity: Small  # code per op (activities.ACTIVITIES)

    @property
    def has_gpu(self) -> bool:
        """Does the rank have ops or calls at all?"""
        return bool(len(self.ops.start) or len(self.calls.start))


def prepare(tables: RankTables, rules: activities.Rules) -> Rank:
    """Link and classify the ops of one rank; number the threads of calls and ranges alike."""
    pid = np.concatenate((ints(tables.calls, "pid"), ints(tables.ranges, "pid")))
    tid = np.concatenate((ints(tables.calls, "tid"), ints(tables.ranges, "tid")))
    thread, threads = links.thread_index(pid, tid)
    n_calls = tables.calls.num_rows
    calls = links.read_calls(tables.calls, thread[:n_calls], threads)
    ops = links.link(tables.ops, calls)
    activity = activities.activity_codes(tables.ops, rules).astype(np.int32)
    return Rank(tables, ops, calls, _ranges(tables.ranges, thread[n_calls:]), activity)


def _ranges(table: pa.Table, thread: Small) -> Ranges:
    name, names = codes(table, "name")
    domain, domains = codes(table, "domain")
    return Ranges(
        kind=which(table, "kind", RANGE_KINDS),
        name=name,
        names=names,
        thread=thread,
        start=ints(table, "start_ns"),
        end=ints(table, "end_ns"),
        domain=domain,
        domains=domains,
    )
