"""The report on a terminal and in a pipe."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from specscope.dashboards.terminal import console_for, plain_report, print_report
from tests.dashboards import reports

Golden = Callable[[str, str], None]

DRAWN = {
    "two_ranks_of_70b": reports.bundled,
    "refused_for_two_cycles": lambda: reports.drawn("two_cycles_give_figures_and_no_verdict"),
    "accept_told_apart": lambda: reports.drawn("own_ranges_with_every_field"),
    "plain_decode": lambda: reports.drawn("sglang_plain_decode"),
    "on_the_cpu": lambda: reports.drawn("vllm_on_cpu_is_partitioned_on_host_ranges"),
    "hostile_names": reports.hostile,
}


def coloured(report: Any, width: int, **options: Any) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, color_system="truecolor", **options
    )
    console._highlight = console._markup = console._emoji = False
    print_report(report, console)
    return file.getvalue()


@pytest.mark.parametrize("name", DRAWN)
def test_the_report_in_a_pipe_is_the_golden_one(name: str, golden: Golden) -> None:
    golden(f"{name}.80.txt", plain_report(DRAWN[name]()))


def test_the_report_at_120_columns_is_the_golden_one(golden: Golden) -> None:
    golden("two_ranks_of_70b.120.txt", plain_report(reports.bundled(), 120))


def test_the_report_in_colour_is_the_golden_one(golden: Golden) -> None:
    golden("two_ranks_of_70b.80.ansi", coloured(reports.bundled(), 80, no_color=False))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    report = DRAWN[name]()
    whole = report.verdict.recapture.splitlines()  # to be copied
    for line in plain_report(report, width).splitlines():
        assert cell_len(line) <= width or line in whole


@pytest.mark.parametrize("name", DRAWN)
def test_no_line_ends_in_blanks_and_none_holds_a_box(name: str) -> None:
    text = plain_report(DRAWN[name]())
    for line in text.splitlines():
        assert line == line.rstrip()
    assert not any("\u2500" <= letter <= "\u259f" for letter in text)


@pytest.mark.parametrize("name", DRAWN)
def test_a_pipe_gets_ascii_only(name: str) -> None:
    assert plain_report(DRAWN[name]()).isascii()


def test_the_verdict_stands_first() -> None:
    first = plain_report(reports.bundled()).splitlines()[0]
    assert first.startswith("Verify (accept included) takes ")


def test_a_withheld_verdict_gives_its_reasons_first_and_the_call_that_would_answer() -> None:
    lines = plain_report(DRAWN["refused_for_two_cycles"]()).splitlines()
    assert lines[0] == "No verdict"
    assert "3 are needed" in lines[1]
    assert any("start_profile" in line for line in lines)
    assert any(line.startswith("verify+accept ") for line in lines)


def test_the_call_of_a_recapture_is_not_cut_so_that_it_can_be_copied() -> None:
    report = DRAWN["refused_for_two_cycles"]()
    text = plain_report(report)
    for line in report.verdict.recapture.splitlines():
        assert line in text.splitlines()


def test_a_run_without_speculation_shows_its_steps() -> None:
    text = plain_report(DRAWN["plain_decode"]())
    assert text.startswith("No speculation in this trace")
    assert "Where the step goes" in text
    assert "\ndecode " in text


def test_a_run_on_the_cpu_has_no_busy_share() -> None:
    text = plain_report(DRAWN["on_the_cpu"]())
    assert "on host" in text
    assert "of busy" not in text


def test_accept_stands_under_verify_where_it_is_told_apart() -> None:
    lines = plain_report(DRAWN["accept_told_apart"]()).splitlines()
    names = [line[:15].rstrip() for line in lines]
    start = names.index("verify+accept")
    assert names[start : start + 3] == ["verify+accept", "  verify only", "  accept"]


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_from_a_trace_controls_the_terminal(name: str) -> None:
    text = plain_report(DRAWN[name](), 120)
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
    assert not bad


def test_markup_in_names_is_shown_and_not_obeyed() -> None:
    assert "\\x1b[31mred" in plain_report(reports.of(other_names()), 120)


def other_names() -> Any:
    """All of the work by kernels of no known activity: the warning names them."""
    t = reports.Timeline()
    for c in t.cycles(6, every=100):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
        c.launch(2, 4, "\x1b[31mred", 6, 30)
        c.mark(f"specscope:verify|c={c.i}|b=1", 11, 90)
        c.launch(20, 22, "[bold]x[/]", 32, 80)
    return t


def test_colours_are_left_out_in_a_pipe() -> None:
    file = io.StringIO()
    print_report(reports.bundled(), console_for(file))
    assert "\x1b" not in file.getvalue()


def test_a_bar_shows_the_cycle_where_there_are_colours() -> None:
    assert "█" in coloured(reports.bundled(), 80, no_color=False)
    assert "█" not in coloured(reports.bundled(), 80, no_color=True)
