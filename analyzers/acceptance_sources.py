"""Every source that says how many tokens a cycle gives, best first.

An option goes before a file that was named, that before run.json or meta.json beside the traces,
that before the cycle log of specscope's hooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.acceptance import Acceptance, by_position_of, length_of_counts
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.unprofiled import Reference
from specscope.traces.accept_rates import rate_of_drafts
from specscope.traces.run import Note, RankTables, Run
from specscope.traces.served import SGLANG, Served


def sources(run: Run, reference: Reference, inputs: Inputs, k: int | None) -> list[Acceptance]:
    """What is known of acceptance, best source first."""
    simulated = bool(run.context.get("simulated_acceptance"))
    # The server that wrote a log is the one whose run.json says that it simulates.
    named = [of_served(one, run.context, k, simulated) for one in inputs.served]
    known = [one for one in named if one is not None]
    return [*_of_option(reference), *known, *_of_run(run, k, simulated)]


def of_served(
    one: Served, context: Mapping[str, Any], k: int | None, simulated: bool
) -> Acceptance | None:
    """What a text of a server says; None where its cycles can be known by k only, and k is not."""
    length, cycles = one.accept_length, one.cycles
    if length is None:
        if not one.drafted or k is None:
            return None
        cycles = one.drafted / k
        length = length_of_counts(cycles, one.accepted or 0.0)
    positions = one.by_position
    if positions and k is not None and len(positions) < k:
        # A histogram ends at the longest run it saw.
        positions += (0.0,) * (k - len(positions))
    rate = one.accepted / one.drafted if one.drafted and one.accepted is not None else None
    if rate is None and one.rate is not None and one.engine == SGLANG:
        version = context.get("engine_version")
        rate = rate_of_drafts(one.rate, version, k, context.get("draft_tokens"))
    return Acceptance(
        length, one.source, one.simulated or simulated, positions, cycles, rate, one.convention
    )


def without_k(inputs: Inputs, k: int | None) -> list[Note]:
    """A note on each text whose counts give an accept length by k only, where k is missing."""
    if k is not None:
        return []
    return [
        Note(
            "k_missing",
            f"{one.source} is not used: k is missing. It holds accepted and drafted tokens only, "
            "and its cycles are drafted tokens over k",
            "give k, the number of draft tokens, in run.json beside the traces",
        )
        for one in inputs.served
        if one.accept_length is None and one.drafted
    ]


def _of_option(reference: Reference) -> Iterator[Acceptance]:
    if reference.accept_length is not None:
        yield Acceptance(reference.accept_length, "--accept-length")


def _of_run(run: Run, k: int | None, simulated: bool) -> Iterator[Acceptance]:
    of_context = of_file(run.context, k, simulated)
    if of_context is not None:
        yield of_context
    logs = [found for rank in run.ranks if (found := of_log(rank, k, simulated)) is not None]
    if logs:
        # Every rank logs the same lengths; the longest log has the most of them.
        yield max(logs, key=lambda one: one.cycles or 0)


def of_file(context: dict[str, Any], k: int | None, simulated: bool) -> Acceptance | None:
    """What run.json or meta.json says; its rates by position go before its histogram."""
    positions = tuple(context.get("accept_by_position") or ())
    histogram = context.get("accept_histogram") or ()
    positions = positions or by_position_of(histogram, k)
    length = context.get("accept_length") or (1 + sum(positions) if positions else None)
    if length is None:
        return None
    cycles = context.get("verified") or sum(histogram) or None
    source = str(context.get("source", "run.json"))
    return Acceptance(float(length), source, simulated, positions, cycles)


def of_log(tables: RankTables, k: int | None, simulated: bool) -> Acceptance | None:
    """The lengths of a cycle log, every one of a sequence and cycle counted once."""
    log = tables.cycle_log
    if log is None:
        return None
    rows = log.filter(pc.equal(log["row"].cast(pa.string()), "accept"))
    lengths = pc.list_flatten(rows["accept_lengths"].combine_chunks())
    values = np.asarray(lengths.drop_null().to_numpy(zero_copy_only=False), dtype=np.int64)
    values = values[values >= 1]
    if not len(values):
        return None
    counts = np.bincount(np.minimum(values - 1, _LONGEST))
    positions = by_position_of([float(count) for count in counts], k)
    return Acceptance(float(values.mean()), "cycle log", simulated, positions, float(len(values)))


_LONGEST = 4096  # draft tokens of a cycle: no engine has as many
