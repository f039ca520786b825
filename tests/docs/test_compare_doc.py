"""The samples on the page of `compare` are what the tool prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text("utf-8")
SAMPLES = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
GOLDEN = ROOT / "tests" / "dashboards" / "golden"


@pytest.mark.parametrize(
    ("sample", "golden"), [(0, "compare_slower.txt"), (1, "compare_against.txt")]
)
def test_every_line_of_a_sample_is_printed_in_that_order(sample: int, golden: str) -> None:
    printed = (GOLDEN / golden).read_text("utf-8").splitlines()
    at = 0
    for line in SAMPLES[sample].splitlines():
        if line != "...":
            assert line in printed[at:], line
            at = printed.index(line, at) + 1
