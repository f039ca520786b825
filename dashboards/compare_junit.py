"""The checks of a comparison as JUnit XML: one test case a check, and one for the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from specscope.analyzers.compare_report import Comparison
from specscope.dashboards.checked import Checked, check_line
from specscope.dashboards.compare_sections import sentence
from specscope.dashboards.safe_text import clean

_SUITE = "specscope compare"


def junit_text(comparison: Comparison, checked: Sequence[Checked] = ()) -> str:
    """The document. A failed check is a failure, an undecided one an error.

    The comparison itself never fails: a difference may be what was wanted. Where no verdict is
    given it is skipped.
    """
    failures = sum(one.passed is False for one in checked)
    errors = sum(one.passed is None for one in checked)
    skipped = int(bool(comparison.refused))
    counts = {
        "tests": str(len(checked) + 1),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": str(skipped),
    }
    suites = Xml.Element("testsuites", counts)
    suite = Xml.SubElement(suites, "testsuite", {"name": _SUITE, **counts})
    case = Xml.SubElement(suite, "testcase", {"classname": _SUITE, "name": "comparison"})
    if comparison.refused:
        Xml.SubElement(case, "skipped", {"message": clean("; ".join(comparison.refused))})
    Xml.SubElement(case, "system-out").text = sentence(comparison)
    for one in checked:
        case = Xml.SubElement(
            suite, "testcase", {"classname": _SUITE, "name": clean(one.check.text)}
        )
        if one.passed is not True:
            tag = "error" if one.passed is None else "failure"
            Xml.SubElement(case, tag, {"message": check_line(one)})
    Xml.indent(suites)
    head = "<?xml version='1.0' encoding='utf-8'?>\n"
    return head + Xml.tostring(suites, encoding="unicode") + "\n"
