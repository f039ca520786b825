"""The section 'Why, and what to do': what it says of causes, bounds, flags and what is open."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from specscope.analyzers.causes import judge, with_mends
from specscope.analyzers.report import Report
from specscope.dashboards import cause_sections
from specscope.dashboards.html import html_page
from specscope.dashboards.json_causes import causes_json
from specscope.dashboards.markdown import markdown_text
from specscope.dashboards.terminal import plain_report
from tests.dashboards import reports

SYNC = {"cycle.ms": 10.0, "inner.sync.ms": 2.0, "batch": 1}
FAST = {"accept_length": 3.0, "plain.step.ms": 5.0, "server.cycle.ms": 10.0}


def report_with(
    figures: dict[str, float], engine: str | None = "sglang", version: str | None = "0.5.12"
) -> Report:
    found = with_mends(judge(figures), engine, version)
    return replace(reports.bundled(), causes=found)


def block(report: Report, cause_id: str) -> cause_sections.Block:
    return next(b for b in cause_sections.cause_blocks(report) if f"({cause_id})" in b.head)


def test_a_cause_says_its_signs_its_bound_and_its_mend() -> None:
    found = block(report_with(SYNC), "C8")
    assert found.head.endswith("(C8): at most 1.25 times the tokens/s if it took no time")
    assert found.lines[0].startswith("the GPU idles 20.0 % of the cycle")
    assert found.lines[-2].startswith("mend: take read-backs")
    assert found.lines[-1] == "no flag known: sglang 0.5.12"


def test_the_rate_after_a_gain_is_in_times_the_plain_rate() -> None:
    head = block(report_with(SYNC | FAST), "C8").head
    assert head.endswith(
        "at most 1.25 times the tokens/s if it took no time, then 1.88 times the plain rate"
    )


def test_flags_are_those_of_the_version() -> None:
    graphs = {"verify.graph_launches": 0, "verify.launches": 400}
    lines = block(report_with(graphs, "sglang", "0.5.12"), "C10").lines
    assert "--cuda-graph-bs (" in lines[-1]
    assert "--cuda-graph-bs-decode" not in lines[-1]
    assert "which version of sglang" in block(report_with(graphs, "sglang", None), "C10").lines[-1]
    assert "which engine" in block(report_with(graphs, None, None), "C10").lines[-1]


def test_evidence_to_the_contrary_stands_beside() -> None:
    found = block(report_with({"accept_length": 1.0, "k": 0}), "C16")
    assert found.head.startswith("Suspected: ")
    assert any(line.startswith("yet: no draft token was proposed") for line in found.lines)


def test_what_cannot_be_told_says_what_to_give() -> None:
    lines = cause_sections.open_lines(report_with({"accept_length": 2.0}))
    assert any("Accept length too low" in line and "--baseline" in line for line in lines)
    gpu = next(line for line in lines if "GPU rows" in line)
    assert "C6, C7, C8, C9, C10" in gpu


def test_what_is_to_be_given_stands_in_one_line_however_many_causes_ask_for_it() -> None:
    lines = cause_sections.open_lines(report_with({"cycle.ms": 10.0, "verify.ms": 9.0}))
    baseline = [line for line in lines if "give --baseline " in line]
    assert baseline == [
        "Not decidable; give --baseline or --baseline-tokens-per-second: Accept length too low, "
        "Verify too dear for its width and batch"
    ]
    heads = [line.partition(": ")[0] for line in lines]
    assert len(heads) == len(set(heads))


def test_the_draft_on_one_gpu_is_answered_also_where_it_is_not_the_cause() -> None:
    lines = cause_sections.absent_lines(reports.bundled())
    assert lines == [
        "Not in this run: Draft on the target's TP (C7): at most 1.01 times the tokens/s "
        "if it took no time"
    ]


def test_what_gains_nothing_says_so_and_not_1_00() -> None:
    none = report_with({"cycle.ms": 10.0, "draft.work.ms": 1.0, "draft.collective.ms": 0.01})
    assert "Not in this run: Draft on the target's TP (C7): nothing to gain" in (
        cause_sections.absent_lines(none)
    )


def test_bounds_say_which_cycle_they_are_made_on() -> None:
    assert "without the profiler, 36.89 ms" in cause_sections.basis_lines(reports.bundled())[0]
    recorded = replace(reports.bundled(), unprofiled=None)
    assert "as recorded" in cause_sections.basis_lines(recorded)[0]


def test_a_drawn_accept_length_is_told_where_rates_rest_on_it() -> None:
    drawn = report_with(SYNC | FAST | {"accept_length.simulated": 1})
    assert "The server drew its accept length" in cause_sections.basis_lines(drawn)[-1]
    assert "drew" not in " ".join(cause_sections.basis_lines(report_with(SYNC | FAST)))


@pytest.mark.parametrize("name", reports.HOSTILE_NAMES)
def test_a_hostile_engine_version_is_text(name: str) -> None:
    report = report_with({"verify.graph_launches": 0, "verify.launches": 400}, "vllm", name)
    for text in (plain_report(report), markdown_text(report)):
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    assert causes_json(report)


@pytest.mark.parametrize("name", [name for name in reports.HOSTILE_NAMES if "<" in name])
def test_a_hostile_engine_version_is_no_markup_on_the_page(name: str) -> None:
    page = html_page(
        report_with({"verify.graph_launches": 0, "verify.launches": 400}, "vllm", name)
    )
    assert name not in page
    assert html.escape(name) in page


def test_a_run_without_speculation_has_no_section() -> None:
    report = replace(reports.bundled(), causes=None)
    assert cause_sections.TITLE not in plain_report(report)
    assert cause_sections.TITLE not in markdown_text(report)
    assert causes_json(report) is None
