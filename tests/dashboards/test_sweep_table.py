"""The table of a sweep, letter by letter at 80 columns."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest

from specscope.dashboards.sweep_table import plain_sweep
from specscope.profiler import sweep_figures, sweep_file

SHARES = {"draft": 0.0541, "verify": 0.9024, "draft_extend": 0.0224, "schedule": 0.0187}


def figure(value: float, spread: float) -> dict[str, Any]:
    values = [value * (1 + spread * (i - 2) / 2) for i in range(5)]
    return {"value": statistics.median(values), "low": values[0], "high": values[-1],
            "values": values}  # fmt: skip


def row(steps: int, batch: int, time: float, accept: float = 1.0, **more: Any) -> dict[str, Any]:
    spread = more.pop("spread", 0.01)
    figures = {
        "tokens_per_second": figure(1e3 * batch * accept / time, spread),
        "accept_length": figure(accept, 0.0) if steps else None,
        "cycle_ms" if steps else "step_ms": figure(time, spread),
    }
    return sweep_file.empty(steps, batch, None, **figures, **more)


def document(*rows: dict[str, Any]) -> dict[str, Any]:
    compared = sweep_figures.with_comparisons(rows)
    return {"rows": compared, "best": sweep_figures.best(compared)}


WHOLE = document(
    row(0, 1, 11.1),
    row(1, 1, 14.2, 1.6, recorded=True, shares=SHARES),
    row(2, 1, 15.1, 1.95, recorded=True, shares=SHARES | {"draft": 0.0872, "verify": 0.8731}),
    row(3, 1, 16.2, 2.11, not_recorded="no trace appeared in /tmp/out: the server's log says why"),
    sweep_file.empty(
        4,
        1,
        "the server did not start: it ended with exit code 1; its log: torch.OutOfMemoryError: "
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        log="steps-4/server.log",
    ),
    row(5, 1, 71.0, 2.2),
    row(0, 8, 15.3),
    row(1, 8, 21.0, 1.5, recorded=True, shares=SHARES),
    row(2, 8, 23.7, 1.7, recorded=True, shares=SHARES, spread=0.3,
        notes=["the length of a cycle differs by 60 % between repetitions"]),
)  # fmt: skip


def test_a_sweep_at_80_columns(golden: Callable[[str, str], None]) -> None:
    text = plain_sweep(WHOLE)
    assert max(map(len, text.splitlines())) <= 80
    golden("sweep.80.txt", text)


def test_without_baseline_and_traces_their_columns_are_gone(
    golden: Callable[[str, str], None],
) -> None:
    golden("sweep_bare.80.txt", plain_sweep(document(row(1, 1, 14.2, 1.6), row(2, 1, 15.1, 1.61))))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_of_figures_is_cut(width: int) -> None:
    (line, _) = (x for x in plain_sweep(WHOLE, width).splitlines() if x.startswith("none"))
    assert line.split() == ["none", "90.1", "89.2-91.0", "11.10", *"-------"]


def test_large_figures_still_fit_80_columns() -> None:
    rows = [row(0, 256, 25.3), *(row(s, 256, 123.4, 3.2, shares=SHARES) for s in (1, 12))]
    assert max(map(len, plain_sweep(document(*rows)).splitlines())) <= 80


def test_control_characters_of_a_log_do_not_reach_the_terminal() -> None:
    text = plain_sweep(document(sweep_file.empty(1, 1, "ValueError: \x1b[2J")))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_notes_that_differ_in_numbers_only_are_one_line() -> None:
    def noted(steps: int, share: int) -> dict[str, Any]:
        text = f"the length of a cycle differs by {share} % between 4 repetitions"
        return row(steps, 1, 14.2, 1.6, notes=[text])

    text = plain_sweep(document(noted(1, 17), noted(2, 9), noted(3, 128)))
    assert "! all rows: the length of a cycle differs by 9 to 128 % between 4" in text


def test_a_sweep_that_measured_nothing_says_only_why() -> None:
    text = plain_sweep(document(sweep_file.empty(1, 1, "no"), sweep_file.empty(2, 1, "no")))
    assert "1 step, batch 1; 2 steps, batch 1: no" in text
    assert "Measured" not in text
