"""The page about sweeps names every key of sweep.json, and the schema is one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from specscope.profiler import sweep_file

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "traces" / "sweep.schema.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "sweep.md").read_text("utf-8")
ROW = SCHEMA["properties"]["rows"]["items"]["properties"]
KEYS = {*SCHEMA["properties"], *ROW, *SCHEMA["properties"]["best"]["items"]["properties"]}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_of_sweep_json_has_its_line(key: str) -> None:
    assert f"`{key}`" in PAGE.split("## sweep.json")[1]


@pytest.mark.parametrize("word", [*ROW["kind"]["enum"], *ROW["source"]["enum"]])
def test_every_word_has_its_line(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_writer_and_schema_are_of_one_version() -> None:
    assert SCHEMA["properties"]["schema_version"]["const"] == sweep_file.SCHEMA_VERSION


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_refuses_what_is_not_sweep_json() -> None:
    for wrong in ({}, {"schema_version": 1}, [], {"schema_version": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)
