"""The page about captures names every key of run.json."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from specscope.profiler import run_file
from specscope.traces import context

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "traces" / "run.schema.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "capture.md").read_text("utf-8")


@pytest.mark.parametrize("key", SCHEMA["properties"])
def test_every_key_of_run_json_has_its_line(key: str) -> None:
    assert f"`{key}`" in PAGE.split("## run.json")[1]


def test_writer_reader_and_schema_are_of_one_version() -> None:
    version = SCHEMA["properties"]["schema_version"]["const"]
    assert version == run_file.SCHEMA_VERSION == context.SCHEMA_VERSION


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_refuses_what_is_not_run_json() -> None:
    for wrong in ({}, {"schema_version": 1}, [], {"schema_version": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)
