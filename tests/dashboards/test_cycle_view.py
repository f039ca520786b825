"""`--cycle N`: the ops of one cycle in order."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from specscope.dashboards.cycle_slice import chosen_cycles, cycle_slice, middle_cycle
from specscope.dashboards.cycle_view import print_cycle
from specscope.dashboards.terminal import console_for
from specscope.traces.errors import EvidenceError, UsageError
from tests.dashboards import reports


def shown(report: Any, number: int) -> str:
    file = io.StringIO()
    print_cycle(report, number, console_for(file))
    return file.getvalue()


def test_a_drawn_cycle_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("cycle_1_drawn.txt", shown(reports.drawn("own_ranges_with_every_field"), 1))


def test_a_cycle_on_the_cpu_shows_what_the_host_did(golden: Callable[[str, str], None]) -> None:
    report = reports.drawn("vllm_on_cpu_is_partitioned_on_host_ranges")
    golden("cycle_0_on_the_cpu.txt", shown(report, 0))


def test_ops_and_idle_fill_the_cycle_to_the_nanosecond() -> None:
    """On one stream with overlaps the parts of the table sum up, not the ops themselves."""
    piece = cycle_slice(reports.drawn("own_ranges_with_every_field"), 0, 1)
    idle = sum(stretch.ns for stretch in piece.idle)
    work = {op.op_id: op.ns for op in piece.ops if op.owns_time}
    assert idle < piece.ns <= idle + sum(work.values())


def test_lines_stand_in_order_of_time() -> None:
    lines = shown(reports.bundled(), 2).splitlines()
    first = next(n for n, line in enumerate(lines) if line.lstrip().startswith("start us"))
    starts = [float(line.split()[0]) for line in lines[first + 1 :]]
    assert starts == sorted(starts)
    assert len(starts) > 1000


def test_a_delay_counts_from_the_begin_of_the_launch_call() -> None:
    piece = cycle_slice(reports.drawn("own_ranges_with_every_field"), 0, 1)
    assert piece.ops[0].delay_ns == 4_000  # drawn: call at 4, kernel at 8


def test_an_op_that_others_hide_is_marked() -> None:
    """The second stream's kernel runs inside a copy of the first: compute goes before copy."""
    text = shown(reports.drawn("own_ranges_with_every_field"), 1)
    assert re.search(r"Memcpy HtoD .*\(hidden\)", text) or "(hidden)" not in text


def test_hostile_names_are_one_visible_line_each() -> None:
    text = shown(reports.hostile(), 1)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31mred\\x1b[0m\\x07\\x9b2J" in text
    assert "[bold red]markup[/] :boom:" in text


def test_on_a_terminal_names_are_cut_at_its_edge() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system=None)
    print_cycle(reports.bundled(), 2, console)
    assert max(map(len, file.getvalue().splitlines())) <= 80


def test_a_cycle_that_is_not_there_says_which_ones_are() -> None:
    with pytest.raises(UsageError, match="rank 0 has the cycles 0 to 4"):
        shown(reports.drawn("own_ranges_with_every_field"), 99)


def test_a_trace_without_whole_cycles_cannot_show_one() -> None:
    t = reports.Timeline()
    t.launch(1, 2, "kernel", 3, 4)
    with pytest.raises(EvidenceError, match="no whole cycle"):
        shown(reports.of(t), 0)


def test_the_middle_cycle_is_closest_to_the_median() -> None:
    report = reports.bundled()
    number = middle_cycle(report, 0)
    assert number is not None
    median = next(row.median_ns for row in report.cycles if row.rank == 0)
    chosen = cycle_slice(report, 0, number).ns
    assert all(
        abs(chosen - median) <= abs(cycle_slice(report, 0, n).ns - median) for n in (1, 3, 5)
    )


def test_the_same_cycle_is_found_on_every_rank() -> None:
    pieces = chosen_cycles(reports.bundled(), 4)
    assert [(piece.rank, piece.number) for piece in pieces] == [(0, 4), (1, 4)]
