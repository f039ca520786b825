"""The pages about commands, checks and the report say what there is."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from specscope.analyzers import checks
from specscope.analyzers.words import CAUSES
from specscope.capture_cli import capture_command
from specscope.cli import analyze_command, doctor_command, run_command
from specscope.collect_cli import collect_command
from specscope.compare_cli import compare_command
from specscope.convert_cli import convert_command
from specscope.dashboards.palette import STAGE_COLOURS
from specscope.export_cli import export_command
from specscope.query_cli import query_command
from specscope.ranks_cli import ranks_command
from specscope.record_cli import record_command
from specscope.scrub_cli import scrub_command
from specscope.sweep_cli import sweep_command
from specscope.traces import errors

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMMANDS, CHECKS, REPORT = (
    (DOCS / name).read_text("utf-8") for name in ("commands.md", "checks.md", "report.md")
)
ALL = (
    *(analyze_command, ranks_command, run_command, capture_command, record_command, sweep_command),
    *(query_command, export_command, compare_command, collect_command),
    *(convert_command, scrub_command, doctor_command),
)
OPTIONS = [
    option
    for command in ALL
    for parameter in command.params
    if isinstance(parameter, click.Option) and parameter.name != "version"
    for option in parameter.opts
    if option.startswith("--")
]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_has_its_line(option: str) -> None:
    assert f"`{option}" in COMMANDS


@pytest.mark.parametrize("parameter", [one for command in ALL for one in command.params])
def test_every_option_has_its_help(parameter: click.Parameter) -> None:
    assert not isinstance(parameter, click.Option) or parameter.help


@pytest.mark.parametrize("name", checks.names())
def test_every_name_of_a_check_has_its_line(name: str) -> None:
    assert f"`{name}`" in CHECKS


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_of_idle_is_named(cause: str) -> None:
    assert f"`{cause}`" in CHECKS


def test_every_key_of_the_report_is_named() -> None:
    schema = json.loads((DOCS / "report.schema.json").read_text("utf-8"))
    own = {"specscope_version", "schema_version"}
    for key in set(schema["properties"]) - own:
        assert f"`{key}`" in REPORT or f"`{key.removesuffix('_interval')}`" in REPORT, key


@pytest.mark.parametrize("stage", STAGE_COLOURS)
def test_every_colour_is_the_one_on_the_page(stage: str) -> None:
    assert f"| {stage.replace('_', '-')} | `{STAGE_COLOURS[stage]}` |" in REPORT


@pytest.mark.parametrize(
    "error", [errors.UsageError, errors.TraceFormatError, errors.EvidenceError]
)
def test_every_exit_code_of_an_error_has_its_line(error: type[errors.SpecscopeError]) -> None:
    assert f"| {error.exit_code} | " in COMMANDS
