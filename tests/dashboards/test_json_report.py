"""The JSON report: its schema, its rounding, the same bytes from run to run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import specscope.dashboards
from specscope.analyzers.analyze import analyze
from specscope.analyzers.checks import parse
from specscope.analyzers.statistics import Estimate
from specscope.dashboards.checked import Checked
from specscope.dashboards.json_report import as_json, json_text
from specscope.traces.load import load
from tests.analyzers.case import CASES
from tests.dashboards import reports
from tests.shared import shared_path

SCHEMA_FILE = Path(specscope.dashboards.__file__).with_name("report.schema.json")
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
# The keys that the contract names.
CONTRACT = (
    "schema_version",
    "sources",
    "coverage",
    "losses",
    "cycles",
    "stages",
    "idle",
    "verdict",
    "warnings",
)


def valid(tree: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(tree)


def numbers(tree: Any) -> Iterator[float]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from numbers(item)
    elif isinstance(tree, float):
        yield tree


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_docs_have_the_schema_that_is_shipped() -> None:
    docs = reports.ROOT / "docs" / "report.schema.json"
    assert docs.read_bytes() == SCHEMA_FILE.read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_the_report_of_every_drawn_case_fits_the_schema(name: str) -> None:
    valid(json.loads(json_text(reports.drawn(name))))


@pytest.mark.parametrize("folder", ["own", "cpu", "public"])
def test_the_report_of_every_recording_fits_the_schema(folder: str) -> None:
    for path in sorted(shared_path("traces", folder).iterdir()):
        if path.is_dir() and list(path.glob("rank*.trace.json.gz")):
            valid(json.loads(json_text(analyze(load(path, cache=False)))))


def test_the_keys_of_the_contract_are_there() -> None:
    tree = as_json(reports.bundled())
    assert set(CONTRACT) <= set(tree)
    assert tree["schema_version"] == 1


def test_shares_are_fractions_and_intervals_hold_them() -> None:
    for stage in as_json(reports.bundled())["stages"]:
        for kind in ("cycle_share", "busy_share", "unprofiled_share"):
            low, high = stage[f"{kind}_interval"]
            assert 0 <= low <= stage[kind] <= high <= 1, (stage["stage"], kind)


def test_times_are_whole_nanoseconds() -> None:
    for stage in as_json(reports.bundled())["stages"]:
        assert all(type(stage[key]) is int for key in stage if key.endswith("_ns"))


def test_every_figure_is_that_of_the_report() -> None:
    report = reports.bundled()
    for row, share in zip(as_json(report)["stages"], report.shares, strict=True):
        assert row["work_ns"] == pytest.approx(share.work_ns, abs=0.5)
        assert row["cycle_share"] == pytest.approx(share.cycle_share.value, abs=5e-7)
        assert row["collective_share"] == pytest.approx(share.collective_share, abs=5e-7)


def test_what_is_not_known_is_null_and_never_nan() -> None:
    report = reports.bundled()
    nothing = Estimate(math.nan, math.nan, math.inf, 0)
    shares = tuple(replace(share, cycle_share=nothing, busy_share=None) for share in report.shares)
    text = json_text(replace(report, shares=shares, idle_share=nothing, other_share=math.nan))
    tree = json.loads(text)
    valid(tree)
    assert all(math.isfinite(number) for number in numbers(tree))
    assert tree["stages"][0]["cycle_share"] is None
    assert tree["stages"][0]["cycle_share_interval"] is None


def test_a_withheld_verdict_has_reasons_and_a_call_and_no_share() -> None:
    verdict = as_json(reports.drawn("two_cycles_give_figures_and_no_verdict"))["verdict"]
    assert verdict["refused"]
    assert "start_profile" in verdict["recapture"]
    assert (verdict["stage"], verdict["share"], verdict["interval"]) == (None, None, None)


def test_checks_are_part_of_the_report() -> None:
    check = parse("verify.share>=0.95")
    tree = as_json(
        reports.bundled(), [Checked(check, 0.9, False, (1,)), Checked(check, None, None)]
    )
    valid(tree)
    assert [row["passed"] for row in tree["checks"]] == [False, None]
    assert tree["checks"][0]["dissenting_ranks"] == [1]


def test_two_readings_give_the_same_bytes() -> None:
    paths = reports.ROOT / reports.BUNDLED
    first, second = (json_text(analyze(load(paths, cache=False))) for _ in range(2))
    assert first == second


def test_hostile_names_are_escaped_letter_by_letter() -> None:
    text = json_text(reports.hostile())
    assert text.isascii()
    assert not any(ord(letter) < 32 and letter != "\n" for letter in text)
