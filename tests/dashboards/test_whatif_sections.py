"""The words of what would help: judged by the range, names cleaned, what does not fit left out."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.perturbation import Corrected
from specscope.analyzers.whatif import WhatIf
from specscope.dashboards.terminal import console_for
from specscope.dashboards.whatif_sections import headline, judged, print_whatif

CYCLE = 40e6
ROW = Prediction("draft-tp", "1", "the draft on one GPU", (CYCLE, CYCLE), (70.0, 75.0), 38e6, "so")


def found_with(low: float, high: float, **more: object) -> WhatIf:
    row = replace(ROW, cycle_ns=(CYCLE * (1 + low), CYCLE * (1 + high)), **more)
    corrected = Corrected(
        "profiled", "as recorded", CYCLE, CYCLE, None, "", (), (), lengths=np.empty(0)
    )
    return WhatIf(corrected=corrected, asked=(row,), ranked=(row,))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.01, 0.03, ": rather a loss"),
        (0.01, 0.03, ": rather a loss"),
        (-0.03, 0.01, ": rather a gain"),
        (-0.001, 0.003, ": hardly a change"),
        (-0.2, -0.1, ""),
        (-0.2, 0.0, ""),
    ],
)
def test_a_range_is_judged(low: float, high: float, word: str) -> None:
    found = found_with(low, high)
    assert judged(found, found.asked[0]) == word


def test_a_name_cannot_steer_the_terminal() -> None:
    found = found_with(-0.1, 0.0, title="the \x1b[31m draft\r\n")
    assert "\x1b" not in headline(found)
    assert "\n" not in headline(found)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_leaves_out_columns_before_it_breaks(width: int) -> None:
    out = io.StringIO()
    print_whatif(found_with(-0.012, 0.034), console_for(out, width))
    rows = [line for line in out.getvalue().splitlines() if line.startswith("the draft on one")]
    assert all(len(line) <= max(width, 60) for line in rows)
    assert ("-5.0 %" in out.getvalue()) == (width == 80)


def test_a_refused_run_says_why_in_the_sentence() -> None:
    assert headline(WhatIf(refused=("no whole cycle",))) == (
        "Nothing can be predicted: no whole cycle."
    )
