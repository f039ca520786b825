"""What a comparison shows, as grids and lines of clean text, before any medium draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from specscope.analyzers import compare_report as kinds
from specscope.analyzers import compare_words
from specscope.analyzers.compare_report import Against, Change, Comparison, KernelChange, Part
from specscope.dashboards.grid import Grid, Row
from specscope.dashboards.safe_text import NAME_LIMIT, clean
from specscope.dashboards.sections import stage_name
from specscope.dashboards.units import UNKNOWN, count_text, share_text, time_text

_COLUMNS: Final = ("", "A", "B", "change", "of A", "shows from", "")
RELATIVE_COLUMN: Final = _COLUMNS.index("of A")
_DIFFERS: Final = "differs"
_WAITS: Final = {"wait": "waiting", "transfer": "transferring"}
# On a page a row that does not differ has to take this share of the cycle.
_WORTH_A_LINE: Final = 0.01
_MOST_KERNELS: Final = 20
_SMALL_PART: Final = 0.0005
_INSIDE_STAGES: Final = (kinds.STAGE, kinds.ACTIVITY, kinds.STAGE_IDLE)
_STAGES_IN_ORDER: Final = (
    "draft",
    "verify",
    "draft_extend",
    "schedule",
    "decode",
    "prefill",
    "unplaced",
)


def sentence(comparison: Comparison) -> str:
    """All that is said, in one line: what is not the same first, then the answer."""
    return " ".join(f"{line}." for line in [*lead_lines(comparison), *answer_lines(comparison)])


def lead_lines(comparison: Comparison) -> list[str]:
    """What is not the same in both, said before anything else."""
    return [clean(line) for line in comparison.openings]


def answer_lines(comparison: Comparison) -> list[str]:
    """The headline; why it is withheld; speculation against plain decoding."""
    head = comparison.headline
    if comparison.refused:
        head = f"{head}: {'; '.join(comparison.refused)}"
    if comparison.details:
        return [*map(clean, comparison.details), *([clean(head)] if comparison.refused else [])]
    return [clean(head)]


def side_lines(comparison: Comparison) -> list[str]:
    """Which run is A and which is B."""
    lines = []
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        lap = "step" if side.kind == "decode" else "cycle"
        plural = "" if side.cycles == 1 else "s"
        batch = "" if side.batch is None else f" at batch {side.batch}"
        ranks = f" on {len(side.ranks)} ranks" if len(side.ranks) > 1 else ""
        lines.append(
            f"{letter}  {clean(side.label, NAME_LIMIT)}: {count_text(side.cycles)} {lap}{plural}"
            f"{batch}{ranks}, {time_text(side.cycle_ns)}"
        )
    return lines


def change_grids(comparison: Comparison, *, every: bool = False) -> list[Grid]:
    """Stages with their activities, idle by cause, collectives, counts, kernels; with content."""
    rows = [row for row in comparison.rows if every or _is_worth_it(row, comparison)]
    note = f"medians of {count_text(comparison.a.cycles)} and {count_text(comparison.b.cycles)}"
    titles: list[tuple[str, list[Row]]] = [
        ("Where the cycle changed", _stage_rows(rows)),
        (
            "Idle by cause",
            [
                _row(r, int(r.kind == kinds.CAUSE))
                for r in rows
                if r.kind in (kinds.IDLE, kinds.CAUSE)
            ],
        ),
        ("Collectives of all ranks", [_row(r, 0) for r in rows if r.kind == kinds.WAIT]),
        ("Counts a cycle", [_row(r, 0) for r in rows if r.kind == kinds.COUNT]),
        (
            "Kernel families",
            [_row(r, 0) for r in rows if r.kind == kinds.KERNEL and (every or r.differs)],
        ),
    ]
    return [
        Grid(title, _COLUMNS, tuple(body), note=note if number == 0 else "", words_last=True)
        for number, (title, body) in enumerate(titles)
        if body
    ]


def kernel_grid(
    comparison: Comparison, most: int | None = _MOST_KERNELS, name_chars: int = NAME_LIMIT
) -> Grid | None:
    """Kernels that only one side runs, by their full names."""
    found = comparison.kernels
    if not found:
        return None
    shown = sorted(found, key=lambda one: -(one.ns or one.calls))[:most] if most else list(found)
    listed = [one for one in found if one in shown]
    rows = tuple(_kernel_row(one, name_chars) for one in listed)
    rest = len(found) - len(listed)
    note = f"{count_text(rest)} shorter ones in --json" if rest else ""
    columns = ("", "", "calls", "a cycle", "name")
    title = "Kernels that only one side runs"
    return Grid(title, columns, rows, note=note, left=2, words_last=True)


def against_grid(against: Against) -> Grid:
    """The parts that a cycle has more than a plain step; they sum exactly."""
    columns = ("", "plain step", "cycle", "more", "of the step")
    step = sum(part.a_ns for part in against.parts)
    cycle = sum(part.b_ns for part in against.parts)
    rows: list[Row] = []
    for stage in _in_order(part.stage for part in against.parts):
        own = [part for part in against.parts if part.stage == stage]
        name = "verify+accept (plain: decode)" if stage == "verify" else stage_name(stage)
        rows.append(_part_row(name, own, step, stage, 0))
        if stage != "verify":
            continue
        large = [part for part in own if abs(part.change_ns) >= _SMALL_PART * max(step, 1)]
        for part in sorted(large, key=lambda part: -abs(part.change_ns)):
            word = part.what.replace("_", " ")
            text = word if part.state == "work" else f"idle: {word}"
            rows.append(_part_row(text, [part], step, stage, 1))
        rest = [part for part in own if part not in large]
        if rest:
            rows.append(_part_row(f"smaller parts ({len(rest)})", rest, step, stage, 1))
    rows.append(_part_row("sum", against.parts, step, None, 0))
    title = f"Why a cycle takes more than a plain step: {_ns(cycle - step)}"
    note = "means over the steady cycles and ranks: they add up, medians do not"
    return Grid(title, columns, tuple(rows), note=note)


def basis_lines(comparison: Comparison) -> list[str]:
    """What the answer rests on."""
    lines = []
    if comparison.blocks:
        how = "all" if comparison.exact else "a sample of"
        one, other = comparison.blocks
        lines.append(
            f"one test over all {count_text(len(comparison.rows))} rows: blocks of cycles ({one} "
            f"and {other}) dealt anew to A and B in {how} {count_text(comparison.ways)} ways; two "
            "equal runs have any row named in at most 5 % of cases; `shows from` is the smallest "
            "change that would have been named"
        )
        lines.append(
            "cycles of one capture say nothing of how captures of equal servers differ: record A "
            "twice and compare the two before a change is blamed"
        )
    if comparison.small:
        lines.append(f"too small for a row: {count_text(comparison.small)} figures more")
    return [*lines, *map(clean, comparison.notes)]


def _is_worth_it(row: Change, comparison: Comparison) -> bool:
    if row.differs or row.kind in (kinds.CYCLE, kinds.STAGE, kinds.IDLE, kinds.COUNT):
        return True
    cycle = max(comparison.a.cycle_ns or 0.0, comparison.b.cycle_ns or 0.0)
    return max(row.a, row.b) >= _WORTH_A_LINE * cycle


def _stage_rows(rows: Sequence[Change]) -> list[Row]:
    """The cycle, then each stage with what lies in it."""
    found = [_row(row, 0) for row in rows if row.kind == kinds.CYCLE]
    inside = [row for row in rows if row.kind in _INSIDE_STAGES]
    for stage in _in_order(str(row.stage) for row in inside):
        own = [row for row in inside if row.stage == stage]
        found += [_row(row, 0) for row in own if row.kind == kinds.STAGE]
        parts = [row for row in own if row.kind != kinds.STAGE]
        found += [_row(row, 1) for row in sorted(parts, key=lambda row: -max(row.a, row.b))]
    return found


def _in_order(stages: Iterable[str]) -> list[str]:
    return sorted(set(stages), key=_STAGES_IN_ORDER.index)


def _row(row: Change, depth: int) -> Row:
    name = compare_words.label(row)
    if row.kind == kinds.STAGE:
        name = stage_name(str(row.stage))
    elif row.kind == kinds.WAIT:
        name = f"{stage_name(str(row.stage))}: {_WAITS[str(row.what)]}"
    elif depth:
        name = str(row.what).replace("_", " ")
    cells = (
        clean(name),
        _value(row, row.a),
        _value(row, row.b),
        _signed(row),
        UNKNOWN if row.relative is None else _percent(row.relative),
        UNKNOWN if row.least is None else _value(row, row.least),
        _DIFFERS if row.differs else "",
    )
    return Row(cells, row.stage, depth)


def _value(row: Change, value: float) -> str:
    if row.unit == "ns":
        return time_text(value)
    if row.unit == "share":
        return share_text(value)
    return f"{value:,.1f}".removesuffix(".0")


def _signed(row: Change) -> str:
    text = _value(row, row.change)
    return f"+{text}" if row.change > 0 else text


def _percent(relative: float) -> str:
    """A change in percent; of next to nothing it is no percentage."""
    return f"{100 * relative:+.1f} %" if abs(relative) < 100 else UNKNOWN


def _kernel_row(one: KernelChange, name_chars: int) -> Row:
    word = "new" if one.side == "b" else "gone"
    cells = (
        f"{one.stage.replace('_', '-')} {one.activity.replace('_', ' ')}",
        word,
        f"{one.calls:,.1f}".removesuffix(".0"),
        time_text(one.ns),
        clean(one.name.removeprefix("void "), name_chars),
    )
    return Row(cells, one.stage)


def _part_row(name: str, parts: Sequence[Part], step: int, stage: str | None, depth: int) -> Row:
    a, b = sum(part.a_ns for part in parts), sum(part.b_ns for part in parts)
    share = _percent((b - a) / step) if step else UNKNOWN
    return Row((name, time_text(a), time_text(b), _ns(b - a), share), stage, depth)


def _ns(ns: int) -> str:
    text = time_text(ns)
    return f"+{text}" if ns > 0 else text
