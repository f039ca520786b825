"""A sweep on a terminal: one table a batch, the best row, and what went wrong; as sweep.json is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.layout import BOLD, DIM, grid_lines, hanging
from specscope.dashboards.safe_text import clean
from specscope.dashboards.terminal import PIPE_COLUMNS, console_for
from specscope.dashboards.units import UNKNOWN, between

Document = dict[str, Any]
_LONGEST: Final = 600
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_STAGES: Final = (("verify", "verify"), ("draft", "draft"), ("draft_extend", "extend"))


def print_sweep(document: Document, console: Console) -> None:
    """Print it."""
    for number, block in enumerate(_blocks(document, console)):
        if number:
            console.print()
        for line in block:
            console.print(line, soft_wrap=True)


def plain_sweep(document: Document, width: int = PIPE_COLUMNS) -> str:
    """The sweep as a pipe gets it."""
    file = io.StringIO()
    print_sweep(document, console_for(file, width))
    return file.getvalue()


def _blocks(document: Document, console: Console) -> Iterator[list[Text]]:
    rows = document["rows"]
    best = {entry["batch"]: entry for entry in document["best"]}
    for batch in sorted({row["batch"] for row in rows}):
        those = [row for row in rows if row["batch"] == batch]
        lines = grid_lines(_grid(batch, those, best.get(batch)), console, colours=False)
        if batch in best:
            lines += hanging(Text(_best_line(best[batch]), BOLD), console, indent=0)
        yield lines
    if legend := _legend(rows):
        yield [line for text in legend for line in hanging(Text(text, DIM), console, indent=0)]
    if notes := _notes(rows):
        lines = [Text("Notes", BOLD)]
        for text in notes:
            lines += hanging(text, console, first="!")
        yield lines


def _grid(batch: int, rows: list[Document], best: Document | None) -> Grid:
    """The rows of one batch; columns that would be empty in all are left out."""
    shares = any(row["shares"] for row in rows)
    compared = any(row["speedup"] for row in rows)
    columns = ["steps", "tokens/s", "range", "cycle", "accept"]
    columns += [head for _, head in _STAGES] if shares else []
    columns += ["speed", "even", "pays"] if compared else []
    out = []
    for row in rows:
        rate, accept = row["tokens_per_second"], row["accept_length"]
        time = row["cycle_ms"] or row["step_ms"]
        # A star only where nothing comes near.
        star = "*" if best and best["told_apart"] and best["steps"] == row["steps"] else ""
        cells = [
            _steps(row["steps"]) + star,
            rate_text(rate["value"]) if rate else "failed" if row["reason"] else UNKNOWN,
            _range(rate) if rate else UNKNOWN,
            f"{time['value']:.2f}" if time else UNKNOWN,
            f"{accept['value']:.2f}" if accept else UNKNOWN,
        ]
        if shares:
            cells += [_percent((row["shares"] or {}).get(stage)) for stage, _ in _STAGES]
        if compared:
            faster, even = row["speedup"], row["break_even_accept_length"]
            cells += [
                f"{faster['value']:.2f}x" if faster else UNKNOWN,
                f"{even:.2f}" if even else UNKNOWN,
                row["pays"] or UNKNOWN,
            ]
        out.append(Row(tuple(cells)))
    return Grid(f"Batch {batch}", tuple(columns), tuple(out), note="cycle in ms")


def _best_line(entry: Document) -> str:
    rate = entry["tokens_per_second"]
    figure = (
        f"{rate_text(rate['value'])} tokens/s ({rate_text(rate['low'])} to "
        f"{rate_text(rate['high'])})"
    )
    if entry["told_apart"]:
        return f"Best: {_words(entry['steps'])}, {figure}"
    near = ", ".join(_words(steps) for steps in entry["not_told_apart_from"])
    why = (
        "too few repetitions to tell, give --repetitions 4 or more"
        if entry["too_few_repetitions"]
        else "the ranges overlap"
    )
    return f"Not told apart: {_words(entry['steps'])}, {figure}, and {near} ({why})"


def _legend(rows: list[Document]) -> list[str]:
    """What the columns mean, as far as they are there."""
    if not any(row["tokens_per_second"] for row in rows):
        return []
    out = [
        "Measured without a profiler; range: of the repetitions; accept: tokens a sequence and "
        "cycle, the bonus token included."
    ]
    if any(row["shares"] for row in rows):
        out.append("verify (accept included), draft, extend: percent of the recorded cycle.")
    if any(row["speedup"] for row in rows):
        out.append(
            "speed: of the server without speculation (none); even: accept length at which both "
            "are equally fast; prompts are random, so hold it against that of your traffic."
        )
    else:
        out.append("Without a baseline nobody can say whether it pays: give --baseline-command.")
    if any(row["pays"] == "never" for row in rows):
        out.append("never: not even if every draft were accepted.")
    if any(row["pays"] == "unclear" for row in rows):
        out.append("unclear: the repetitions leave both open.")
    if any(row["simulated_acceptance"] for row in rows):
        out.append("Acceptance is simulated: accept length and tokens/s are not the models'.")
    return out


def _notes(rows: list[Document]) -> list[str]:
    """What went wrong, each once, with the rows it holds for."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for row in rows:
        place = f"{_words(row['steps'])}, batch {row['batch']}"
        told = [(row["reason"], ""), (row["not_recorded"], "not recorded: ")]
        for text, lead in told:
            if text:
                _put(found, lead + text, lead + text, place)
        for text in row["notes"]:
            _put(found, _NUMBER.sub("0", text), text, place)
    measured = sum(1 for row in rows if row["tokens_per_second"])
    out = []
    for texts, places in found.values():
        where = "all rows" if len(places) == measured > 1 else _several(places)
        out.append(f"{where}: {clean(_merged(texts), _LONGEST)}")
    return out


def _put(found: dict[str, tuple[list[str], list[str]]], key: str, text: str, place: str) -> None:
    texts, places = found.setdefault(key, ([], []))
    texts.append(text)
    places.append(place)


def _merged(texts: list[str]) -> str:
    """Texts that differ in their numbers only as one, each number as the range of all.

    >>> _merged(["17 % of 4", "39 % of 4"])
    '17 to 39 % of 4'
    """
    numbers = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([between(sorted(set(found), key=float)) for found in numbers])
    return _NUMBER.sub(lambda match: next(ranges), texts[0])


def _several(places: list[str]) -> str:
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""
    return "; ".join(places[:2]) + more


def _steps(steps: int) -> str:
    return str(steps) if steps else "none"


def _words(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}" if steps else "no speculation"


def _range(rate: Document) -> str:
    return "-".join(rate_text(rate[end]).replace(",", "") for end in ("low", "high"))


def _percent(share: float | None) -> str:
    return f"{100 * share:.1f}" if share is not None else UNKNOWN


def rate_text(rate: float) -> str:
    """A rate of tokens with three digits or more.

    >>> rate_text(71.26), rate_text(453.97), rate_text(12345.6)
    ('71.3', '454', '12,346')
    """
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.1f}"
