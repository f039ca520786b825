"""A comparison in every medium: letter by letter, by its schema, and safe against names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest

import specscope.dashboards
from specscope.analyzers import checks
from specscope.analyzers.compare import compare
from specscope.analyzers.compare_checks import COMPARISON
from specscope.dashboards.checked import Checked
from specscope.dashboards.compare_json import as_json, json_text
from specscope.dashboards.compare_junit import junit_text
from specscope.dashboards.compare_markdown import markdown_text
from specscope.dashboards.compare_terminal import plain_comparison
from tests.analyzers.comparisons import of_cases, of_own
from tests.dashboards import reports

SCHEMA_FILE = Path(specscope.dashboards.__file__).with_name("compare.schema.json")
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
Golden = Callable[[str, str], None]

PLAIN, SPECULATION = "tp2-8b-plain-nvlink-bs1", "tp2-8b-eagle3-k3-nvlink-bs1"
CHECKED = (
    Checked(checks.parse("verify.delta<=2%", COMPARISON), 0.075, False),
    Checked(checks.parse("draft.delta<=1%", COMPARISON), 0.0, True),
    Checked(checks.parse("idle.delta<=1%", COMPARISON), None, None, (), "cannot be decided"),
)


def test_a_difference_on_a_terminal(golden: Golden) -> None:
    golden("compare_slower.txt", plain_comparison(of_cases("c01_base", "c01_slower")))


def test_no_difference_on_a_terminal(golden: Golden) -> None:
    golden("compare_noise.txt", plain_comparison(of_cases("c01_base", "c01_noise")))


def test_no_verdict_on_a_terminal(golden: Golden) -> None:
    golden("compare_too_few.txt", plain_comparison(of_cases("a07_item_sync", "c01_base")))


def test_speculation_against_plain_decoding_on_a_terminal(golden: Golden) -> None:
    golden("compare_against.txt", plain_comparison(of_own(PLAIN, SPECULATION)))


def test_a_slow_link_on_a_terminal(golden: Golden) -> None:
    pair = "tp2-70b-eagle3-k3-shm-bs8", "tp2-70b-eagle3-k3-nvlink-bs8"
    golden("compare_link.txt", plain_comparison(of_own(*pair)))


def test_a_difference_for_a_pull_request(golden: Golden) -> None:
    golden("compare_slower.md", markdown_text(of_cases("c01_base", "c01_slower"), CHECKED))


def test_every_line_fits_a_pipe() -> None:
    pairs = [
        of_own(PLAIN, SPECULATION),
        of_own("tp2-70b-eagle3-k3-shm-bs8", "tp2-70b-eagle3-k3-nvlink-bs8"),
        of_cases("c01_base", "c01_slower"),
        of_cases("a01_plain", "n01_kernel_names"),
    ]
    for found in pairs:
        assert max(map(len, plain_comparison(found).splitlines())) <= 80


def test_the_schema_is_one_and_the_docs_have_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    docs = reports.ROOT / "docs" / "compare.schema.json"
    assert docs.read_bytes() == SCHEMA_FILE.read_bytes()


@pytest.mark.parametrize(
    "pair",
    [
        ("c01_base", "c01_slower"),
        ("c01_base", "c01_base"),
        ("a07_item_sync", "c01_base"),
        ("a01_plain", "n01_kernel_names"),
        ("b10_no_gpu_events", "c01_base"),
    ],
)
def test_the_json_of_every_case_fits_the_schema(pair: tuple[str, str]) -> None:
    tree = json.loads(json_text(of_cases(*pair), CHECKED))
    jsonschema.Draft202012Validator(SCHEMA).validate(tree)


def test_the_json_of_speculation_against_plain_fits_and_sums() -> None:
    tree = as_json(of_own(PLAIN, SPECULATION))
    jsonschema.Draft202012Validator(SCHEMA).validate(tree)
    parts = tree["against"]["parts"]
    assert all(part["cycle_ns"] - part["step_ns"] == part["change_ns"] for part in parts)


def test_the_full_name_of_a_kernel_is_in_the_json() -> None:
    names = {one["name"] for one in as_json(of_cases("a01_plain", "n01_kernel_names"))["kernels"]}
    assert max(map(len, names)) > 120


def test_junit_counts_what_failed_and_what_is_undecided() -> None:
    suites = Xml.fromstring(junit_text(of_cases("c01_base", "c01_slower"), CHECKED))
    counts = {name: suites.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "0"}
    failed = suites.find(".//testcase[@name='verify.delta<=2%']/failure")
    assert failed is not None
    assert "FAILED, it is 7.5 %" in str(failed.get("message"))
    assert suites.find(".//testcase[@name='draft.delta<=1%']/failure") is None


def test_junit_skips_a_comparison_without_a_verdict() -> None:
    suites = Xml.fromstring(junit_text(of_cases("a07_item_sync", "c01_base")))
    skipped = suites.find(".//testcase[@name='comparison']/skipped")
    assert skipped is not None
    assert "3 are needed" in str(skipped.get("message"))


def hostile() -> Any:
    label = "\x1b[31mred\x1b[0m </script><img src=x> @you | `x`"
    return compare(reports.hostile(), reports.drawn(next(iter(reports.CASES))), (label, "b\u202e"))


def test_names_from_traces_and_paths_do_nothing_to_a_terminal_a_page_or_xml() -> None:
    found = hostile()
    for text in (
        plain_comparison(found),
        markdown_text(found),
        junit_text(found),
        json_text(found),
    ):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e\u2066\u2028]", text)
    assert "<img" not in markdown_text(found)
    assert "<script" not in markdown_text(found)
    Xml.fromstring(junit_text(found))
