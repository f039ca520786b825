"""What the cycle gives: tokens/s, break-even, what stages and draft tokens cost and are worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specscope.analyzers.report import Report
from specscope.analyzers.throughput import Throughput
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import clean
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import UNKNOWN, between, share_text, time_text

# Rates of one server, measured one after the other, differ by as much.
_NO_GAIN: Final = 0.02
# Sources that differ by more than this are not one server, or not one load.
_APART: Final = 0.05
_MOST_POSITIONS: Final = 16


def throughput_lines(report: Report) -> list[str]:
    """The answers, a sentence each; nothing without a cycle of speculation."""
    found = report.throughput
    return [clean(line) for line in _lines(found)] if found is not None else []


def throughput_grids(report: Report) -> list[Grid]:
    """What stages cost for each token, and draft tokens by position."""
    found = report.throughput
    if found is None:
        return []
    grids = (_stage_grid(found), _position_grid(found), _growth_grid(found), _device_grid(found))
    return [grid for grid in grids if grid is not None]


def _lines(found: Throughput) -> Iterator[str]:
    if found.acceptance is None and found.baseline is None:
        yield f"Not known: {'; '.join(found.missing)}."
        return
    cycle = f"cycle {time_text(found.cycle_ns)}, {found.cycle_source}"
    if found.profiled:
        cycle += ", stretched by the profiler"
    if found.acceptance is None:
        yield f"Rate not known ({cycle})."
    elif found.tokens_per_second is None:
        yield f"Accept length {found.acceptance.name} ({cycle})."
    else:
        of = f"batch {found.batch}, accept length {found.acceptance.name}, {cycle}"
        yield f"{found.tokens_per_second:,.1f} tokens/s ({of})."
    yield from _against_plain(found)
    gain = found.free_draft_gain
    if gain is not None:
        high = (found.free_draft_gains or (gain, gain))[1]
        estimate = "" if round(high, 2) == round(gain, 2) else f" (estimate {gain:.2f} x)"
        yield (
            "A draft model that cost nothing (draft and draft-extend) would give at most "
            f"{high:.2f} x{estimate}."
        )
    if found.sign is not None:
        yield found.sign.sentence
    yield from _token_costs(found)
    for other in found.others:
        own = found.acceptance
        if own and abs(other.accept_length / own.accept_length - 1) > _APART:
            yield f"{other.source} says an accept length of {other.accept_length:.2f}."
    rate = found.log_rate
    if rate is not None and found.log_cycle_ns is not None:
        yield (
            f"The server's log prints {rate.tokens_per_second:,.1f} tokens/s at batch {rate.batch} "
            f"(median of {rate.lines} lines): a cycle of {time_text(found.log_cycle_ns)}"
            + (
                "; where no profiler ran, give it as --tokens-per-second."
                if found.profiled
                else "."
            )
        )
    if found.missing:
        yield f"Not known: {'; '.join(found.missing)}."


def _against_plain(found: Throughput) -> Iterator[str]:
    """Break-even, and what it means."""
    break_even, speed_up, base = found.break_even, found.speed_up, found.baseline
    if break_even is None or base is None:
        return
    mixed = ""
    if base.profiled != found.profiled:
        which = ("step", "cycle") if base.profiled else ("cycle", "step")
        mixed = f"; the {which[0]} is a profiled one, the {which[1]} is not"
    text = (
        f"Break-even accept length {break_even:.2f} (plain step {time_text(base.step_ns)}, "
        f"{base.source}{mixed})"
    )
    if speed_up is not None:
        change = speed_up - 1
        if abs(change) < _NO_GAIN:
            text += f": no gain, {speed_up:.2f} x plain decoding"
        else:
            text += f": speculation {'gains' if change > 0 else 'loses'} {share_text(abs(change))}"
    yield f"{text}."
    perfect = found.perfect_speed_up
    if perfect is None or found.k is None:
        return
    tokens = f"{found.k + 1} tokens a cycle"
    if perfect <= 1:
        yield f"Not even perfect acceptance would win: {tokens}, {perfect:.2f} x plain decoding."
    else:
        rate = found.perfect_tokens_per_second
        at = f"{rate:,.0f} tokens/s, " if rate is not None else ""
        yield f"Perfect acceptance: {tokens}, {at}{perfect:.2f} x plain decoding."


def _token_costs(found: Throughput) -> Iterator[str]:
    """What a draft token costs, and who says which number of them is best."""
    if not found.token_values or found.step is None:
        return
    low, high = found.step.verify_ns
    cost = f"{time_text(found.step.draft_ns)} to draft"
    if high > 0:
        span = time_text(high) if low == high else f"{time_text(low)} to {time_text(high)}"
        cost += f" and {span} to verify"
    yield (
        f"A draft token costs {cost} ({found.step.basis}); its worth below is the sum of these "
        "costs, with nothing hidden behind the host. Which number of draft tokens is best: "
        "specscope whatif --steps 1..8."
    )


def _stage_grid(found: Throughput) -> Grid | None:
    if not found.stages or found.acceptance is None:
        return None
    rows = []
    for one in found.stages:
        ratio = found.stage_ratio(one.stage)
        rows.append(
            Row(
                (
                    stage_name(one.stage),
                    time_text(one.ns),
                    between(time_text(ns) for ns in one.range_ns),
                    time_text(found.per_token_ns(one)),
                    UNKNOWN if ratio is None else f"{ratio:.2f}",
                ),
                one.stage,
            )
        )
    return Grid(
        "What a token costs",
        ("stage", "a cycle", "between", "a token", "of a plain step"),
        tuple(rows),
    )


def _position_grid(found: Throughput) -> Grid | None:
    """Draft tokens by position: only where their acceptance is known."""
    known = found.positions
    if known is None:
        return None
    values = {value.i: value for value in found.token_values}
    rows = []
    given = zip(known.by_position, known.conditional, strict=True)
    for i, (accepted, conditional) in enumerate(given, 1):
        if i > _MOST_POSITIONS:
            break
        value = values.get(i)
        gain = value.gain if value else None
        rows.append(
            Row(
                (
                    str(i),
                    share_text(accepted),
                    share_text(conditional),
                    f"{1 + sum(known.by_position[:i]):.2f}",
                    UNKNOWN if gain is None else _gains(*gain),
                )
            )
        )
    how = ", simulated by the server" if known.simulated else ""
    return Grid(
        f"Draft tokens by position ({clean(known.source, 60)}{how})",
        ("position", "accepted", "given the one before", "accept length", "worth (sum of costs)"),
        tuple(rows),
    )


def _gains(low: float, high: float) -> str:
    texts = dict.fromkeys(f"{100 * gain:+.1f} %" for gain in (low, high))
    return " to ".join(texts)


def _growth_grid(found: Throughput) -> Grid | None:
    """Larger batches, where verify was measured at several."""
    line = found.verify_line
    if line is None or line.with_plain or len(found.growth) < 2:
        return None
    rows = tuple(
        Row(
            (
                str(one.batch),
                str(one.tokens),
                time_text(one.verify_ns),
                time_text(one.cycle_ns),
                UNKNOWN if one.tokens_per_second is None else f"{one.tokens_per_second:,.0f}",
            )
        )
        for one in found.growth
    )
    error = "" if line.error_ns is None else f", error {time_text(line.error_ns)}"
    slope = f"{time_text(line.fixed_ns)} + {time_text(line.per_token_ns)} a token{error}"
    return Grid(
        f"As the batch grows: verify by a line through {len(line.points)} points, {slope}",
        ("batch", "tokens", "verify", "cycle", "tokens/s"),
        rows,
    )


def _device_grid(found: Throughput) -> Grid | None:
    device = found.device
    if device is None:
        return None
    since = "between the two texts" if device.between else "since the server started"
    rows = tuple(
        Row(
            (
                "verify only" if row.stage == "verify" else stage_name(row.stage),
                f"{row.seconds:,.2f} s",
                share_text(row.share),
                share_text(row.trace_share),
            ),
            row.stage,
        )
        for row in device.rows
    )
    return Grid(
        f"The engine's own device timers ({clean(device.source, 80)}, {since})",
        ("stage", "seconds", "of them", "of the same in the trace"),
        rows,
    )
