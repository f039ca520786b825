"""The plain decode step that speculation has to beat, and whether it is of the same server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from specscope.analyzers.inputs import Inputs
from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Baseline
from specscope.traces.errors import UsageError
from specscope.traces.run import Note

# Two starts of one server differ by up to 10 %; a profiler stretched a short step by 40 %.
_LEAST: Final = 0.9
_LEAST_MIXED: Final = 0.6
# Facts in which speculation and its baseline must agree, where both are known.
_SAME = (("model", "model"), ("tp", "TP"), ("link", "link"))


def baseline_of(
    inputs: Inputs,
    context: Mapping[str, Any],
    facts: Mapping[str, Any],
    batch: int | None,
    *,
    profiled: bool,
) -> Baseline | None:
    """The plain step: of a rate, of a plain-decode run, or of run.json; None: not known.

    `profiled` says whether the cycle that it is held against is a profiled one: a plain run that
    has both a step in its trace and one measured without a profiler gives the one of that kind.

    Raises:
        UsageError: what was given is of another server, or lacks the batch.
    """
    rate = inputs.plain_tokens_per_second
    if rate is not None and inputs.plain is not None:
        raise UsageError(
            "--baseline and --baseline-tokens-per-second both give the plain step; give one"
        )
    if rate is not None:
        if batch is None:
            raise UsageError(
                "--baseline-tokens-per-second needs --batch as well: "
                "plain step = batch / tokens per second"
            )
        return Baseline(1e9 * batch / rate, "--baseline-tokens-per-second")
    if inputs.plain is not None:
        return of_report(inputs.plain, facts, batch, profiled=profiled)
    step_ms = context.get("baseline_step_ms")
    at = context.get("baseline_batch", context.get("batch"))
    if step_ms is None or (batch is not None and at not in (None, batch)):
        return None
    return Baseline(float(step_ms) * 1e6, str(context.get("source", "run.json")))


def impossible(cycle_ns: float, profiled: bool, base: Baseline | None) -> list[Note]:
    """A note where the cycle is shorter than the plain step: a verify does all that a step does."""
    if base is None:
        return []
    # A profiler may have stretched one of the two, as far as it ever was seen to.
    margin = _LEAST if base.profiled == profiled else _LEAST_MIXED
    if cycle_ns >= base.step_ns * margin:
        return []
    return [
        Note(
            "baseline_impossible",
            f"the cycle ({cycle_ns / 1e6:.2f} ms) is shorter than the plain step "
            f"({base.step_ns / 1e6:.2f} ms, {base.source}), though a cycle verifies in such a "
            "step: it is of another server, and is not used",
            "give the plain step of the same server at the same batch",
        )
    ]


def of_report(
    plain: Report, facts: Mapping[str, Any], batch: int | None, *, profiled: bool
) -> Baseline:
    """The step of a plain-decode run.

    Raises:
        UsageError: it speculates, has no decode step, or is of another model or batch.
    """
    if plain.speculates:
        raise UsageError(
            "--baseline speculates itself; give a run of the server without speculation"
        )
    _refuse_other(plain.facts, facts)
    rows = [row for row in plain.cycles if row.kind == "decode"]
    sizes = {row.batch for row in rows}
    known = plain.facts.get("batch")
    if None in sizes and len(sizes) == 1 and known is not None:
        sizes = {known}
        rows = [row for row in rows if row.batch is None]
    elif batch is not None and None not in sizes:
        rows = [row for row in rows if row.batch == batch]
    if batch is not None and sizes and None not in sizes and batch not in sizes:
        found = ", ".join(str(size) for size in sorted(s for s in sizes if s is not None))
        raise UsageError(
            f"--baseline decodes at batch {found}, this run speculates at batch {batch}: they do "
            "not compare; give a baseline of the same batch"
        )
    unprofiled = _unprofiled_ns(plain, batch)
    if unprofiled is not None and not profiled:
        return Baseline(*unprofiled)
    steps = [row.median_ns for row in rows]
    if not steps:
        if unprofiled is not None:
            return Baseline(*unprofiled)
        raise UsageError(
            "--baseline has no whole decode step; give a longer trace of plain decoding"
        )
    return Baseline(float(np.median(steps)), "--baseline, decode steps of its trace", True)


def _refuse_other(plain: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    for key, word in _SAME:
        own, other = facts.get(key), plain.get(key)
        if own is not None and other is not None and own != other:
            raise UsageError(
                f"--baseline is of {word} {str(other)[:60]!r}, this run of {str(own)[:60]!r}: they "
                "do not compare; give a baseline of the same server"
            )


def _unprofiled_ns(plain: Report, batch: int | None) -> tuple[float, str] | None:
    """The step that its run.json or meta.json has, measured without a profiler."""
    context = plain.run.context
    if batch is not None and context.get("batch") not in (None, batch):
        return None
    step = context.get("step_ms") or context.get("cycle_ms")
    if step is None:
        return None
    return float(step) * 1e6, f"--baseline, {context.get('source', 'run.json')} without a profiler"
