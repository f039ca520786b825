"""docs/losses.md names every reason that a reader can give, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Reasons stand in calls of these, as a text in lower case with underscores.
GIVEN = re.compile(
    r'(?:\._?(?:skip|note|add)|_gzip_loss|rows\.append)\((?:[^"()]|\([^()]*\))*?"([a-z_]+)"|'
    r'"(log_[a-z_]+)"|'
    r'\(NEGATIVE_DUR, "([a-z_]+)"|\(QUOTED_NUMBER, "([a-z_]+)"|"(duration_overflow)"'
)


def given() -> set[str]:
    files = ("scan.py", "text.py", "kineto.py", "kineto_losses.py", "cycle_log.py")
    files += ("attach_reports.py",)
    text = "\n".join((ROOT / "traces" / name).read_text() for name in files)
    return {reason for found in GIVEN.findall(text) for reason in found if reason}


def test_every_reason_is_documented_and_every_documented_reason_exists() -> None:
    page = (ROOT / "docs" / "losses.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    assert documented == given()
