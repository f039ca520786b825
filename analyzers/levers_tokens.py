"""Levers that change how many tokens a cycle reads or gives: steps, accept length, batch, width.

Acceptance beyond the positions that were measured is continued with the last conditional rate;
where only the accept length is known, every position gets the one probability that gives it
(Leviathan et al. 2023). Cost of a verify by tokens: the measured line, else between nothing and
in proportion to the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specscope.analyzers.acceptance import length_at, length_of_probability
from specscope.analyzers.lever_bench import Bench, Prediction, Range, ordered
from specscope.analyzers.replay import Float
from specscope.analyzers.replay_select import VERIFY_STAGES
from specscope.analyzers.throughput import Throughput
from specscope.analyzers.words import DRAFT

STEPS = tuple(range(1, 9))
_GIVE_LENGTH = "give --server-log, --metrics, --responses or run.json with the accept length"
_GIVE_BATCH = "the batch is not known; give --batch, or run.json beside the traces"
_GIVE_LINE = (
    "what a verify costs by tokens is measured at one width only; give --baseline (a trace of the "
    "same server without speculation), or record another batch or width"
)


@dataclass(frozen=True)
class Curve:
    """Rate by the number of draft steps, and the best number at both ends of the ranges."""

    rows: tuple[Prediction, ...]
    lengths: tuple[float | None, ...]  # accept length of each row
    best: tuple[int, int] | None
    basis: str  # where the acceptance comes from, and how it was continued


def positions(found: Throughput | None, count: int) -> tuple[tuple[float, ...], str]:
    """P(position i accepted) for i = 1..count, and what they rest on; empty: unknown."""
    if found is None:
        return (), ""
    measured = found.positions
    if measured is not None and measured.by_position:
        rates = list(measured.by_position[:count])
        last = [rate for rate in measured.conditional if rate is not None]
        basis = f"acceptance by position of {measured.name}"
        if len(rates) < count:
            basis += f"; beyond position {len(rates)} continued with the last conditional rate"
        while len(rates) < count:
            rates.append(rates[-1] * (last[-1] if last else 0.0))
        return tuple(rates), basis
    if found.acceptance is None or not found.k:
        return (), ""
    p = _probability(found.acceptance.accept_length, found.k)
    basis = f"one probability for every position, from the accept length {found.acceptance.name}"
    return tuple(p**i for i in range(1, count + 1)), basis


def length_with(found: Throughput | None, rates: Sequence[float], number: int) -> float | None:
    """Accept length with so many steps; None: unknown.

    By the rates of the positions, scaled so that the steps on record give the accept length that
    every other figure is made with: a source of positions may have counted another stretch of time.
    """
    if found is None or not rates:
        return None
    length = length_at(rates, number)
    if found.acceptance is None or not found.k:
        return length
    recorded, _ = positions(found, found.k)
    of_positions = length_at(recorded, found.k) - 1
    if of_positions <= 0:
        return length
    scale = (found.acceptance.accept_length - 1) / of_positions
    return min(1 + (length - 1) * scale, number + 1.0)


def _probability(length: float, k: int) -> float:
    """The probability of each token that gives a chain of k this accept length."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if length_of_probability(middle, k) < length else (low, middle)
    return low


def steps(bench: Bench, number: int) -> Prediction:
    """Another number of draft steps, as a chain."""
    return _steps(bench, (number,))[0]


def curve(bench: Bench, most: int = STEPS[-1]) -> Curve | None:
    """The rates of 1..8 draft steps; None where the steps on record are not known."""
    rows = _steps(bench, range(1, most + 1))
    if any(row.refused for row in rows):
        return None
    rates, basis = positions(bench.throughput, most)
    lengths = tuple(length_with(bench.throughput, rates, n) for n in range(1, most + 1))
    known = [row.rate for row in rows if row.rate is not None]
    best = None
    if len(known) == len(rows):
        tops = [1 + max(range(most), key=lambda n, end=end: known[n][end]) for end in (0, 1)]  # type: ignore[misc]
        best = min(tops), max(tops)
    return Curve(rows, lengths, best, basis)


def _steps(bench: Bench, numbers: Sequence[int]) -> tuple[Prediction, ...]:
    if why := _no_steps(bench):
        return tuple(_refused("steps", n, _steps_title(n), why) for n in numbers)
    found = bench.throughput
    assert found is not None
    assert found.k is not None
    now = _forwards(bench, found.k)
    ends = [
        _draft_scaled(bench, verify, _forwards(bench, number) / now)
        for number in numbers
        for verify in _verify_ends(bench, (number - found.k) * (found.batch or 1))
    ]
    cycles = bench.cycles_with(ends)
    rows = []
    for place, number in enumerate(numbers):
        cycle = ordered(*cycles[2 * place : 2 * place + 2])
        rates, _ = positions(found, number)
        length = length_with(found, rates, number)
        rows.append(
            Prediction(
                "steps",
                str(number),
                _steps_title(number),
                cycle,
                bench.rate(cycle, length) if length is not None else None,
                None,
                "what a token costs to verify, and acceptance beyond the positions measured",
                "replay with the draft's ops x forwards / forwards now and verify by its line; "
                "accept length 1 + P(1) + ... + P(steps)",
            )
        )
    return tuple(rows)


def _steps_title(number: int) -> str:
    return "1 draft step" if number == 1 else f"{number} draft steps"


def _no_steps(bench: Bench) -> str:
    """Why the number of steps cannot be changed; empty where it can."""
    found = bench.throughput
    if found is None or not found.k:
        return "the number of draft steps on record is not known; run.json gives it (k)"
    if bench.report.run.context.get("topk") not in (None, 1):
        return (
            "the server verifies a tree (topk above 1): how its width follows from the steps is "
            "not on record; record a server with topk 1"
        )
    if not bench.select.of(DRAFT).any():
        return "the run has no draft stage on the GPU"
    if _forwards(bench, found.k) < 1:
        return "the draft stage holds no forward of the draft; record with 2 draft steps or more"
    return ""


def accept_length(bench: Bench, length: float) -> Prediction:
    """Another accept length with the cycle as it is."""
    title = f"accept length {length:g}"
    found = bench.throughput
    if found is None or found.batch is None:
        return _refused("accept-length", length, title, _GIVE_BATCH)
    if found.k is not None and not 1 <= length <= found.k + 1:
        return _refused(
            "accept-length",
            length,
            title,
            f"with {found.k} draft tokens it lies between 1 and {found.k + 1}",
        )
    cycle = (bench.cycle_ns, bench.cycle_ns)
    return Prediction(
        "accept-length",
        f"{length:g}",
        title,
        cycle,
        bench.rate(cycle, length),
        bench.cycle_ns,
        "the cycle does not change with the accept length",
        "tokens/s = batch x accept length / cycle",
    )


def batch(bench: Bench, size: int) -> Prediction:
    """Another batch: verify by its measured line, all else as it is."""
    title = f"batch {size}"
    found = bench.throughput
    width = _width(bench)
    if found is None or found.verify_line is None or found.batch is None or width is None:
        return _refused("batch", size, title, _GIVE_LINE)
    return _wider(bench, "batch", size, title, size * width, size)


def batch_asked(bench: Bench, size: int) -> Prediction:
    """The same where the batch may be the one on record: then the cycle is as it is."""
    title = f"batch {size}"
    found = bench.throughput
    if found is None or found.batch != size:
        return batch(bench, size)
    cycle = (bench.cycle_ns, bench.cycle_ns)
    return Prediction(
        "batch",
        str(size),
        title,
        cycle,
        bench.rate(cycle),
        bench.cycle_ns,
        "the batch on record: the cycle is as it is",
        "tokens/s = batch x accept length / cycle",
    )


def draft_tokens(bench: Bench, number: int) -> Prediction:
    """Another number of tokens that a verify reads for each sequence."""
    title = f"{number} tokens verified a sequence"
    found = bench.throughput
    if found is None or found.verify_line is None or found.batch is None:
        return _refused("draft-tokens", number, title, _GIVE_LINE)
    return _wider(bench, "draft-tokens", number, title, number * found.batch, found.batch)


def _wider(bench: Bench, lever: str, value: int, title: str, tokens: int, size: int) -> Prediction:
    found = bench.throughput
    assert found is not None
    assert found.verify_line is not None
    costs = found.verify_line.between(tokens)
    if costs is None:
        low, high = found.verify_line.measured
        return _refused(
            lever,
            value,
            title,
            f"{tokens} tokens lie outside of those measured ({low:g} to {high:g}); {_GIVE_LINE}",
        )
    now = found.stage_ns("verify")
    ends = [_verify_longer(bench, cost - now) for cost in costs]
    cycle = ordered(*bench.cycles_with(ends))
    rate = bench.rate(cycle)
    scale = size / (found.batch or 1)
    return Prediction(
        lever,
        str(value),
        title,
        cycle,
        (rate[0] * scale, rate[1] * scale) if rate and lever == "batch" else None,
        None,
        "a verify costs what lies between the two measured next to it; draft and host as they are",
        "replay with verify's ops longer by the measured difference",
    )


def _verify_ends(bench: Bench, tokens: int) -> tuple[Float, Float]:
    """Lengths with a verify of so many tokens more, at both ends of what a token costs.

    Kernels and transfers scale alike, so that verify as a whole meets its line.
    """
    verify_ns = bench.corrected.stage_ns("verify") or 0.0
    found = bench.throughput
    line = found.verify_line if found is not None else None
    if line is not None:
        per_token: Range = line.per_token_range_ns
    else:
        width, size = _width(bench), (found.batch or 1) if found is not None else 1
        per_token = (0.0, verify_ns / (size * width) if width else 0.0)
    low, high = (_verify_longer(bench, tokens * ns) for ns in per_token)
    return low, high


def _verify_longer(bench: Bench, more_ns: float) -> Float:
    """Lengths with a verify longer by so much a cycle; its kernels and transfers scale alike."""
    which = bench.select.of(*VERIFY_STAGES) & (bench.select.compute | bench.select.transfer)
    spent = bench.spent(which)
    changed = bench.lengths.copy()
    changed[which] *= max(1 + more_ns / spent, 0.0) if spent > 0 else 1.0
    return changed


def _draft_scaled(bench: Bench, lengths: Float, factor: float) -> Float:
    """The forwards of the draft stage, `factor` times as many: of a graph its ops, else all."""
    s = bench.select
    draft = s.of(DRAFT)
    inside = draft & s.in_graph
    which = inside if inside.any() else draft & ~s.arrive & ~s.alone
    ns = lengths.copy()
    ns[which] *= factor
    return ns


def _forwards(bench: Bench, k: int) -> int:
    """Forwards in the draft stage: SGLang makes the first draft token in draft-extend."""
    return k - 1 if bench.report.facts.get("engine") == "sglang" else k


def _width(bench: Bench) -> int | None:
    """Tokens that a verify reads for each sequence."""
    given = bench.report.run.context.get("draft_tokens")
    if isinstance(given, int | float):
        return int(given)
    found = bench.throughput
    return found.k + 1 if found is not None and found.k else None


def _refused(lever: str, value: float, title: str, why: str) -> Prediction:
    return Prediction(lever, f"{value:g}", title, refused=why)
