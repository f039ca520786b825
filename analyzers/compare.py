"""Two runs beside each other: what changed, by how much, and whether it is more than noise."""

from __future__ import annotations

import numpy as np

from specscope.analyzers import (
    activities,
    compare_against,
    compare_facts,
    compare_kernels,
    compare_report,
    compare_rows,
    compare_test,
    compare_words,
)
from specscope.analyzers.compare_report import Change, Comparison, Side
from specscope.analyzers.compare_series import Key, Series, series
from specscope.analyzers.report import Report

FEWEST_CYCLES = 3


def compare(
    a: Report,
    b: Report,
    labels: tuple[str, str] = ("A", "B"),
    rules: activities.Rules | None = None,
) -> Comparison:
    """B against A. Nothing is refused by an error: a verdict is, in words.

    `rules` are those that both were analysed with: they give the families of kernels.
    """
    rules = rules or activities.load_rules()
    plain = compare_against.is_against(a, b)
    one = series(a, rules, plain_as_verify=plain == "a")
    other = series(b, rules, plain_as_verify=plain == "b")
    refused = _refused((a, b), (one, other), plain)
    rows: list[Change] = []
    small, tested = 0, None
    if one.cycles and other.cycles:
        rows, small, tested = compare_rows.rows(one, other, verdict=not refused)
    if not refused and tested is None:
        refused = [
            f"{one.cycles} and {other.cycles} cycles cannot show any difference at a chance of "
            f"{100 * compare_test.LEVEL:.0f} %: 4 a side are needed"
        ]
    # A fingerprint samples large files: equal figures have to say it too.
    same = compare_facts.same_files(a, b) and not any(row.change for row in rows)
    sides = (_side(labels[0], one), _side(labels[1], other))
    against = None
    if plain and one.cycles and other.cycles:
        step, cycle = (one, other) if plain == "a" else (other, one)
        reports = (a, b) if plain == "a" else (b, a)
        against = compare_against.against(plain, step, cycle, reports)
    details = compare_words.against_lines(against, *sides) if against else []
    return Comparison(
        a=sides[0],
        b=sides[1],
        openings=tuple(compare_facts.openings(a, b, against=plain is not None)),
        refused=tuple(refused),
        headline="No verdict" if refused else compare_words.headline(rows, same_files=same),
        details=tuple(details),
        rows=tuple(rows),
        small=small,
        kernels=tuple(compare_kernels.only_in_one(one, other, shared_stages=plain is not None)),
        against=against,
        blocks=tested.blocks if tested else None,
        ways=tested.ways if tested else 0,
        exact=tested.exact if tested else True,
        same_files=same,
        notes=tuple(_notes(one, other)),
    )


def _side(label: str, one: Series) -> Side:
    cycle = one.values.get(Key(compare_report.CYCLE))
    median = None if cycle is None or not len(cycle) else float(np.median(cycle))
    return Side(label, one.kind, one.batch, one.ranks, one.cycles, one.left_out, median)


def _refused(
    reports: tuple[Report, Report], both: tuple[Series, Series], plain: str | None
) -> list[str]:
    """Why no verdict is given, the cause before its consequences."""
    found = []
    for name, report, one in zip("AB", reports, both, strict=True):
        if report.blind:
            found.append(f"{name}: GPU work is missing in the trace, so its parts mean nothing")
        elif report.verdict.withheld and one.cycles >= FEWEST_CYCLES:
            found += [f"{name}: {reason}" for reason in report.verdict.refused]
        if one.cycles < FEWEST_CYCLES:
            found.append(compare_words.too_few(name, one.cycles, FEWEST_CYCLES))
    kinds = tuple(one.kind for one in both)
    if plain is None and None not in kinds and kinds[0] != kinds[1]:
        found.append(f"the cycles of A are of kind {kinds[0]}, those of B of kind {kinds[1]}")
    return found


def _notes(a: Series, b: Series) -> list[str]:
    """What a reader has to know of the figures."""
    found = []
    for name, one in (("A", a), ("B", b)):
        if one.left_out:
            found.append(
                f"{name}: {one.left_out} of {one.cycles + one.left_out} whole cycles left out as "
                "warm-up, outliers, or for ranks that began to profile apart"
            )
    return found
