"""Speculation against plain decoding: why a verify costs more than a plain step.

Medians do not add, so the explanation is made of means over the steady cycles and ranks, as
whole nanoseconds that sum exactly: the parts of the plain step to the step, those of the cycle
to the cycle, their changes to the change.
"""

from __future__ import annotations

import numpy as np

from specscope.analyzers import compare_report as kinds
from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.attribution import WHATS
from specscope.analyzers.columns import Int
from specscope.analyzers.compare_report import Against, Part
from specscope.analyzers.compare_series import Key, Series
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Baseline, Throughput
from specscope.analyzers.words import STAGES, STATES

SPECULATION, PLAIN = "speculation", "decode"


def is_against(a: Report, b: Report) -> str | None:
    """The plain side, `a` or `b`, where the other speculates; else None."""
    kinds_of = tuple(next((row.kind for row in one.cycles if row.leads), None) for one in (a, b))
    if kinds_of == (PLAIN, SPECULATION):
        return "a"
    return "b" if kinds_of == (SPECULATION, PLAIN) else None


def against(plain: str, step: Series, cycle: Series, reports: tuple[Report, Report]) -> Against:
    """Plain steps against cycles of speculation; `reports` in the same order."""
    of_step, of_cycle = reports
    step_ns = float(np.median(step.values[Key(kinds.CYCLE)]))
    cycle_ns = float(np.median(cycle.values[Key(kinds.CYCLE)]))
    verify = cycle.values.get(Key(kinds.STAGE, "verify"), np.zeros(cycle.cycles))
    acceptance = _acceptance(of_cycle)
    traced = Throughput(
        cycle_ns,
        "in the trace",
        True,
        cycle.batch,
        of_cycle.facts.get("k"),
        acceptance,
        Baseline(step_ns, "in the trace"),
    )
    return Against(
        plain=plain,
        step_ns=step_ns,
        cycle_ns=cycle_ns,
        verify_ns=float(np.median(verify)),
        traced=traced,
        unprofiled=_unprofiled(of_step, of_cycle, traced),
        parts=parts(step, cycle),
    )


def parts(a: Series, b: Series) -> tuple[Part, ...]:
    """Means of every stage, state and activity or cause of both sides, whole and exact."""
    means = [whole_means(one.parts, max(one.rounds, 1)) for one in (a, b)]
    found = []
    for stage, state, what in np.argwhere((means[0] != 0) | (means[1] != 0)).tolist():
        one, other = (int(mean[stage, state, what]) for mean in means)
        found.append(Part(STAGES[stage], STATES[state], WHATS[what], one, other))
    return tuple(found)


def whole_means(sums: Int, count: int) -> Int:
    """Sums over `count`, whole, adding up to the rounded mean of all: by largest remainder."""
    whole, rest = np.divmod(sums, count)
    missing = round(int(sums.sum()) / count) - int(whole.sum())
    flat = whole.reshape(-1)
    flat[np.argsort(-rest.reshape(-1), kind="stable")[: max(missing, 0)]] += 1
    return whole


def _unprofiled(plain: Report, speculating: Report, traced: Throughput) -> Throughput | None:
    """The same from cycles that were measured without a profiler, where both are known."""
    context = plain.run.context
    step = context.get("cycle_ms")
    of_batch = context.get("batch") in (None, plain.facts.get("batch"))
    if step is None or not of_batch or speculating.unprofiled is None:
        return None
    source = f"{context.get('source', 'beside the trace')} of the plain run"
    return Throughput(
        speculating.unprofiled.cycle_ns,
        speculating.unprofiled.source,
        False,
        traced.batch,
        traced.k,
        traced.acceptance,
        Baseline(step * 1e6, source),
    )


def _acceptance(report: Report) -> Acceptance | None:
    length = report.facts.get("accept_length")
    if length is None:
        return None
    simulated = bool(report.facts.get("simulated_acceptance"))
    return Acceptance(float(length), str(report.facts.get("source") or "the traces"), simulated)
