"""The flat table of named figures that causes are judged by, and what follows from them.

Every name is a word of `rules/figures.toml`. A figure that is not in the table is not known:
it is never zero and never false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from specscope.analyzers.name_rules import bundled
from specscope.traces.errors import UsageError

Figures = dict[str, float]

# Starts of one server differ by up to 10 %; a cycle longer than that is the profiler's doing.
STRETCHED: Final = 1.1

_MS: Final = ".ms"
_SHARE: Final = ".share"


@dataclass(frozen=True)
class Word:
    """What one figure means, and how to come by it."""

    name: str
    unit: str
    meaning: str
    ask: str


@cache
def words() -> Mapping[str, Word]:
    """Every figure by its name."""
    rules = bundled("figures.toml")
    stages, measures, parts, ask = (rules[key] for key in ("stages", "measures", "parts", "ask"))
    found = {}
    for stage, stage_meaning in stages.items():
        for measure, of in measures.items():
            unit = "ms" if measure == "ms" else "share"
            whole = f"{stage}.{measure}"
            found[whole] = Word(whole, unit, f"{stage_meaning}, {of}", ask[measure])
            for part, meaning in parts.items():
                name = f"{stage}.{part}.{measure}"
                text = f"{stage_meaning}: {meaning}, {of}"
                found[name] = Word(name, unit, text, ask.get(part, ask[measure]))
    for row in rules["figure"]:
        found[row["name"]] = Word(row["name"], row["unit"], row["meaning"], row["ask"])
    return found


def checked(given: Mapping[str, float]) -> Figures:
    """The figures as a table of known, finite numbers.

    Raises:
        UsageError: a name is no word of the table.
    """
    unknown = [name for name in given if name not in words()]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no figure; docs/causes.md has their names")
    return {name: float(value) for name, value in given.items() if math.isfinite(value)}


def complete(given: Mapping[str, float]) -> Figures:
    """The figures, and all that follows from them; a figure that is given is never replaced."""
    table = checked(given)
    while more := {name: value for name, value in _following(table) if name not in table}:
        table = {**more, **table}
    return table


def _following(table: Figures) -> list[tuple[str, float]]:
    found = []
    for name, inputs, formula in FORMULAS:
        if name not in table and all(one in table for one in inputs):
            found.append((name, formula(*(table[one] for one in inputs))))
    found += _measures(table)
    # The first formula whose inputs are known decides.
    first = dict(reversed(found))
    return [(name, value) for name, value in first.items() if math.isfinite(value)]


def _measures(table: Figures) -> list[tuple[str, float]]:
    """Shares from times, and times from shares."""
    cycle = table.get("cycle.ms")
    found = []
    for name in table:
        stem, measure = name.rpartition(".")[0], name[name.rfind(".") :]
        if stem in ("server.cycle", "plain.step", "cycle", ""):
            continue
        if cycle and measure == _MS and stem + _SHARE in words():
            found.append((stem + _SHARE, _over(table[name], cycle)))
        if cycle and measure == _SHARE and stem + _MS in words():
            found.append((stem + _MS, table[name] * cycle))
        stage, _, part = stem.partition(".")
        if measure == _MS and part and f"{stem}.of_stage" in words():
            whole = table.get(f"{stage}.ms")
            if whole:
                found.append((f"{stem}.of_stage", _over(table[name], whole)))
    return found


def _over(upper: float, lower: float) -> float:
    return upper / lower if lower else math.nan


_Formula = tuple[str, tuple[str, ...], Callable[..., float]]

# name, inputs, formula; of several for one name the first whose inputs are known.
FORMULAS: Final[tuple[_Formula, ...]] = (
    ("accept_length", ("accepted", "cycles"), lambda a, n: 1 + _over(a, n)),
    (
        "accept_length",
        ("acceptance_probability", "k"),
        lambda p, k: k + 1 if p == 1 else (1 - p ** (k + 1)) / (1 - p),
    ),
    ("acceptance_rate", ("accepted", "drafted"), _over),
    ("accept_length.most", ("k",), lambda k: k + 1),
    ("draft_tokens", ("k",), lambda k: k + 1),
    ("verify.tokens", ("batch", "draft_tokens"), lambda b, d: b * d),
    ("context.tokens", ("batch", "prompt_tokens"), lambda b, p: b * p),
    (
        "server.cycle.ms",
        ("batch", "accept_length", "tokens_per_second"),
        lambda b, a, rate: _over(1e3 * b * a, rate),
    ),
    ("cycle.ms", ("server.cycle.ms",), lambda ms: ms),
    ("stretch", ("cycle.ms", "server.cycle.ms"), _over),
    (
        "late_rank.by_profiler",
        ("late_rank.by_host", "stretch"),
        lambda host, stretch: float(host == 1 and stretch >= STRETCHED),
    ),
    ("plain.step.ms", ("batch", "plain.tokens_per_second"), lambda b, rate: _over(1e3 * b, rate)),
    ("break_even", ("server.cycle.ms", "plain.step.ms"), _over),
    ("break_even", ("cycle.ms", "plain.step.ms"), _over),
    ("break_even", ("accept_length", "speed_up"), _over),
    ("speed_up", ("accept_length", "break_even"), _over),
    ("speed_up", ("tokens_per_second", "plain.tokens_per_second"), _over),
    (
        "tokens_per_second",
        ("batch", "accept_length", "server.cycle.ms"),
        lambda b, a, ms: _over(1e3 * b * a, ms),
    ),
    ("cycle.work.ms", ("cycle.ms", "cycle.idle.ms"), lambda whole, idle: whole - idle),
    ("cycle.idle.ms", ("cycle.ms", "cycle.work.ms"), lambda whole, work: whole - work),
    ("verify.ratio", ("verify.work.ms", "plain.step.ms"), _over),
    ("verify.ratio", ("verify.ms", "plain.step.ms"), _over),
    ("verify.excess.ms", ("verify.ms", "plain.step.ms"), lambda whole, step: whole - step),
    ("graph.excess", ("batch", "graph.batch"), _over),
    ("graph.excess", ("verify.tokens", "graph.tokens"), _over),
    ("draft.gain", ("cycle.ms", "draft.ms"), lambda whole, part: _over(whole, whole - part)),
    ("draft.sharding.ms", ("draft.ms", "draft.alone.ms"), lambda now, alone: now - alone),
    ("draft.sharding.ms", ("draft.collective.ms",), lambda ms: ms),
    ("draft.sharding.most.share", ("draft.sharding.ms", "cycle.ms"), _over),
    ("draft.sharding.most.share", ("draft.work.ms", "cycle.ms"), lambda w, c: 0.75 * _over(w, c)),
    (
        "verify.collective.us",
        ("verify.transfer.ms", "verify.collectives"),
        lambda ms, count: _over(1e3 * ms, count),
    ),
)
