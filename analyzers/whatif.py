"""What would help: levers asked for, a ranked list, and grids, on the cycle without the profiler.

The unchanged replay is held against the recording first; without it nothing is predicted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specscope.analyzers import levers_tokens, replay_graph
from specscope.analyzers.corrected_cycle import MOST_ERROR
from specscope.analyzers.lever_bench import Bench, Prediction
from specscope.analyzers.levers import DRAFT_TP, LEVERS, Lever, predict, predictions
from specscope.analyzers.levers_tokens import Curve
from specscope.analyzers.perturbation import Corrected, correct
from specscope.analyzers.replay import UNEXPLAINED, critical_edges, replay
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.replay_select import DRAFT_STAGES, select
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import StageCost, Throughput
from specscope.analyzers.words import percent

# Options by which servers are told the width of the draft: vLLM's, and SGLang's forks'.
_DRAFT_TP = re.compile(
    r"(?:draft[_-]tensor[_-]parallel[_-]size|draft[_-]tp(?:[_-]size)?)\W{1,12}(\d{1,4})\b"
)
# With a larger share of the critical path unexplained, predictions say so.
MOST_UNEXPLAINED = 0.02
_CLOSE = 1e-3  # a cycle corrected to its reference is nearer
_MOST_POINTS = 65  # of the grid of accept lengths: quarters up to 16 draft tokens


@dataclass(frozen=True)
class Asked:
    """Levers with their values, as asked for; empty: the list only."""

    levers: tuple[tuple[str, float], ...] = ()
    transfers: Report | None = None  # the run whose transfer times are to be put in
    transfers_name: str = ""


@dataclass(frozen=True)
class Unchanged:
    """The replay with nothing changed, against the recording."""

    measured_ns: float
    replayed_ns: float
    unexplained_ns: float  # of the critical path of a cycle: time that no edge explains

    @property
    def error(self) -> float:
        """Relative error of the cycle."""
        return self.replayed_ns / self.measured_ns - 1


@dataclass(frozen=True)
class WhatIf:
    """Everything predicted of one run; `refused` says why nothing is."""

    refused: tuple[str, ...] = ()
    unchanged: Unchanged | None = None
    corrected: Corrected | None = None
    rate: float | None = None  # tokens/s of the cycle that predictions start from
    acceptance: str = ""
    asked: tuple[Prediction, ...] = ()
    ranked: tuple[Prediction, ...] = ()  # the most helpful first, refused ones last
    curve: Curve | None = None
    grid: dict[str, tuple[Prediction, ...]] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)  # levers without a grid, and why
    notes: tuple[str, ...] = ()


def whatif(report: Report, asked: Asked | None = None) -> WhatIf:
    """Replay the run, take the profiler out, pull the levers."""
    asked = asked or Asked()
    built = replay_graph.build(report)
    if isinstance(built, str):
        return WhatIf(refused=(built,))
    unchanged = unchanged_of(report, built)
    if abs(unchanged.error) > MOST_ERROR:
        return WhatIf(
            refused=(
                f"the unchanged replay misses the recorded cycle by {100 * unchanged.error:.1f} %, "
                "so nothing is predicted from it",
            ),
            unchanged=unchanged,
        )
    given = report.unprofiled
    corrected = _known(report) or correct(built, (given.cycle_ns, given.source) if given else None)
    report = _with_rate(report, corrected, asked)
    bench = Bench(report, built, select(built), corrected)
    every = {lever.name: lever for lever in LEVERS}
    curve = levers_tokens.curve(bench)
    grid = _grid(bench, curve)
    rows = ranked(bench, grid, curve)
    rate = bench.rate((corrected.cycle_ns, corrected.cycle_ns))
    found = report.throughput
    return WhatIf(
        unchanged=unchanged,
        corrected=corrected,
        rate=rate[0] if rate else None,
        acceptance=found.acceptance.name if found is not None and found.acceptance else "",
        asked=tuple(_answer(bench, every, name, value, asked) for name, value in asked.levers),
        ranked=rows,
        curve=curve,
        grid=grid,
        unanswered=_unanswered(bench, grid),
        notes=(*_weak(unchanged), *_notes(bench, rows)),
    )


def _with_rate(report: Report, corrected: Corrected, asked: Asked) -> Report:
    """The report with what is needed for rates, also where it has too few cycles for a verdict.

    A batch that is asked for where none is known is the run's own.
    """
    found = report.throughput
    if found is None:
        batch, k = report.facts.get("batch"), report.facts.get("k")
        found = Throughput(
            cycle_ns=corrected.cycle_ns,
            cycle_source=corrected.source or "median cycle of the trace",
            profiled=corrected.state != "corrected",
            batch=int(batch) if batch else None,
            k=int(k) if k else None,
            acceptance=None,
            baseline=None,
            stages=tuple(StageCost(s.stage, s.ns, (s.ns, s.ns)) for s in corrected.stages),
        )
    given = next((int(value) for name, value in asked.levers if name == "batch"), None)
    if found.batch is None and given is not None:
        found = replace(found, batch=given)
    return replace(report, throughput=found)


def _known(report: Report) -> Corrected | None:
    """The correction that the report was made with, where it is of the same reference."""
    given, found = report.unprofiled, report.corrected
    if given is None or found is None or found.replayed is None:
        return None
    same = (found.replayed.reference_ns, found.replayed.source) == (given.cycle_ns, given.source)
    return found.replayed if same else None


def unchanged_of(report: Report, built: Replay) -> Unchanged:
    """The unchanged replay against the cycles of the report."""
    time = replay(built.plan)
    rows = [row.median_ns for row in report.cycles if row.leads]
    edges = built.graph.edges
    last = max(
        (int(one.border[np.flatnonzero(one.counted)[-1] + 1]) for one in built.ranks),
        key=lambda point: float(time[point]),
    )
    begin = max(float(time[one.border[np.flatnonzero(one.counted)[0]]]) for one in built.ranks)
    path = critical_edges(built.graph, time, edges.ns, last)
    within = [edge for edge in path if time[edges.source[edge]] >= begin]
    unexplained = sum(float(edges.ns[edge]) for edge in within if edges.kind[edge] == UNEXPLAINED)
    cycles = max(int(one.counted.sum()) for one in built.ranks)
    return Unchanged(float(np.median(rows)), built.cycle_ns(time), unexplained / max(cycles, 1))


_BY_TOKENS: dict[str, Callable[[Bench, float], Prediction]] = {
    "steps": lambda bench, value: levers_tokens.steps(bench, int(value)),
    "accept-length": levers_tokens.accept_length,
    "batch": lambda bench, value: levers_tokens.batch(bench, int(value)),
    "draft-tokens": lambda bench, value: levers_tokens.draft_tokens(bench, int(value)),
}


def _answer(
    bench: Bench, every: dict[str, Lever], name: str, value: float, asked: Asked
) -> Prediction:
    if name == "transfers-from":
        from specscope.analyzers.transfers import put_in

        assert asked.transfers is not None
        return put_in(bench, asked.transfers, asked.transfers_name)
    if name == "batch":
        return levers_tokens.batch_asked(bench, int(value))
    if name in _BY_TOKENS:
        return _BY_TOKENS[name](bench, value)
    return predict(bench, every[name], value)


def ranked(
    bench: Bench, grid: Mapping[str, Sequence[Prediction]], curve: Curve | None
) -> tuple[Prediction, ...]:
    """What would help most, by the middle of the range of tokens/s (else of the cycle)."""
    usual = [lever for lever in LEVERS if lever.usual is not None]
    rows = [
        next(row for row in grid[lever.name] if row.value == f"{lever.usual:g}")
        if lever.name in grid
        else predict(bench, lever, lever.usual or 1.0)
        for lever in usual
    ]
    found = bench.throughput
    # Where nobody measured what a token costs, the range of steps is that of ignorance.
    measured = found is not None and found.verify_line is not None
    if measured and curve is not None and curve.best is not None:
        k = found.k if found is not None else None
        if k not in range(curve.best[0], curve.best[1] + 1):
            nearest = min(curve.best, key=lambda n: abs(n - (k or 0)))
            rows.append(curve.rows[nearest - 1])
    good = [row for row in rows if not row.refused]
    refused = [row for row in rows if row.refused]
    return (*sorted(good, key=lambda row: -gain(bench, row)), *refused)


def gain(bench: Bench, row: Prediction) -> float:
    """By how much the rate rises, at the middle of the range."""
    now = bench.rate((bench.cycle_ns, bench.cycle_ns))
    if row.rate is not None and now is not None:
        return sum(row.rate) / 2 / now[0] - 1
    return bench.cycle_ns / row.middle_ns - 1


def _grid(bench: Bench, curve: Curve | None) -> dict[str, tuple[Prediction, ...]]:
    """Per lever the replays of its grid; levers that the run cannot answer are left out."""
    grid: dict[str, tuple[Prediction, ...]] = {}
    for lever in LEVERS:
        if not lever.refuse(bench):
            grid[lever.name] = predictions(bench, lever, lever.grid)
    if curve is not None:
        grid["steps"] = curve.rows
    for name, values in _token_grids(bench).items():
        rows = [_BY_TOKENS[name](bench, value) for value in values]
        if good := tuple(row for row in rows if not row.refused):
            grid[name] = good
    return grid


def _unanswered(bench: Bench, grid: Mapping[str, Sequence[Prediction]]) -> dict[str, str]:
    """Why a lever has no grid: what is missing for it."""
    why = {lever.name: lever.refuse(bench) for lever in LEVERS}
    for name, values in {"steps": (1,), **_token_grids(bench)}.items():
        if name not in grid:
            why[name] = _BY_TOKENS[name](bench, values[0]).refused
    return {name: text for name, text in why.items() if text and name not in grid}


def _token_grids(bench: Bench) -> dict[str, Sequence[float]]:
    k = bench.throughput.k if bench.throughput is not None else None
    most = k or 0
    count = min(4 * most + 1, _MOST_POINTS)
    lengths = [1 + most * step / max(count - 1, 1) for step in range(count)]
    return {"accept-length": lengths, "batch": (1, 2, 4, 8, 16, 32), "draft-tokens": range(1, 17)}


def told_draft_tp(server_args: Any) -> int | None:
    """On how many GPUs the server was told to keep its draft; None: nothing was said.

    >>> told_draft_tp(["--speculative-config", '{"draft_tensor_parallel_size": 1}'])
    1
    """
    found = _DRAFT_TP.search(json.dumps(server_args, default=str))
    return int(found[1]) if found else None


def _weak(unchanged: Unchanged) -> list[str]:
    """A line where much of the cycle is explained by nothing."""
    share = unchanged.unexplained_ns / unchanged.measured_ns
    if share < MOST_UNEXPLAINED:
        return []
    return [
        f"{percent(share)} of the cycle is explained by nothing on record: predictions keep it as "
        "it is, and may be off by as much"
    ]


def _notes(bench: Bench, rows: Sequence[Prediction]) -> list[str]:
    notes = []
    draft = next((row for row in rows if row.lever == DRAFT_TP.name and not row.refused), None)
    if draft is not None and draft.cycle_ns is not None and draft.bound_ns is not None:
        taken, gained = bench.cycle_ns - draft.bound_ns, bench.cycle_ns - draft.cycle_ns[0]
        if gained < taken / 2:
            notes.append(
                f"the draft's collectives transfer {taken / 1e3:.0f} us a cycle, yet without them "
                f"it is {max(gained, 0.0) / 1e3:.0f} us shorter: the GPU would wait for the host "
                "or for other ranks in their place"
            )
    if abs(bench.anchor - 1) > _CLOSE:
        own_ms = bench.anchor * bench.cycle_ns / 1e6
        notes.append(
            f"tokens/s are of the cycle without a profiler ({own_ms:.2f} ms): a predicted "
            f"cycle counts {bench.anchor:.3f} times for them"
        )
    if not bench.replay.joined and bench.ranks > 1:
        notes.append(
            "ranks are replayed one by one: a collective keeps the waiting that it was recorded "
            "with; give the traces of all ranks"
        )
    context = bench.report.run.context
    told = told_draft_tp([context.get(key) for key in ("server_args", "server_command")])
    if told == 1 and (bench.select.transfer & bench.select.of(*DRAFT_STAGES)).any():
        notes.append(
            "the server was told to keep its draft on one GPU and the draft holds collectives: "
            "the option had no effect"
        )
    return notes
